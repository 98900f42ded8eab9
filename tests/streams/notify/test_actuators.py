"""Actuators: the recipes of `examples/actuators` against stand-ins of the APIs, and what becomes of a kill."""

import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from haltline.schemas.control import ControlRecord
from haltline.schemas.dead_letter import BadRecord
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import free_port
from haltline.streams.notify.config import BadConfig, Config, load_config
from haltline.streams.notify.orders import BadValue, Call, example_kill, orders_of
from tests.builders import cases
from tests.streams.commands import haltline
from tests.streams.notify.receivers import PATH, receiver
from tests.streams.notify.running import System
from tests.streams.notify.test_notifier import sample
from tests.waiting import wait_until

EXAMPLES = Path(__file__).parents[3] / "examples" / "actuators"
NAMES = {"token_file": "token", "ca_file": None, "secret_file": "secret"}


@pytest.fixture
def system(embedded: EmbeddedBroker, tmp_path: Path) -> System:
    (tmp_path / "token").write_text("t0ken")
    return System(embedded.bootstrap, Topics(), tmp_path)


def kill(session: str = "s1", agent: str = "cleaner", ago_s: float = 0.0, **fields: Any) -> ControlRecord:
    made = example_kill(session, agent, "operator", round((time.time() - ago_s) * 1000))
    return made.model_copy(update={"decision_id": f"kill-of-{session}", "by": "ada", **fields})


def order(system: System, record: ControlRecord, *, released: bool = False) -> None:
    value = None if released else record.to_json()
    produce_confirmed(system.bootstrap, system.topics.control, key=record.key.encode(), value=value)


def write(system: System, actuators: dict[str, Any], resources: Any = None) -> None:
    document = {"resources": resources or {"cleaner": {"job": "nightly"}}, "actuators": actuators}
    system.file.write_bytes(orjson.dumps(document))


