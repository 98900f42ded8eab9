"""The peers' detectors against their published rules, by tables of what an agent did."""

import itertools
from collections.abc import Sequence

import pytest

from benchmarks.baselines.gemini import Gemini
from benchmarks.baselines.history import Action, Detector, Entry, Message, Observation, Verdict, entries
from benchmarks.baselines.openhands import OpenHandsV0, OpenHandsV1
from haltline.schemas.events import ActionEvent
from haltline.streams.replay.backtest import Recorded
from tests.builders import call, cases, event

STOP, HINT = Verdict.STOP, Verdict.HINT

A, B, C = (Action(name) for name in "abc")


def seen(content: str = "same") -> Observation:
    return Observation(content)


def wrong(content: str = "no such tool") -> Observation:
    return Observation(content, error=True)


def shell(output: str, exit_code: int = 0) -> Observation:
    return Observation(output, command="make test", exit_code=exit_code)


def message(text: str, speaker: str = "agent") -> Message:
    return Message(text, speaker)


def steps(*pairs: tuple[Action, Observation]) -> list[Entry]:
    return list(itertools.chain.from_iterable(pairs))


def verdicts(detector: Detector, history: Sequence[Entry]) -> list[tuple[int, Verdict, str]]:
    """The number of the entry from 1, and what was said, up to the first stop."""
    out: list[tuple[int, Verdict, str]] = []
    for number, entry in enumerate(history, start=1):
        verdict = detector.add(entry)
        if verdict is not None:
            out.append((number, *verdict))
            if verdict[0] is STOP:
                break
    return out


@cases(
    "history, expected",
    {
        "the output of a command is not compared": (steps(*[(A, shell(str(i))) for i in range(4)]),
            [(8, STOP, "repeating_action_observation")]),
        "the same call wrong three times, in whatever words": (steps(*[(A, wrong(str(i))) for i in range(3)]),
            [(6, STOP, "repeating_action_error")]),
        "A and B in turn three times": (steps(*[(A, seen("1")), (B, seen("2"))] * 3),
            [(12, STOP, "repeating_action_observation_pattern")]),
    },
)  # fmt: skip
def test_openhands_v0(history: Sequence[Entry], expected: list[tuple[int, Verdict, str]]) -> None:
    assert verdicts(OpenHandsV0(), history) == expected


@cases(
    "history, expected",
    {
        "the output of a command is compared, unlike in V0": (steps(*[(A, shell(str(i))) for i in range(9)]), []),
        "a streak of 4": (steps(*[(A, wrong(str(i))) for i in range(4)]),
            [(6, HINT, "action_error"), (8, STOP, "action_error")]),
        "three messages, whatever they say": ([message(str(i)) for i in range(3)], [(3, STOP, "monologue")]),
    },
)  # fmt: skip
def test_openhands_v1(history: Sequence[Entry], expected: list[tuple[int, Verdict, str]]) -> None:
    assert verdicts(OpenHandsV1(), history) == expected


def cycle(length: int, times: int) -> Sequence[Entry]:
    return [Action("look", str(i)) for i in range(length)] * times


CHANT = "I will now check the file again and then go on. "


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        *(
            pytest.param(
                cycle(k, 5), [(5 * k, HINT, "tool_call_loop")], id=f"a cycle of {k} five times, at call {5 * k}"
            )
            for k in (1, 5)
        ),
        pytest.param(cycle(1, 6), [(5, HINT, "tool_call_loop"), (6, STOP, "tool_call_loop")],
                     id="the second loop is a stop"),
        pytest.param([message(CHANT * 3)] * 4, [(4, HINT, "content_chanting")],
                     id="a sentence eleven times over several messages"),
    ],
)  # fmt: skip
def test_gemini(history: Sequence[Entry], expected: list[tuple[int, Verdict, str]]) -> None:
    assert verdicts(Gemini(), history) == expected


def recorded(*events: ActionEvent | Sequence[ActionEvent]) -> Recorded:
    flat = [e for item in events for e in ((item,) if isinstance(item, ActionEvent) else item)]
    return Recorded("s1", tuple(enumerate(flat)))


def test_what_was_recorded_is_read_as_actions_observations_and_messages() -> None:
    found = list(entries(recorded(call(0, "look_up", args={"id": 1}, output_digest="d", output_bytes=3))))
    assert found == [(0, Action("look_up", '{"id":1}')), (1, Observation("d 3 "))]
    found = list(entries(recorded(event(0, "look_up", error="no such id", output_bytes=0))))
    assert found == [(0, Action("look_up", "null")), (0, Observation(" 0 no such id", error=True))]
    assert list(entries(recorded(call(0, "say", args={"text": "hello"})))) == [(0, Message("hello", "agent say"))]
    _, (_, observation) = entries(recorded(call(0, "Bash", None, "rc=127: not found", args={"command": "x"})))
    assert isinstance(observation, Observation)
    assert (observation.command, observation.exit_code, observation.error) == ('{"command":"x"}', 127, False)
