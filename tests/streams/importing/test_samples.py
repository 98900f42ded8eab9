"""Recordings by the real libraries of an agent in a loop: each event, and the rule that fires."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.importing.detection import DETECTORS
from haltline.streams.importing.formats import Imported
from haltline.streams.importing.reading import content_of
from haltline.streams.replay.backtest import Recorded, together

SAMPLES = Path(__file__).parent / "samples"
FORM_OF = {
    "claude_agent_sdk.jsonl": "claude-code", "claude_agent_sdk_subagent.jsonl": "claude-code", "codex.jsonl": "codex",
    "amp.json": "amp", "copilot_cli.jsonl": "copilot-cli", "pi.jsonl": "pi",
    "goose.jsonl": "goose", "trajectory_20261124_090000.json": "trae-agent",
    "gemini_cli.json": "gemini-cli", "gemini_cli.jsonl": "gemini-cli", "qwen_code.jsonl": "qwen-code",
    "atif.json": "atif", "openinference.json": "otel",
}  # fmt: skip
ASKED, ENDED, TURN = Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN
SUBAGENT = "/"
STILL = "still exists"


class Row(NamedTuple):
    """The expected fields of an event."""

    kind: Kind
    call: str = ""
    target: str = ""
    outcome: Outcome | None = None
    text: str = ""
    """A part of the output, or of the error if it failed."""
    below: str = ""
    cost: float = 0.0


def row_of(event: ActionEvent) -> Row:
    """The event; an id of a call that the format does not have is left out."""
    call_id = event.call_id or ""
    own_id = call_id if len(call_id) < 9 else ""
    name = "" if event.kind is TURN else f"{event.action.removeprefix('mcp__t__')} {own_id}"
    target = str(next(iter((event.args or {}).values()), ""))
    below = SUBAGENT if event.parent_session_id is not None else ""
    cost = 0.0
    if event.kind is TURN:
        assert event.usage is not None
        used = (event.usage.input_tokens, event.usage.output_tokens, event.usage.cache_read_tokens)
        assert used == ((0, 80, 0) if event.agent_id == "copilot-cli" else (200, 80, 1000))  # which tells no more
        cost = event.usage.cost_usd
    return Row(event.kind, name.strip(), target, event.outcome, event.error or event.output_head or "", below, cost)


def turn(text: str = "", below: str = "", cost: float = 0.0) -> list[Row]:
    return [Row(TURN, text=text, below=below, cost=cost)]


def call(call: str, target: str, text: str, below: str = "", *, failed: bool = False) -> list[Row]:
    outcome = Outcome.ERROR if failed else Outcome.OK
    return [Row(ASKED, call, target, below=below), Row(ENDED, call, target, outcome, text, below)]


def delete(number: int) -> list[Row]:
    return call(f"delete_asset call_a{number}", "fact_sales", f"fact_sales {STILL}")


def around(begun: list[Row], inside: list[Row]) -> list[Row]:
    return [begun[0], *inside, begun[1]]


def of_subagent(call_id: str = " call_b0") -> list[Row]:
    return call(f"delete_asset{call_id}", "fact_orders", f"fact_orders {STILL}", SUBAGENT)


def claude() -> list[Row]:
    deletes = [row for number in range(3) for row in delete(number) + turn()]
    report = "[Subagent hand-back] The text below is the final report of a subagent this session delegated to."
    delegated = call("Agent call_a3", "clean", report) + turn()
    failed = call("describe_asset call_a4", "none", "no such asset: none", failed=True)
    return deletes + delegated + failed + turn() + turn("I am done.")


def history(*, calls_first: bool = False, cost: float = 0.0, why: str = "no such asset: none") -> list[Row]:
    """An agent's history of a session without subagents; a turn is counted after its calls, or before."""
    calls = [*map(delete, range(3)), call("describe_asset call_a3", "none", why, failed=True)]
    again = turn("I look again.", cost=cost)
    rows = [row for one in calls for row in (around(one, again) if calls_first else again + one)]
    return rows + turn("I am done.", cost=cost)


EXPECTED = {
    "claude_agent_sdk.jsonl": claude(),
    "claude_agent_sdk_subagent.jsonl": of_subagent() + turn(below=SUBAGENT) + turn("I am done.", SUBAGENT),
    "amp.json": history(), "copilot_cli.jsonl": history(), "pi.jsonl": history(cost=0.004),
    "goose.jsonl": [row for row in history() if row.kind is not TURN], "trajectory_20261124_090000.json": history(),
    "codex.jsonl": history(calls_first=True), "gemini_cli.json": history(), "gemini_cli.jsonl": history(),
    "qwen_code.jsonl": history(),
    "atif.json": [row._replace(outcome=row.outcome and Outcome.UNKNOWN) for row in history(cost=0.004)],
}  # fmt: skip


