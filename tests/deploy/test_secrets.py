"""A run with planted secrets, which no process may write anywhere."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from haltline.console.access.keys import digest_of, new_key
from haltline.schemas.keys import make_keys
from haltline.schemas.topics import Topics
from haltline.streams.audit.query import open_query
from haltline.streams.audit.verify import Verifier
from tests.deploy.system import System, ask, running
from tests.waiting import wait_until

WITHIN_S = 90.0


def plant(name: str) -> str:
    """A secret by which its finding place can be told."""
    return f"PLANTED{name}9f8e7d6c5b4a"


OF_AGENTS = {
    "an argument": {"action": "connect", "args": {"password": plant("argument")}},
    "a list": {"action": "connect", "args": {"users": [{"name": "ada", "api_key": plant("nested")}]}},
    "a command": {"action": "bash", "args": {"command": f"curl -u ada:{plant('curl')} https://example.org"}},
    "a variable": {"action": "bash", "args": {"command": f"export AWS_SECRET_ACCESS_KEY={plant('variable')}; deploy"}},
    "a header": {"action": "http_get", "args": {"headers": {"Authorization": f"Bearer {plant('bearer')}"}}},
    "an address": {"action": "bash", "args": {"command": f"psql postgres://ada:{plant('url')}@db/prod"}},
    "a kill": {"action": "delete_asset", "args": {"asset_id": "a", "token": plant("destroys")}},
}
"""The agents' calls, by the place of the secret."""


def work(intake: str, token: str) -> None:
    """Each call thrice, so that something is found, said of it and stopped, with what came of it."""
    for number in range(3):
        for where, output in OF_AGENTS.items():
            call = {"session_id": f"s {where}", "call_id": f"c{number} {where}", **output}
            answer = ask(intake, "/v1/verdict", call, token)
            assert answer is not None, where
            if answer["allowed"]:
                error = f"denied: password={plant('error')} token: {plant('message')}"
                result = {key: call[key] for key in ("session_id", "call_id")} | {"error": error}
                assert ask(intake, "/v1/result", result, token) is not None, where


def publish_in_the_clear(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number in range(3):
        event = {
            "event_id": f"clear {number}", "kind": "action.completed", "session_id": "clear",
            "time": 1_750_000_000_000 + number, "action": "delete_asset", "targets": ["asset_id=a"],
            "args": {"asset_id": "a", "password": plant("clear")}, "error": f"secret={plant('clear')}",
        }  # fmt: skip
        producer.produce(Topics().actions, key=b"clear", value=json.dumps(event).encode())
    producer.produce(Topics().actions, key=b"bad", value=f"no JSON, password={plant('letter')}".encode())
    assert producer.flush(30) == 0


def values(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        for name, value in row.items():
            text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
            yield f"{row.get('topic')}: {name}", text


def in_table(table: Path) -> Iterator[tuple[str, str]]:
    yield from values(open_query(table).rows("SELECT * FROM audit"))
    for file in (table / "_delta_log").glob("*.json"):
        yield f"{file.name}", file.read_text()


def in_database(file: Path) -> Iterator[tuple[str, str]]:
    with sqlite3.connect(file) as connection:
        connection.row_factory = sqlite3.Row
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # its own names
            yield from ((table, text) for _, text in values(map(dict, rows)))


def found(places: Iterable[tuple[str, str]], secrets: Iterable[str]) -> set[tuple[str, str]]:
    known = tuple(secrets)
    return {(where, secret) for where, text in places for secret in known if secret in text}


def test_no_secret_is_in_a_log_the_audit_or_the_console(tmp_path: Path) -> None:
    key, token = new_key(), plant("token")
    (tmp_path / "keys.yaml").write_text(f"- {{name: ada, role: admin, sha256: {digest_of(key)}}}\n")
    (tmp_path / "token").write_text(token)
    (tmp_path / "client.properties").write_text(
        f"security.protocol=PLAINTEXT\nsasl.password={plant('sasl')}\nssl.key.password={plant('ssl')}\n"
    )
    public = make_keys(tmp_path / "key.pem")
    config = ["--client-config", str(tmp_path / "client.properties")]
    environment = {"HALTLINE_DIGEST_KEY": plant("digest"), "AWS_SECRET_ACCESS_KEY": plant("environment")}
    sink = ["--signing-key", str(tmp_path / "key.pem"), "--storage-option", f"AWS_SECRET_ACCESS_KEY={plant('store')}"]
    with running(tmp_path, worker=config, audit=[*config, *sink]) as system:
        serve = ["console", "--port", "0", "--database", f"sqlite:///{tmp_path}/console.db"]
        console = system.start("console", [*serve, "--keys", str(tmp_path / "keys.yaml"), *config], **environment)
        listen = ["intake", "--port", "0", "--budget", "30", "--token-file", str(tmp_path / "token")]
        intake = system.start("intake", listen, **environment)
        assert ask(intake, "/v1/verdict", {"session_id": "s", "action": plant("refused")}, plant("stranger")) is None
        assert ask(console, f"/api/v1/sessions?token={plant('query')}", None, plant("stranger")) is None
        work(intake, token)
        publish_in_the_clear(system.bootstrap)
        wait_until(lambda: is_known(console, key), "the console has all of it", deadline_s=WITHIN_S)
        wait_until(lambda: is_kept(system), "the audit has all of it", deadline_s=WITHIN_S)
    pem = (tmp_path / "key.pem").read_text().splitlines()[1]
    planted = {
        *(plant(name) for name in ("argument", "nested", "curl", "variable", "bearer", "url", "destroys", "error")),
        *(plant(name) for name in ("message", "clear", "letter", "sasl", "ssl", "digest", "environment", "store")),
        *(plant(name) for name in ("refused", "stranger", "query")),
        key, token, pem,
    }  # fmt: skip
    logs = [(file.name, file.read_text(errors="replace")) for file in (tmp_path / "logs").iterdir()]
    assert {name for name, _ in logs} == {"worker.log", "audit.log", "console.log", "intake.log"}
    assert found(logs, planted) == set()
    kept = list(in_table(tmp_path / "audit"))
    assert found(kept, planted) == set()
    for what in ("error", "args", "dead-letter"):  # it was there, and is not
        assert [text for where, text in kept if what in where + text and "[redacted:" in text]
    assert found(in_database(tmp_path / "console.db"), planted) == set()
    verifier = Verifier(tmp_path / "audit")
    assert all(rows for _, rows in verifier.run())
    assert verifier.found.ok, "what was taken out is taken out before it is chained"
    assert public.exists()


def is_known(console: str, key: str) -> bool:
    answer = ask(console, "/api/v1/interventions?run_id=clear", None, key)
    return answer is not None and answer["total"] > 0


def is_kept(system: System) -> bool:
    if not (system.table / "_delta_log").exists():
        return False
    kept = {(row["topic"], row["session_id"]) for row in open_query(system.table).rows("SELECT * FROM audit")}
    topics = Topics()
    told = {(topics.interventions, "clear"), (topics.interventions, "s a kill"), (topics.feedback, "s a kill")}
    return told <= kept and topics.dead_letter in {topic for topic, _ in kept}
