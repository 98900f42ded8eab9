import socket
import time
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from haltline.cli.app import app
from haltline.cli.common import Exit, ago, duration
from haltline.schemas import wire
from haltline.schemas.agent_service import json_schema
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.local.kafka import LocalKafka
from haltline.streams.policy.json_schema import policy_schema
from tests.builders import cases
from tests.mock_cluster import QuickBroker

TOPICS = Topics()
NOBODY = "127.0.0.1:1"
SCHEMA = policy_schema()
BY_ADA = ("--by", "ada", "--reason", "task corrected")
PATIENT = ("--timeout", "60")  # a busy machine decides nothing


def haltline(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, arguments, env={"HALTLINE_OPERATOR": None, "COLUMNS": "200", **(env or {})})


@cases(
    "arguments, says",
    {
        "a reset without a reason": (("reset", "s1", "--by", "ada"), "Missing option '--reason'"),
        "a reset with an empty reason": (("reset", "s1", "--by", "ada", "--reason", " "),
            "--reason': must not be empty"),
        "a kill of nothing": (("kill", *BY_ADA), "id: expected a text"),
        "an id that is too long": (("kill", "x" * 257, "--unknown", *BY_ADA), "id: String should have at most 256"),
        "a batch for too long": (("batch", "s1", "--max-deletes", "3", "--for", "9h", *BY_ADA),
            "expected it to last up to 8:00:00, got 9:00:00"),
        "a batch for no length of time": (("batch", "s1", "--max-deletes", "3", "--for", "soon", *BY_ADA),
            "expected a length of time such as 90s, 30m or 1h30m, got 'soon'"),
        "an unknown topic": (("tail", "--topic", "nothing"), "expected one of actions, detections"),
        "no client config": (("status", "--client-config", "no-such-file"), "no-such-file: expected a text file"),
        "topics of an embedded broker": (("topics", "create"), "An embedded broker has none"),
        "an unknown command": (("nothing",), "No such command"),
    },
)  # fmt: skip
def test_a_wrong_command_is_exit_2_and_says_what_was_expected(
    embedded: EmbeddedBroker, arguments: tuple[str, ...], says: str
) -> None:
    done = haltline(*arguments, env={"HALTLINE_BOOTSTRAP": embedded.bootstrap})
    assert done.exit_code == Exit.USAGE
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.output


@pytest.mark.parametrize("command", ["worker", "audit"])
def test_a_metrics_port_in_use_is_exit_2_and_is_named(embedded: EmbeddedBroker, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = haltline(command, "--metrics-port", port, "--bootstrap", embedded.bootstrap)
    assert done.exit_code == Exit.USAGE
    assert f"--metrics-port: expected port {port} of 127.0.0.1 free, got one in use" in done.stderr


@cases(
    "line, problem",
    {
        "no setting": ("nonsense", ":3: expected `name=value`"),
        "a plugin": ("plugin.library.paths=a.so", ": expected settings that load or run no code"),
    },
)
def test_a_client_config_names_what_is_wrong(tmp_path: Path, line: str, problem: str) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"# credentials\nsecurity.protocol=SSL\n{line}\n", encoding="utf-8")
    done = haltline("status", "--client-config", str(config))
    assert done.exit_code == Exit.USAGE
    assert f"client.properties{problem}" in " ".join(done.stderr.replace("│", "").split())


def test_kill_status_reset_as_a_person_sees_them(system: str) -> None:
    here = ("--bootstrap", system)
    assert haltline("status", "person", *here).exit_code == Exit.OK

    killed = haltline("kill", "person", "--unknown", "--by", "ada", "--reason", "loops", *here)
    assert (killed.exit_code, killed.stderr) == (Exit.OK, "")
    assert killed.stdout.startswith("session person is killed: loops (session_killed_by_operator, by ada at ")
    again = haltline("kill", "person", "--by", "bob", "--reason", "too", *here)
    assert again.stdout.startswith("session person was killed already: loops (session_killed_by_operator, by ada")

    shown = haltline("status", "person", *here)
    assert shown.exit_code == Exit.NO
    assert "no events of it were found: it is stopped if it starts" in shown.stdout
    assert "person" in haltline("status", *here).stdout

    released = haltline("reset", "person", *BY_ADA, *PATIENT, *here)
    assert released.exit_code == Exit.OK
    assert released.stdout.startswith("session person is released, on probation for 20 actions. It was killed: loops")
    on_probation = haltline("status", "person", *here)
    assert (on_probation.exit_code, "for 20 actions on probation" in on_probation.stdout) == (Exit.OK, True)
    assert haltline("status", "nobody", *here).stdout == "nothing is in force for session nobody\n"