def test_each_sample_is_in_the_table_and_a_subagent_of_another_file_is_below_its_session() -> None:
    files = {file.name for file in SAMPLES.iterdir() if file.suffix in (".json", ".jsonl")}
    assert files == set(FORM_OF) == {*EXPECTED, "openinference.json"}
    (session,) = {e.session_id for e in Imported(SAMPLES / "claude_agent_sdk.jsonl").events()}
    (above,) = {e.parent_session_id for e in Imported(SAMPLES / "claude_agent_sdk_subagent.jsonl").events()}
    assert above == session


def check(file: Path, form: str, expected: list[Row]) -> list[ActionEvent]:
    """Reads a recording whose every event is known; the events."""
    imported = Imported(file)
    events = list(imported.events())
    rows = map(row_of, events)  # behind Claude Code's report of a subagent is its id
    assert [row._replace(text=row.text.partition(" It is model output")[0]) for row in rows] == expected
    assert (imported.form, imported.untimed, imported.skipped) == (form, 0, [])
    assert len({event.event_id for event in events}) == len(events)
    times = [event.time for event in events]
    assert times == sorted(times)
    assert 1_795_000_000_000 < times[0] <= times[-1] < times[0] + 10_000
    for session_id in {event.session_id for event in events}:
        ends = [e for e in events if e.kind is ENDED and e.session_id == session_id and (e.error or e.output_head)]
        assert [e.output_novelty and e.output_novelty.results for e in ends] == list(range(len(ends)))
    above = {event.parent_session_id for event in events} - {None}
    assert above <= {event.session_id for event in events} or file.name == "claude_agent_sdk_subagent.jsonl"
    for asked, ended in zip(
        (e for e in events if e.kind is ASKED),
        sorted((e for e in events if e.kind is ENDED), key=lambda e: [p.call_id for p in events].index(e.call_id)),
        strict=True,
    ):
        assert (asked.call_id, asked.args, asked.args_digest) == (ended.call_id, ended.args, ended.args_digest)
    return events


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_event_of_a_sample_is_read(name: str) -> None:
    check(SAMPLES / name, FORM_OF[name], EXPECTED[name])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_sample_is_of_one_format_and_its_secrets_are_taken_out(name: str, tmp_path: Path) -> None:
    content = content_of(SAMPLES / name, [])
    assert [form for form, is_it in DETECTORS.items() if is_it(content)] == [FORM_OF[name]]
    file = tmp_path / name
    file.write_text(
        (SAMPLES / name).read_text().replace(STILL, "token=abcdef123456").replace("fact_", "password=abcdef123456")
    )
    events = list(Imported(file).events())
    assert len(events) == len(EXPECTED[name])
    assert "abcdef123456" not in "".join(event.to_json().decode() for event in events)


def test_spans_of_openinference_are_ends_of_calls_and_turns_and_are_stopped_at_the_third_delete() -> None:
    imported = Imported(SAMPLES / "openinference.json")
    events = list(imported.events())
    rows = [row_of(event) for event in events if event.kind is not Kind.HEARTBEAT]
    asked = Row(TURN, outcome=Outcome.OK)
    deletes = [row for number in range(3) for row in (asked, delete(number)[1])]
    delegated = call("delegate call_a3", "clean up fact_orders", "I am done.")[1]
    failed = Row(ENDED, "describe_asset", "none", Outcome.ERROR, "ValueError('no such asset: none')")
    assert rows == [*deletes, asked, asked, of_subagent()[1]._replace(below=""), asked, delegated, asked, failed]
    assert (imported.form, imported.skipped, {e.session_id for e in events}) == ("otel", [], {"night-7"})
    third = [e for e in events if e.action == "delete_asset"][2]
    (main,) = together(Core(Policy()), [Recorded("night-7", list(enumerate(events)))])
    assert main.first is not None
    assert (main.first.event_id, main.first.detector) == (third.event_id, "destructive_repeat")


def test_a_name_for_several_sessions_leaves_them_apart(tmp_path: Path) -> None:
    session = json.loads((SAMPLES / "atif.json").read_text())
    file = tmp_path / "sessions.jsonl"
    file.write_text("".join(json.dumps(session | {"session_id": name}) + "\n" for name in ("a", "b")))
    for given, named in ((None, ["a", "b"]), ("night", ["night", "night-2"])):
        events = list(Imported(file, session_id=given).events())
        assert list(dict.fromkeys(event.session_id for event in events)) == named
        assert len({event.event_id for event in events}) == len(events)
