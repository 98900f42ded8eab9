"""Every process and command over TLS, with passwords and keys in files and variables only; decisions are signed."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from haltline.console.access.keys import digest_of, new_key
from haltline.interventions.agent import Guard, Refused
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.keys import make_keys
from haltline.streams.audit.query import open_query
from haltline.streams.local.subprocesses import Child, Children
from haltline.streams.local.system import wait_until_ready
from tests.streams.commands import haltline
from tests.streams.secured.cluster import USERS, Cluster, password_of
from tests.streams.secured.pki import Authority
from tests.waiting import wait_until

WITHIN_S: Final = 120.0


class System:
    """Worker, sink, console and intake, each as a user of its own."""

    def __init__(self, cluster: Cluster, children: Children, folder: Path) -> None:
        self.cluster, self.children, self.folder = cluster, children, folder
        self.key = new_key()
        self.table = folder / "audit"
        (folder / "keys.yaml").write_text(f"- {{name: ada, role: admin, sha256: {digest_of(self.key)}}}\n")
        public = make_keys(folder / "worker-key.pem")
        self.seals = {"HALTLINE_SEALING_KEY": f"{folder}/worker-key.pem"}
        self.verifies = {"HALTLINE_VERIFY_KEY": str(public)}
        database = f"sqlite:///{folder}/console.db"
        free = ("--metrics-port", "0")
        worker = self.start("worker", "worker", "--checkpoint-interval", "0.2", *free, **self.seals)
        sink = self.start("audit", "audit", "--table", str(self.table), "--flush", "0.5", *free)
        console = self.start(
            "console", "console", "--port", "0", "--database", database, "--keys", f"{folder}/keys.yaml"
        )
        intake = self.start("agent", "intake", "--port", "0", "--budget", "30", **self.verifies)
        self.worker = wait_until_ready(children, worker)
        self.sink, self.console, self.intake = self.follow(sink), self.follow(console), self.follow(intake)

    def start(self, user: str, *command: str, **more: str) -> Child:
        env = self.cluster.environment(user) | more
        return self.children.start_module(command[0], "haltline.cli", command, env=env)

    def follow(self, child: Child) -> str:
        """The address of a process, once it has printed it."""
        pattern = re.compile(r"(?:serves .*on port |http://127\.0\.0\.1:)(\d+)")
        self.children.wait_until(lambda: pattern.search(child.log_file.read_text()), child.name, within_s=WITHIN_S)
        found = pattern.search(child.log_file.read_text())
        assert found is not None
        return f"http://127.0.0.1:{found[1]}"

    def ask(self, url: str, body: object = None) -> Any:
        """The response of a process; None while there is none."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60) as answer:
                result = answer.read().decode()
        except urllib.error.HTTPError:
            return None
        return result if url.endswith("/metrics") else json.loads(result)

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        self.children.wait_until(condition, what, within_s=WITHIN_S)


@contextmanager
def guard_of(system: System, session: str) -> Iterator[Guard]:
    """A guard that is told of Kafka by the environment alone."""
    environ = system.cluster.environment("agent") | system.verifies
    settings = GuardSettings.from_env(environ, session_id=session, mode="blocking")
    with Guard(settings, agent_id="cleaner", budget_s=60.0, start_budget_s=60.0) as guard:
        yield guard


def delete(guard: Guard, asset: str = "fact_sales") -> None:
    with guard.action("delete_asset", args={"asset_id": asset}, targets=[f"asset_id={asset}"]):
        pass