def test_kill_status_reset_as_a_script_sees_them(system: str) -> None:
    here = ("--bootstrap", system, "--json")
    kill = ("kill", "script", "--unknown", "--reason", "r", *PATIENT, *here)
    killed = orjson.loads(haltline(*kill, env={"HALTLINE_OPERATOR": "grace"}).stdout)
    assert killed["answered"] is True
    assert (killed["command"]["kind"], killed["command"]["by"]) == ("kill", "grace")
    assert killed["after"]["id"] == "script"

    status = haltline("status", "script", *here)
    assert (status.exit_code, orjson.loads(status.stdout)) == (Exit.NO, {"control": [killed["after"]]})
    whole = orjson.loads(haltline("status", *here).stdout)
    assert killed["after"] in whole["control"]
    assert {lag["topic"] for lag in whole["lag"]} == set(TOPICS.session_sources)

    released = orjson.loads(haltline("reset", "script", *BY_ADA, *PATIENT, *here).stdout)
    assert (released["before"]["id"], released["after"]["state"]) == ("script", "probation")


def test_a_batch_says_what_it_allows_and_a_label_of_an_unknown_decision_is_exit_1(system: str) -> None:
    done = haltline(
        *("batch", "bulk", "--max-deletes", "100", "--actions", "delete_*", "--targets", "asset_id=stg_*"),
        *(*BY_ADA, *PATIENT, "--bootstrap", system),
    )
    assert done.exit_code == Exit.OK
    assert done.stdout.startswith("session bulk may do 100 destructive acts until 20")
    assert done.stdout.endswith(": delete_* on asset_id=stg_*; no events of this session were found yet\n")
    done = haltline("label", "d-none", "confirmed", *BY_ADA, "--bootstrap", system)
    assert done.exit_code == Exit.NO
    assert "decision not found: d-none" in done.stderr


def test_without_a_worker_a_command_is_exit_1_and_says_that_it_is_kept(embedded: EmbeddedBroker) -> None:
    done = haltline("kill", "s1", "--unknown", *BY_ADA, "--bootstrap", embedded.bootstrap, "--timeout", "0.3")
    assert done.exit_code == Exit.NO
    assert "expected an answer from a worker within 0.3 s, got none" in done.stderr
    assert "is kept and will be carried out" in done.stderr
    here = ("--bootstrap", embedded.bootstrap, "--timeout", "0.3", "--json")
    as_json = haltline("kill", "s1", "--unknown", *BY_ADA, *here)
    assert orjson.loads(as_json.stdout)["answered"] is False


def event_record(session_id: str, agent_id: str = "cleaner", mission_id: str | None = None) -> bytes:
    return ActionEvent(
        event_id=f"{session_id}@0", kind=Kind.SESSION_STARTED, session_id=session_id, time=time.time_ns() // 1_000_000,
        agent_id=agent_id, mission_id=mission_id,
    ).to_json()  # fmt: skip


@pytest.fixture(scope="module")
def mistaken(system: str) -> str:
    for name in ("typo-north", "typo-south", "once-1"):
        write(system, TOPICS.actions, name, event_record(name, agent_id=f"agent-{name}", mission_id=f"mission-{name}"))
    return system


@cases(
    "arguments, code, says",
    {
        "a session without any events": (("kill", "nosuch"), Exit.NO,
            "session not found: nosuch; no events of it were found; use --unk"),
        "to release it": (("reset", "nosuch"), Exit.NO, "nothing is in force against it, and it has no events"),
        "the beginning of two sessions": (("kill", "typo"), Exit.NO, "one id: typo-north, typo-south"),
        "to wait for nobody": (("kill", "nosuch", "--unknown", "--until-stopped"), Exit.USAGE,
            "cannot be used with --unknown"),
        "a target is a name and may be held beforehand": (("freeze", "--scope", "target", "asset_id=beforehand"),
            Exit.OK, "target asset_id=beforehand is f"),
    },
)  # fmt: skip
def test_what_operators_mistype(mistaken: str, arguments: tuple[str, ...], code: Exit, says: str) -> None:
    done = haltline(*arguments, *BY_ADA, *PATIENT, "--bootstrap", mistaken)
    assert (done.exit_code, says in " ".join((done.stdout + done.stderr).split())) == (code, True), done.output


