import asyncio
import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.interventions.agent.integrations.claude_code import transcript
from haltline.interventions.agent.integrations.claude_code.messages import Turn
from haltline.interventions.agent.integrations.claude_code.transcript import WRITTEN_WITHIN_S, Transcript
from haltline.schemas.events import Kind
from tests.builders import cases
from tests.interventions.agent.attempts import of
from tests.interventions.agent.integrations.test_hooks import SETTINGS, Hooks

Line = dict[str, Any] | str


def says(message_id: str, *blocks: dict[str, Any], reason: str | None = None, tokens: int = 3, **fields: Any) -> Line:
    usage = {"input_tokens": tokens, "output_tokens": 1}
    message = {"id": message_id, "content": list(blocks), "stop_reason": reason, "usage": usage}
    return {"type": "assistant", "message": message, **fields}


TEXT, CALL = {"type": "text", "text": "x"}, {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
THINKS = {"type": "thinking", "thinking": "..."}
ASKED: Line = {"type": "user", "message": {"content": "tidy up"}}
RESULT: Line = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1"}]}}
CALLED, ANSWERED = says("m1", CALL, reason="tool_use"), says("m2", TEXT, reason="end_turn", tokens=5)
ENDED, BESIDE = says("m1", TEXT, reason="end_turn"), says("m9", TEXT, reason="end_turn", isSidechain=True)


def written(*lines: Line) -> bytes:
    return b"".join((line if isinstance(line, str) else json.dumps(line)).encode() + b"\n" for line in lines)


def counted(path: Path, parts: Sequence[bytes], *, subagent: bool = False) -> tuple[list[int], bool]:
    """The input tokens of each turn when the parts are written while it waits, and whether one is lacking."""
    left: Iterator[bytes] = iter(parts)

    async def write_next(_: float) -> None:
        with path.open("ab") as file:
            file.write(next(left, b""))

    read = Transcript(path, subagent=subagent, sleep=write_next)
    turns: list[Turn | None] = [*asyncio.run(read.wait(for_answer=True))]
    lacks = read.lacks_turn(for_answer=True)
    turns.append(read.end())
    assert read.end() is None
    return [turn.usage.input_tokens for turn in turns if turn is not None], lacks


@cases(
    "lines, tokens",
    {
        "a call and the answer": ([ASKED, CALLED, RESULT, ANSWERED], [3, 5]),
        "a message of several lines counts once": ([ASKED, says("m1", THINKS, reason="end_turn"), ENDED], [3]),
        "a text before a call is no answer": ([says("m1", TEXT, reason="tool_use"), CALLED, RESULT, ANSWERED], [3, 5]),
        "a turn that pauses goes on": ([says("m1", TEXT, reason="pause_turn"), ANSWERED], [3, 5]),
        "releases that leave out the reason": (
            [ASKED, says("m1", THINKS), says("m1", CALL), RESULT, says("m2", TEXT, tokens=5)],
            [3, 5],
        ),
        "a subagent's lines are not its agent's": ([BESIDE, CALLED, RESULT, ANSWERED], [3, 5]),
        "lines that are something else": (["not json", "[1]", "{}", '"\\ud83d"', ANSWERED], [5]),
    },
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "line by line"])
def test_what_comes_while_it_waits_is_counted(
    lines: Sequence[Line], tokens: list[int], at_once: bool, tmp_path: Path
) -> None:
    parts = [written(*lines)] if at_once else [written(line) for line in lines]
    assert counted(tmp_path / "t.jsonl", [b"", *parts]) == (tokens, False)


@given(st.lists(st.integers(0, 2000), max_size=20))
def test_a_transcript_may_be_cut_anywhere_between_two_writes(cuts: list[int]) -> None:
    data = written(ASKED, CALLED, RESULT, says("m3", THINKS, CALL, reason="tool_use"), RESULT, ANSWERED)
    at = [0, *sorted(cuts), len(data)]
    with TemporaryDirectory() as folder:
        parts = [data[begin:end] for begin, end in pairwise(at)]
        assert counted(Path(folder) / "t.jsonl", parts) == ([3, 3, 5], False)


def test_what_was_there_before_is_another_runs_but_for_a_subagent_and_long_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(written(CALLED))
    assert counted(path, [written(ANSWERED)]) == ([5], False)
    assert counted(path, [], subagent=True) == ([3, 5], False)
    image = {"type": "user", "message": {"content": "x" * (5 * 1024 * 1024)}}  # more than is read at once
    assert counted(tmp_path / "long.jsonl", [written(CALLED, image, ANSWERED)]) == ([3, 5], False)


