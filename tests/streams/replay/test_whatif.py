"""Two policies on one history, and one setting with several values: on the audit table, a broker and files."""

from functools import partial
from pathlib import Path

import orjson
import pytest

from haltline.schemas.policy import Policy
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.replay.whatif import Sweep
from tests.builders import cases
from tests.mock_cluster import QuickBroker
from tests.streams.commands import said
from tests.streams.replay.recorded import TOPICS, LiveLog, a_night, label_of, put

run = partial(said, "backtest")
SWEEP = "rules.destructive_repeat.settings.same_target_prior"


@pytest.fixture(scope="module")
def night() -> LiveLog:
    log = a_night()
    log.command(label_of("night-1", "confirmed", "d1"))
    log.command(label_of("night-2", "false_alarm", "d2"))
    log.command(label_of("day-1", "missed", rule="x"))
    return log


@pytest.fixture(scope="module")
def table(night: LiveLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return night.audited(tmp_path_factory.mktemp("night") / "audit")


def test_a_broker_and_the_table_and_a_file_say_the_same(night: LiveLog, table: Path, tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(r.value or b"" for r in night.inputs() if r.topic == TOPICS.actions))
    with QuickBroker() as broker:
        broker.ensure_topics(TOPICS)
        put(broker.bootstrap, night)
        outputs = [run(*source, "--json") for source in ((table,), ("kafka", "--bootstrap", broker.bootstrap), (file,))]
    stops = [
        {one["session_id"]: one["first"] for one in map(orjson.loads, output.splitlines())} for _, output in outputs
    ]
    assert stops[0] == stops[1] == stops[2]
    assert sum(first is not None for first in stops[0].values()) == 2


@cases(
    "arguments, text",
    {
        "no place": (["--sweep", "max_deletes=2"], "expected rules.NAME.settings.X"),
        "a value out of bounds": (["--sweep", f"{SWEEP}=0"], "same_target_prior"),
        "a plot of nothing": (["--plot", "x.svg"], "--plot with --sweep"),
        "no such folder": (["--sweep", f"{SWEEP}=1", "--plot", "no/x.svg"], "expected a file FILE.svg"),
        "no place on an axis": (["--sweep", f"{SWEEP}=1,x", "--plot", "x.svg"], "expected numbers"),
        "no history": (["--from", "2030-01-01T00:00:00Z"], "expected sessions in this range, got none"),
    },
)
def test_what_cannot_be_swept_or_compared_is_reported(table: Path, arguments: list[str], text: str) -> None:
    code, output = run(table, *arguments)
    assert (code, text in output) == (1 if "--from" in arguments else 2, True), output


def test_a_value_beyond_64_bits_is_no_policy() -> None:
    with pytest.raises(BadPolicy, match="exceeds 64-bit range"):
        Sweep(SWEEP, (2**70,)).run(Policy(), lambda _: [])


def test_what_cannot_be_used_is_named(table: Path, tmp_path: Path) -> None:
    code, output = run("--against", tmp_path / "none.yaml", table)
    assert (code, "none.yaml" in output) == (2, True)
    (tmp_path / "bad.yaml").write_text("rules:\n  destructive_repaet: {}\n")
    code, output = run("--policy", tmp_path / "bad.yaml", table)
    assert (code, "bad.yaml:2: rules.destructive_repaet" in output) == (2, True)
    file = tmp_path / "sessions.jsonl"
    for text, result in (("{", "sessions.jsonl:1:"), ('{"event_id": "e"}', "session_id")):
        file.write_text(text)
        code, output = run(file)
        assert (code, result in output) == (2, True)
