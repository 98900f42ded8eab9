import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
from confluent_kafka import Consumer, TopicPartition

from haltline.schemas.control import ControlState
from haltline.schemas.decisions import Approval, Decision, Level, ScopeKind
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.subprocesses import Children
from haltline.streams.local.system import start_worker, wait_until_ready
from tests.clients.typescript import CLIENT, require_built
from tests.interventions.agent.stand_in import PARTITIONS, StandIn, decision, now_ms, standing
from tests.mock_cluster import QuickBroker
from tests.waiting import wait_until

WORKING = Path(__file__).with_name("working_agent.mjs")
SECRET = "AKIAIOSFODNN7EXAMPLE"


@contextmanager
def intake(folder: Path, bootstrap: str, *options: str) -> Iterator[str]:
    """The address of `haltline intake`."""
    with Children(folder) as children:
        command = ["intake", "--bootstrap", bootstrap, "--port", "0", "--budget", "20", *options]
        child = children.start_module("intake", "haltline.cli", command)
        children.wait_until(lambda: "http://" in child.log_file.read_text(), "the intake to serve", within_s=60)
        yield next(line for line in child.log_file.read_text().splitlines() if line.startswith("http://"))


TRANSPILE = """
import ts from "typescript";
import { readFileSync, writeFileSync } from "node:fs";
const [, file, url] = process.argv;
const [, program] = readFileSync("README.md", "utf8").match(/```ts\\n(.*?)```/s);
const script = ts.transpile(program, { target: "ES2023", module: "ESNext" });
writeFileSync(file, script.replace("http://127.0.0.1:8765", url));
"""
"""The first program of the page, as JavaScript."""


def said_by(*command: str) -> list[str]:
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def records(bootstrap: str, topic: str) -> bytes:
    """All that is on a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reads", "enable.partition.eof": False})
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 10)[1] for p in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, p, 0) for p in ends])
    found: list[bytes] = []
    wait_until(lambda: _read(consumer, found) == sum(ends.values()), "all records of the topic")
    consumer.close()
    return b"\n".join(found)


def _read(consumer: Consumer, found: list[bytes]) -> int:
    found += [message.value() or b"" for message in consumer.consume(1000, 0.2) if message.error() is None]
    return len(found)


def test_an_agent_is_stopped_at_its_third_delete_and_no_secret_reaches_the_broker(tmp_path: Path) -> None:
    node = require_built()
    with QuickBroker() as broker, Children(tmp_path / "logs") as children:
        broker.ensure_topics(Topics())
        wait_until_ready(children, start_worker(children, broker.bootstrap, embedded=True))
        with intake(tmp_path / "intake", broker.bootstrap) as url:
            printed = said_by(node, "examples/agent.mjs", url, "js-1", f"password=hunter2 {SECRET}")
        actions = records(broker.bootstrap, Topics().actions)
    assert printed == ["deleted fact_sales", "deleted fact_sales", "stopped: session_killed_loop_guard"]
    events = [orjson.loads(line) for line in actions.splitlines()]
    kinds = [event["kind"] for event in events]
    assert (kinds[0], kinds[-1]) == (Kind.SESSION_STARTED, Kind.SESSION_ENDED)
    assert (kinds.count(Kind.SESSION_STARTED), kinds.count(Kind.SESSION_ENDED)) == (1, 1)
    outcomes = [event["outcome"] for event in events if event["kind"] == Kind.COMPLETED]
    assert outcomes == [Outcome.OK, Outcome.OK, Outcome.REFUSED]
    proposed = [event for event in events if event["kind"] == Kind.PROPOSED]
    assert proposed[0]["args"]["note"] == "password=[redacted:password] [redacted:aws_access_key]"
    assert SECRET.encode() not in actions
    assert b"hunter2" not in actions


def test_an_operators_kill_ends_the_run(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    node = require_built()
    with (
        StandIn(embedded.bootstrap, lambda _: Level.ALLOW) as worker,
        intake(tmp_path, embedded.bootstrap) as url,
        subprocess.Popen([node, str(WORKING), url, "s1"], stdout=subprocess.PIPE, text=True) as agent,
    ):
        wait_until(lambda: worker.of(Kind.COMPLETED, "s1"), "the agent works")
        worker.control(standing(state=ControlState.KILLED, code="session_killed_by_operator"))
        printed, _ = agent.communicate(timeout=60)
    assert agent.returncode == 0
    assert printed.splitlines()[-1] == "stopped: session_killed_by_operator session_killed_by_operator"


ASKS = (
    "--input-type=module",
    "--eval",
    """