@pytest.mark.parametrize("lines", [[], [ASKED], [CALLED, RESULT]], ids=["no file", "no message", "no answer"])
def test_a_wait_ends_and_is_not_repeated_until_something_is_written(lines: Sequence[Line], tmp_path: Path) -> None:
    path, waited_s = tmp_path / "t.jsonl", 0.0

    async def pass_time(seconds: float) -> None:
        nonlocal waited_s
        waited_s += seconds

    def waits(*more: Line) -> float:
        """How long a stop waits for its answer, which does not come, once these lines are there as well."""
        if more:
            with path.open("ab") as file:
                file.write(written(*more))
        before = waited_s
        asyncio.run(read.wait(for_answer=True))
        assert read.lacks_turn(for_answer=True)
        read.end()
        return waited_s - before

    read = Transcript(path, subagent=False, sleep=pass_time)
    whole = pytest.approx(WRITTEN_WITHIN_S, abs=0.2)
    assert [waits(*lines), waits(), waits(ASKED)] == [whole, 0, whole]


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "WRITTEN_WITHIN_S", 0.1)


def turns_of(hooks: Hooks, session_id: str = "s1") -> list[int | None]:
    """The input tokens of each turn that was published; None: a turn without usage."""
    turns = of(hooks.guards[session_id], Kind.MODEL_TURN)
    return [None if event.usage is None else event.usage.input_tokens for event in turns]


@pytest.mark.usefixtures("_impatient")
@cases(
    "events, lines, turns",
    {
        "the answer is there at Stop": (["Stop"], [ANSWERED], [5]),
        "no transcript at Stop": (["Stop"], None, [None]),
        "a call and no answer at Stop": (["PreToolUse", "Stop"], [CALLED], [3, None]),
        "a call that ended the session": (["PreToolUse", "SessionEnd"], [CALLED], [3]),
        "nameless subagent": (["PreToolUse", "SubagentStop", "Stop"], [CALLED, RESULT, ANSWERED], [3, 5]),
        "a session without a turn": (["SessionEnd"], None, []),
    },
)
def test_a_turn_that_cannot_be_counted_is_published_without_usage(
    events: Sequence[str], lines: Sequence[Line] | None, turns: list[int | None], tmp_path: Path
) -> None:
    path, hooks = tmp_path / "t.jsonl", Hooks()
    hooks("UserPromptSubmit", transcript_path=str(path))
    if lines is not None:
        path.write_bytes(written(*lines))
    for event in events:
        hooks(event, transcript_path=str(path), tool_name="Bash", tool_use_id="t1", tool_input={})
    assert turns_of(hooks) == turns


@pytest.mark.usefixtures("_impatient")
def test_the_text_of_each_turn_is_published_and_how_often_it_repeats_a_passage(tmp_path: Path) -> None:
    path, hooks = tmp_path / "t.jsonl", Hooks()
    hooks("UserPromptSubmit", transcript_path=str(path))
    chants = {"type": "text", "text": "I am waiting for the others. " * 40}
    lines = [
        says("m1", THINKS, TEXT),
        says("m1", CALL, reason="tool_use"),
        RESULT,
        says("m2", chants, reason="end_turn"),
    ]
    path.write_bytes(written(*lines))
    hooks("Stop", transcript_path=str(path))
    first, second = of(hooks.guards["s1"], Kind.MODEL_TURN)
    assert (first.output_head, first.output_repeats) == ("x", 0)
    assert (second.output_bytes, second.output_repeats) == (len(chants["text"]), 40)


def test_a_subagents_turns_are_those_of_its_own_transcript(tmp_path: Path) -> None:
    path, hooks = tmp_path / "a.jsonl", Hooks()
    path.write_bytes(written(BESIDE))
    hooks("SubagentStop", agent_id="a7", agent_transcript_path=str(path))
    assert turns_of(hooks, "s1/a7") == [3]
    hooks("SubagentStop", agent_id="a8")
    assert turns_of(hooks, "s1/a8") == [None]


def without_end(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@cases(
    "make",
    {
        "a FIFO that nobody writes": os.mkfifo,
        "a link to a device without an end": lambda path: path.symlink_to("/dev/zero"),
        "a folder": Path.mkdir,
        "a line without an end": without_end,
    },
)
def test_a_transcript_that_never_ends_costs_no_call_its_verdict(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "t.jsonl"
    hooks = Hooks(settings=SETTINGS.changed(mode="async"))
    assert hooks("SessionStart", transcript_path=str(path)) == {}
    make(path)
    assert hooks.pre(transcript_path=str(path)) == {}
    assert hooks("UserPromptSubmit", prompt="go on", transcript_path=str(path)) == {}


def test_a_line_longer_than_what_is_read_at_once_is_skipped(tmp_path: Path) -> None:
    long = says("m0", {"type": "text", "text": "x" * (9 << 20)})
    assert counted(tmp_path / "t.jsonl", [b"", written(ASKED, long, CALLED, ANSWERED)]) == ([3, 5], False)
