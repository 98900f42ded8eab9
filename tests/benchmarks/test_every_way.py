"""Recorded sessions by every way: the guard, a worker, hooks, an import and a backtest refuse the same calls."""

import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.quality.playing import play
from benchmarks.quality.routes import compare
from benchmarks.quality.sessions import Known, read
from haltline.schemas.events import Kind
from haltline.streams.engine.core import Core
from haltline.streams.importing.formats import Imported
from haltline.streams.replay.backtest import backtest
from haltline.streams.replay.traces import read_traces
from tests.streams.scan.transcripts import Transcript, remove, stuck

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hooks use sockets of Unix")


def fails(times: int = 16) -> Transcript:
    """The same failing call again and again."""
    transcript = Transcript("fails").prompt("mend the build")
    for _ in range(times):
        transcript.call("make build", "error: cannot find -lssl", failed=True)
    return transcript


def works() -> Transcript:
    """Files that are read one after another, with an edit in each."""
    transcript = Transcript("works").prompt("rename the setting")
    for name in ("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "inlet"):
        text = " ".join(f"{name}{letter} = read_{letter}_{name}()" for letter in "abcdefghijk")
        transcript.call(f"cat src/{name}.py", text).call(f"sed -i s/{name}a/{name}z/ src/{name}.py", "")
    return transcript


def again() -> Transcript:
    """Held, and let go on by another prompt before the agent is killed for going on."""
    return remove(fails(9).prompt("leave it, and list what is there").call("ls", "Makefile src"), 2)


RECORDED = {
    "stuck": stuck,
    "fails": fails,
    "works": works,
    "again": again,
}
REFUSED = {"stuck", "fails", "again"}
"""At least these have a refused call."""


def recorded(folder: Path, name: str) -> Known:
    """A transcript in which no turn of the model is told, as hooks of a session without its transcript see it."""
    transcript = RECORDED[name]()
    for line in transcript.lines:
        line["message"].pop("usage", None)
    [known] = read([transcript.write(folder / f"{name}.jsonl")])
    return known


def test_every_way_refuses_the_same_calls(system: str, tmp_path: Path) -> None:
    known = {name: recorded(tmp_path, name) for name in RECORDED}
    local = {name: list(play(f"every-{name}", one.steps()).refused) for name, one in known.items()}
    assert {name for name, refused in local.items() if refused} >= REFUSED
    assert not local["works"]

    backtested = {name: backtest(Core(), one.session).refused for name, one in known.items()}
    assert backtested == local

    imported = {}
    for name in RECORDED:
        events = tmp_path / f"{name}.events.jsonl"
        events.write_bytes(b"\n".join(e.to_json() for e in Imported(tmp_path / f"{name}.jsonl").events()))
        [session] = read_traces(events)
        proposed = [seq for seq, event in session.events if event.kind is Kind.PROPOSED]
        imported[name] = [proposed.index(seq) for seq in backtest(Core(), session).refused]
    assert imported == local

    compared = compare(list(known.values()), system, Console(stderr=True))
    at_once = [one for one in compared if one.way != "async"]
    assert [(one.session_id, one.way, one.local, one.refused) for one in at_once if not one.agrees] == []
    assert {one.way for one in compared if one.refused} == {"blocking", "async", "hook"}
    late = [one for one in compared if one.way == "async" and one.refused]  # how late is a matter of the machine
    assert [one.session_id for one in late if one.refused[0] < one.local[0]] == []