@pytest.mark.kafka
def test_a_runaway_is_stopped_kept_and_shown_over_tls(cluster: Cluster, tmp_path: Path) -> None:
    reported = []
    with Children(tmp_path / "logs") as children:
        system = System(cluster, children, tmp_path)
        with guard_of(system, "loops") as guard:
            delete(guard)
            delete(guard)
            with pytest.raises(Refused):
                delete(guard)
        with guard_of(system, "goes on") as guard:
            delete(guard, asset="another")
            killing = ("kill", "goes on", "--by", "ada", "--reason", "so", "--timeout", "60")
            reported.append(said_by(cluster, "operator", *killing))
            wait_until(lambda: guard.killed, "the kill has reached the agent", deadline_s=WITHIN_S)
            with pytest.raises(Refused):
                delete(guard, asset="a third")
        release = ("reset", "goes on", "--by", "ada", "--reason", "so", "--timeout", "60")
        reported.append(said_by(cluster, "operator", *release))
        with guard_of(system, "goes on") as guard, guard.action("read_asset"):
            pass
        call = {"session_id": "elsewhere", "action": "look_up", "args": {}}
        assert system.ask(f"{system.intake}/v1/verdict", call)["allowed"] is True
        standing = f"{system.console}/api/v1/control"
        system.wait_until(
            lambda: "loops" in {of["id"] for of in system.ask(standing) or ()}, "the console shows the kill"
        )
        reported.append(str(system.ask(f"{system.console}/api/v1/kill", {"id": "elsewhere", "reason": "so"})))
        assert "'answered': True" in reported[-1]
        assert system.ask(f"{system.console}/api/v1/fleet/lag")
        query = "SELECT count(*) AS n FROM audit WHERE topic LIKE '%control' AND key = 'session:elsewhere'"
        system.wait_until(
            lambda: (system.table / "_delta_log").exists() and open_query(system.table).rows(query)[0]["n"] > 0,
            "the sink has kept the last kill",
        )
        reported.append(said_by(cluster, "operator", "tail", "--from-beginning", "--count", "1"))
        reported.append(said_by(cluster, "operator", "replay", "kafka", "--json"))
        canary = ("canary", "--within", "60s", "--verify-key", system.verifies["HALTLINE_VERIFY_KEY"])
        reported.append(said_by(cluster, "canary", *canary))
        reported.append(said_by(cluster, "operator", "status", "loops", code=1))
        at = ["--worker", system.worker, "--sink", system.sink, "--console", system.console]
        reported.append(said_by(cluster, "admin", "doctor", *at, "--json"))
        verdicts = {check["what"]: check["verdict"] for check in json.loads(reported[-1])}
        may_differ = {"canary", "clocks", "intake", "shadow workers' progress"}
        assert {what for what, verdict in verdicts.items() if verdict != "ok"} <= may_differ, reported[-1]
        for address in (system.worker, system.sink, system.console):
            assert "haltline_consumer_lag_records{" in system.ask(f"{address}/metrics")
    reported += [file.read_text() for file in (tmp_path / "logs").iterdir()]
    assert_no_password_in(reported)


def said_by(cluster: Cluster, user: str, *command: str, code: int = 0) -> str:
    """The output of a command that must succeed."""
    actual, output = cluster.run(user, *command)
    assert actual == code, f"{command}: {output}"
    return output


def assert_no_password_in(texts: list[str]) -> None:
    assert not [text for text in texts for user in (*USERS, "key") if password_of(user) in text]
    assert not [text for text in texts if WRONG in text]


WRONG: Final = "mistyped-password"
ASKING: Final = (
    "topics check", "topics acls --apply", "status", "kill s1 --by ada --reason so", "tail", "replay kafka", "canary",
    "worker --metrics-port 0", "audit --metrics-port 0",
)  # fmt: skip
BY_PASSWORD: Final = "Authentication failed during authentication due to invalid credentials"


def wrong(cluster: Cluster, changes: Mapping[str, str | None]) -> dict[str, str]:
    """The environment of a process whose file is not right."""
    file = cluster.file("admin", name="wrong", **changes)
    return {"HALTLINE_BOOTSTRAP": cluster.bootstrap, "HALTLINE_CLIENT_CONFIG": str(file)}


@pytest.mark.kafka
def test_what_is_not_right_is_reported_at_once_by_every_command(cluster: Cluster) -> None:
    stranger = str(Authority(cluster.folder, "stranger").file)
    no_certificate: dict[str, str | None] = {"ssl_key_location": None, "ssl_certificate_location": None}
    for changes, why, asking in (
        ({"sasl_password": WRONG}, BY_PASSWORD, ASKING),
        ({"ssl_ca_location": stranger}, "certificate verify failed", ASKING[:1]),  # another vouches for the broker
        (no_certificate, "alert bad certificate", ASKING[:1]),
    ):
        env = wrong(cluster, changes)
        for command in asking:
            done = haltline(*command.split(), env=env)
            expected = f"haltline: broker {cluster.bootstrap}: expected an answer within 5 s, got "
            assert (done.exit_code, done.stderr.startswith(expected)) == (3, True), f"{command}: {done.output}"
            assert why in done.stderr
            assert_no_password_in([done.output])