def test_ids_are_given_by_their_beginning(mistaken: str) -> None:
    for command, about in (
        ("kill typo-n", "session typo-north"),
        ("reset typo-n", "session typo-north"),
        ("freeze --scope mission mission-o", "mission mission-once-1"),
        ("lift --scope mission mission-o", "mission mission-once-1"),
        ("batch once --max-deletes 5", "session once-1"),
        ("missed once --rule cycle", "session once-1"),
    ):
        assert haltline(*command.split(), *BY_ADA, *PATIENT, "--bootstrap", mistaken).stdout.startswith(about), command


def write(bootstrap: str, topic: str, key: str, *values: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for value in values:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(10) == 0


def an_event(action: str) -> bytes:
    fields = {"event_id": action, "session_id": "t1", "action": action, "time": 1_790_000_000_000}
    return ActionEvent.model_validate({"kind": Kind.PROPOSED, **fields}).to_json()


def test_tail_prints_one_line_for_each_record(embedded: EmbeddedBroker) -> None:
    hostile = an_event("\x1b[2Jdelete\nasset")
    write(embedded.bootstrap, TOPICS.actions, "t1", an_event("list_assets"), hostile, b"{nonsense")
    done = haltline("tail", "--topic", "actions", "--from-beginning", "--count", "3", "--bootstrap", embedded.bootstrap)
    assert done.exit_code == Exit.OK
    assert "\x1b" not in done.stdout, "no control characters of an agent"
    lines = done.stdout.splitlines()
    assert [line.partition("@")[2].partition("  ")[0] for line in lines] == ["0", "1", "2"]
    assert lines[0].endswith("  t1  proposed list_assets")
    assert "(cannot be read: not_json:" in lines[2]


def test_tail_of_a_session_as_json_leaves_the_others_out(embedded: EmbeddedBroker) -> None:
    write(embedded.bootstrap, TOPICS.actions, "other", an_event("x"))
    write(embedded.bootstrap, TOPICS.control, "t1", None)
    write(embedded.bootstrap, TOPICS.actions, "t1", an_event("delete_asset"))
    done = haltline(
        *("tail", "--topic", "actions", "--topic", "control", "--session", "t1", "--from-beginning", "--count", "2"),
        *("--json", "--bootstrap", embedded.bootstrap),
    )
    records = sorted(map(orjson.loads, done.stdout.splitlines()), key=lambda record: record["topic"])
    assert [(record["topic"], record["key"]) for record in records] == [("actions", "t1"), ("control", "t1")]
    assert records[0]["value"]["action"] == "delete_asset"
    assert records[1]["value"] is None


def test_schemas_are_printed_and_written_by_topic_with_the_policys(tmp_path: Path) -> None:
    by_topic = wire.json_schemas() | {"policies": SCHEMA, "agent-service": json_schema()}
    assert orjson.loads(haltline("schemas").stdout) == by_topic
    assert haltline("schemas", "--out", str(tmp_path / "schemas")).exit_code == Exit.OK
    written = {file.name: orjson.loads(file.read_bytes()) for file in (tmp_path / "schemas").iterdir()}
    assert written == {f"{topic}.schema.json": schema for topic, schema in by_topic.items()}


@cases(
    "text, code, says",
    {
        "a good one": ("{name: a, version: 3}", Exit.OK, "policy a, version 3, can be used"),
        "one that cannot be used": ("cooldown: 3", Exit.USAGE, ":1: cooldown: "),
        "one with an override that nobody exempted": ("overrides: [{rules: {cycle: {mode: shadow}}}]", Exit.NO,
            "overrides.0.rules.cycle.mode: shadow is looser than enforce"),
        "one of a release that had further rules": ("rules: {agent_baseline: {mode: warn}}", Exit.NO,
            "rules.agent_baseline: gone, and without effect. Instead of agent_baseline: agent_budget and"),
    },
)  # fmt: skip
def test_a_policy_is_checked(tmp_path: Path, text: str, code: Exit, says: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text, encoding="utf-8")
    done = haltline("policy", "check", str(file))
    assert done.exit_code == code
    assert says in done.output


def test_a_policy_is_published_and_shown(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("{name: night, preset: starter}", encoding="utf-8")
    with QuickBroker() as broker:
        broker.ensure_topics(TOPICS)
        there = ("--bootstrap", broker.bootstrap)
        nothing = haltline("policy", "show", *there)
        assert nothing.exit_code == Exit.NO
        assert nothing.stdout == "no policy was published: every worker without a file has the defaults\n"
        done = haltline("policy", "publish", str(file), *BY_ADA, *there, "--json")
        assert done.exit_code == Exit.OK
        assert orjson.loads(done.stdout)["version"] == 2
        file.write_text("{name: night, version: 2}", encoding="utf-8")
        refused = haltline("policy", "publish", str(file), *BY_ADA, *there)
        assert refused.exit_code == Exit.USAGE
        assert "version: expected more than 2" in refused.stderr
        listed = haltline("policy", "show", *there)
        assert "night, version 2, by ada at " in listed.stdout
        assert "task corrected" in listed.stdout
        shown = orjson.loads(haltline("policy", "show", "night", *there).stdout)
        assert shown["rules"]["cycle"] == {"mode": "warn"}
        assert haltline("policy", "show", "day", *there).exit_code == Exit.NO


def test_topics_are_checked_then_made_then_right_on_a_real_cluster(kafka: LocalKafka) -> None:
    there = ("--bootstrap", kafka.bootstrap, "--prefix", "cli.", "--group", "cli", "--json")
    missing = haltline("topics", "check", *there)
    assert missing.exit_code == Exit.NO
    assert {report["partitions"] for report in orjson.loads(missing.stdout)} == {0}

    made = haltline("topics", "create", "--partitions", "3", "--replication", "1", *there)
    assert made.exit_code == Exit.OK
    assert all(report["created"] and report["partitions"] == 3 for report in orjson.loads(made.stdout))
    assert "cli-sessions-changelog" in made.stdout

    assert haltline("topics", "check", *there).exit_code == Exit.OK
    other = haltline("topics", "check", "--partitions", "4", *there)
    assert other.exit_code == Exit.NO
    assert "expected 4, as the rest, got 3" in haltline("topics", "check", "--partitions", "4", *there[:-1]).stdout


def test_doctor_says_what_is_bad_and_what_to_do_and_finds_a_running_system_well(system: str) -> None:
    done = haltline("doctor", "--bootstrap", NOBODY, "--worker", f"http://{NOBODY}", "--json")
    assert done.exit_code == Exit.NO
    checks = {check["what"]: check for check in orjson.loads(done.stdout)}
    assert checks["python"]["verdict"] == "ok"
    assert checks["packages of the processor"]["verdict"] == "ok"
    assert checks["broker"]["verdict"] == "bad"
    assert "--bootstrap" in checks["broker"]["do"]
    assert checks["worker's health"]["verdict"] == "bad"
    done = haltline("doctor", "--bootstrap", system, "--worker", f"http://{NOBODY}", "--json")
    checks = {check["what"]: check["verdict"] for check in orjson.loads(done.stdout)}
    assert (checks["broker"], checks["topics"], checks["workers' progress"]) == ("ok", "ok", "ok")
    assert checks["permissions"] == "note", "an embedded broker is not asked for them"


def test_lengths_of_time_and_how_long_ago_something_was() -> None:
    lengths = {"90s": 90, "1h30m": 5_400, "1.5h": 5_400, "1d": 86_400}
    assert {text: duration(text).total_seconds() for text in lengths} == lengths
    agos = {0: "0 s", 59: "59 s", 60: "1 min", 7_500: "2 h 5 min", 300_000: "3 d"}
    assert {seconds: ago(10**12, 10**12 + seconds * 1000) for seconds in agos} == agos