@cases(
    "agent, session, called, answered",
    {
        "a job, after its cron job is suspended": ("cleaner", "s1", ["suspend-cronjob", "delete-job"], "200"),
        "a pod, and the gateway's key": ("report-a", "report-7", ["block-key", "delete-pod"], "200"),
        "a pod that is gone": ("report-a", "report-8", ["block-key", "delete-pod"], "404"),
        "a CI job, after its workflow": ("builder", "9876", ["disable-workflow", "cancel-run"], "202"),
        "a unit, after its timer": ("indexer", "s1", ["stop-timer", "stop-unit"], "204"),
    },
)
def test_each_recipe_reaches_what_the_map_names(
    system: System, agent: str, session: str, called: list[str], answered: str
) -> None:
    port, folder, document = free_port(), system.file.parent, yaml.safe_load((EXAMPLES / "actuators.yaml").read_text())
    (folder / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {folder}/stopped\n')
    (folder / "systemctl").chmod(0o755)
    arguments = [EXAMPLES / "stop_unit.py", "--secret-file", folder / "secret", "--port", str(port)]
    units = subprocess.Popen(
        [sys.executable, *map(str, arguments), "--allow", "indexer.*"],
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with receiver("api") as there:
            for one in document["actuators"].values():
                one["url"] = f"{there.url.removesuffix(PATH)}/{one['url'].split('/', 3)[3]}"
                one.update({name: file for name, file in NAMES.items() if name in one})
                if "secret_file" in one:
                    one["url"] = f"http://127.0.0.1:{port}/"
            write(system, document["actuators"], document["resources"])
            order(system, kill(session, agent))
            with system.running():
                found = system.wait_for(len(called))
        assert {(record.channel, record.outcome.value) for record in found} == {(name, "sent") for name in called}
        assert answered in {record.detail[:3] for record in found}
        first = [one.asked for one in there.heard] or (folder / "stopped").read_text().splitlines()
        assert ([word in first[0] for word in ("cronjobs", "disable", "timer")], len(first)) == (
            [called[0] == name for name in ("suspend-cronjob", "disable-workflow", "stop-timer")], 2
        )  # fmt: skip
    finally:
        units.kill()
        units.wait()


def hook(url: str, **fields: Any) -> dict[str, Any]:
    return {"url": f"{url}/{{job}}", "secret_file": "secret", **fields}


def test_a_kill_is_called_until_it_is_answered_once_signed_and_a_restart_calls_no_more(system: System) -> None:
    with receiver("webhook") as there:
        there.answers.append((503, {}, "busy"))
        write(system, {"hook": hook(there.url), "rules": hook(there.url, causes=["loop_guard"])})
        for record in (kill(ago_s=3600), kill("s2", "other"), kill("s3")):
            order(system, record)
        with system.running() as (_, metrics):
            found = {record.session_id: record for record in system.wait_for(2)}
            wait_until(lambda: sample(metrics, "kills_unconfirmed") == 1, "the one that was too old is unconfirmed")
        assert {name: one.outcome.value for name, one in found.items()} == {"s1": "too_old", "s3": "sent"}
        assert (found["s3"].attempts, found["s3"].detail) == (2, "204")
        assert [one.headers["webhook-id"] for one in there.heard] == [found["s3"].notification_id] * 2
        event = there.heard[-1].body
        assert (event["subject"], event["data"]["resources"]["job"]) == ("session:s3", "nightly")
        show = partial(haltline, "incidents", "show", "--bootstrap", system.bootstrap)
        shown = [show(name).output.splitlines() for name in ("s1", "s3")]
        assert [line.partition("Z  ")[2] or line for line in shown[0]] == [
            "kill ordered by ada", "not acknowledged by the agent's side", "not confirmed by hook (too_old)",
            "nothing confirms this kill",
        ]  # fmt: skip
        assert shown[1][-1].endswith("Z  confirmed by hook after 2 attempts: 204")
        order(system, kill("s3", stopped_at=kill().since))
        order(system, kill("s4", code="session_killed_loop_guard", by="haltline"))
        with system.running():
            assert {record.channel for record in system.wait_for(3)} == {"hook", "rules"}
        assert len(there.heard) == 3


def test_a_refusal_is_a_dead_letter_and_a_released_kill_is_called_no_more(system: System) -> None:
    with receiver("json") as first, receiver("json") as then:
        first.holds = threading.Event()
        write(system, {"off": {**hook(first.url, body={}), "disarm": True}, "job": hook(then.url, body={"a": "{job}"})})
        with system.running() as (notifier, _):
            order(system, kill())
            wait_until(lambda: first.heard, "the scheduler is called")
            order(system, kill(), released=True)
            order(system, kill("s2", decision_id="kill-2"))
            wait_until(lambda: len(first.heard) == 2, "and that of the next kill")
            assert then.heard == [], "what disarms has not ended"
            then.answers.append((403, {}, "forbidden"))
            first.holds.set()
            system.wait_for(3)
            wait_until(lambda: notifier.waiting == 0, "nothing waits")
        found = {(one.session_id, one.channel): one.outcome.value for one in system.recorded()}
        assert found == {("s1", "off"): "sent", ("s2", "off"): "sent", ("s2", "job"): "failed"}
        ((letter),) = system.letters()
        assert (letter.reason, letter.topic) == (BadRecord.UNDELIVERED, system.topics.control)


VALUES = {"job": "ü/%", "kind": 'a"b\n', "up": "..", "empty": "", "line": "a\r\nx: y", "of": "{session}"}


def called(**fields: Any) -> Call:
    actuator = {"url": "https://h/x", "body": {}, **fields}
    config = Config.model_validate({"resources": {"cleaner": VALUES}, "actuators": {"a": actuator}})
    (made,) = orders_of(config, kill("a b"))
    return made.call()


def test_values_are_escaped_for_where_they_stand_and_what_would_be_another_request_is_not_sent() -> None:
    call = called(url="https://h/{of}/x?q={job}&k={kind}", body={"k": ["{kind}", 1]}, headers={"X-Of": "v {of}"})
    assert call.url == "https://h/a%20b/x?q=%C3%BC%2F%25&k=a%22b%0A"
    assert (call.body, call.headers["x-of"]) == (b'{"k":["a\\"b\\n",1]}', "v a b")
    for fields, problem in (
        ({"url": "https://h/jobs/{up}"}, "expected one segment of a path for {up}, got '..'"),
        ({"url": "https://h/jobs/{empty}"}, "got ''"),
        ({"url": "https://h/jobs/{job}"}, "got 'ü/%'"),
        ({"headers": {"x": "{line}"}}, "headers: expected printable ASCII"),
    ):
        with pytest.raises(BadValue) as bad:
            called(**fields)
        assert problem in str(bad.value)


def test_a_document_is_checked_and_a_dry_run_prints_what_would_be_called(system: System) -> None:
    for resources, actuator, problem in (
        (None, {"url": "https://h/{jbo}"}, "a: expected names of some resource, got {jbo}"),
        ({"a": {"pod": "{sesion}"}}, {}, "resources: a: expected names of agent, by, decision, session"),
        (None, {"url": "https://{job}/x"}, "expected an address with https:// and a fixed host"),
        (None, {"body": None}, "secret_file: expected one"),
    ):
        write(system, {"a": {"url": "https://h", "body": {}, **actuator}}, resources)
        with pytest.raises(BadConfig) as refused:
            load_config(system.file)
        assert problem in str(refused.value)
    token = {"url": "https://h/{job}", "body": {"s": "{session}"}, "method": "DELETE", "token_file": "token"}
    resources = {"cleaner": {"job": "nightly"}, "*": {"job": "any"}, "nobody": {}}
    write(system, {"job": token, "cron": {**token, "disarm": True}}, resources)
    run = partial(haltline, "notify", "dry-run", "s 1", "--config", system.file)
    printed = orjson.loads(run("--agent", "cleaner", "--json").stdout)
    assert [(one["actuator"], one["method"], one["url"], one["body"]) for one in printed] == [
        ("cron", "DELETE", "https://h/nightly", '{"s":"s 1"}'), ("job", "DELETE", "https://h/nightly", '{"s":"s 1"}')
    ]  # fmt: skip
    text = run("--agent", "cleaner").stdout
    assert ("cron (before the others): DELETE" in text, "Bearer ***" in text, "t0ken" in text) == (True, True, False)
    assert [run("--agent", "nobody").exit_code, run("--agent", "cleaner", "--cause", "budget").exit_code] == [1, 1]