import { httpSession } from "./dist/index.js";
const [, url, said] = process.argv;
const [name, args, padding, options] = JSON.parse(said);
for (let at = 0; at < padding; at++) args[`a${at}`] = ["x".repeat(100)];
const session = httpSession({ url, sessionId: "s1", agentId: "a", ...options });
const verdict = await session.before(undefined, name, args);
console.log(verdict.allowed ? "allowed" : verdict.code);
await session.end();
""",
)
"""Proposes one call."""


def test_large_arguments_do_not_hide_a_target_that_is_frozen(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    node = require_built()
    padding = 3000  # what is sent of `args` names no path

    def asked(url: str, path: str, padding: int = 0) -> list[str]:
        return said_by(node, *ASKS, url, json.dumps(["bash", {"path": path}, padding, {}]))

    with StandIn(embedded.bootstrap, lambda _: Level.ALLOW) as worker, intake(tmp_path, embedded.bootstrap) as url:
        entry = standing(ScopeKind.TARGET, "path=/etc", state=ControlState.FROZEN, code="target_frozen_by_operator")
        worker.control(entry)
        wait_until(lambda: asked(url, "/etc") == ["target_frozen_by_operator"], "the entry has arrived")
        assert asked(url, "/etc", padding) == ["target_frozen_by_operator"]
        assert asked(url, "/srv", padding) == ["allowed"]


def test_a_write_that_a_person_has_not_approved_in_time_is_not_made(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    node = require_built()

    def say(event: ActionEvent) -> Decision:
        request = {"request_id": "r1", "nonce": "n", "parameters": "p" * 32, "since": now_ms()}
        approval = Approval.model_validate(request | {"expires": now_ms() + 600_000})
        return decision(Level.PAUSE, event).model_copy(update={"approval": approval})

    options = {"effects": {"work": "write"}, "budgetMs": 1000, "approvalWaitMs": 0, "failClosedFrom": None}
    with StandIn(embedded.bootstrap, say), intake(tmp_path, embedded.bootstrap) as url:
        assert said_by(node, *ASKS, url, json.dumps(["work", {}, 0, options])) == ["approval_pending"]


def test_the_program_of_the_page_is_stopped_by_an_intake_that_needs_no_broker(tmp_path: Path) -> None:
    node = require_built()
    with Children(tmp_path) as children:
        child = children.start_module("intake", "haltline.cli", ["intake", "--mode", "local", "--port", "0"])
        children.wait_until(lambda: "http://" in child.log_file.read_text(), "the intake to serve", within_s=60)
        url = next(line for line in child.log_file.read_text().splitlines() if line.startswith("http://"))
        program = CLIENT / "build" / f"readme-{tmp_path.parent.name}.mjs"  # in the package, whose name it imports
        try:
            said_by(node, "--input-type=module", "--eval", TRANSPILE, str(program), url)
            printed = said_by(node, str(program))
        finally:
            program.unlink(missing_ok=True)
    assert printed[0] == "fact_sales still exists"
    assert printed[1:3] == ["fact_sales still exists", ""]
    assert printed[3].startswith("You have done this to asset_id=fact_sales before"), "the hint for the model"
    assert printed[-1].startswith("session_killed_loop_guard: This session was stopped.")


def test_the_package_has_its_types_and_nothing_of_its_tests() -> None:
    require_built()
    npm = shutil.which("npm")
    assert npm is not None
    done = subprocess.run(
        [npm, "pack", "--dry-run", "--json", "--ignore-scripts"], cwd=CLIENT, capture_output=True, text=True, check=True
    )
    (packed,) = json.loads(done.stdout)
    files = {file["path"] for file in packed["files"]}
    assert {"package.json", "README.md", "dist/index.js", "dist/index.d.ts", "dist/http.js"} <= files
    assert {file.split("/")[0] for file in files} <= {"package.json", "README.md", "LICENSE", "dist"}
    assert not [file for file in files if "test" in file.removeprefix("dist/testing")]
    assert not {name for name in os.listdir(CLIENT) if name.endswith(".tgz")}


def test_the_locked_packages_name_no_address() -> None:
    locked = json.loads((CLIENT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert not {name for name, package in locked.items() if "resolved" in package}
    assert all("integrity" in package for name, package in locked.items() if name)
