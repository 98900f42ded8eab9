from typing import Any

import pytest

from haltline.detectors.session.monologue import Monologue
from haltline.schemas.events import ActionEvent, Kind, Task, Usage
from tests.builders import Events, bash, call, cases, each, event, findings, fires_at, severities

DETECTOR = Monologue()
TEXT = "I will now look at the configuration of the warehouse. Let me continue."
WORDS = "amber basin cedar delta ember fjord grove harbor inlet juniper kelp lagoon meadow north orchard".split()  # noqa: SIM905  # read more easily


def turn(second: float, text: str = TEXT, **fields: Any) -> ActionEvent:
    """A model turn that says something and calls nothing."""
    result: dict[str, Any] = {"output_head": text, "output_bytes": len(text)} | fields
    return event(second, "model", kind=Kind.MODEL_TURN, outcome=None, event_id=f"turn {second:g}", **result)


def say(second: float, text: str = TEXT, **fields: Any) -> tuple[ActionEvent, ActionEvent]:
    return call(second, fields.pop("action", "say"), args={"text": text}, **fields)


def other_words(number: int) -> str:
    return " ".join(WORDS[(number * k + k) % len(WORDS)] for k in range(1, 12)) + f" {number}"


def read(second: float) -> ActionEvent:
    return event(second, "read_file", args={"path": f"{second:g}.py"})


def echoes(count: int, start: float = 1) -> list[ActionEvent]:
    return [bash(start + n, f'echo "{other_words(n)}"') for n in range(count)]


LOOKED = [bash(0, "ls")]


@cases(
    "events, found",
    {
        "the same again and again": (each(11, turn), "mhhhhhhcc"),
        "calls that only talk are messages": (each(3, say), "m"),
        "said, told and thought": ([say(0), turn(1), call(2, "think", args={"thought": TEXT})], "m"),
        "a message that goes out": (each(6, call, "message", args={"text": TEXT, "to": "ada"}), ""),
        "a message to a channel": (each(6, call, "message", args={"action": "send", "target": "c", "text": TEXT}), ""),
        "a thought with its number": (
            [e for n in range(3) for e in call(n, "sequentialthinking", args={"thought": TEXT, "thoughtNumber": n})],
            "m",
        ),
        "other numbers: half": ([turn(s, f"{TEXT} This is step {s}.") for s in range(8)], "mmhh"),
        "an action in between": ([turn(0), turn(1), event(2, "read_file"), turn(3), turn(4)], ""),
        "somebody is asked each time": ([turn(s * 121) for s in range(9)], ""),
        "a person's word": ([turn(0), turn(1), turn(2, "go on", agent_id="user"), turn(3), turn(4)], ""),
        "only the digest is told": (each(3, turn, "", output_head=None, output_digest="d"), "m"),
        # by commands that only say something
        "in a session that has acted": ([*LOOKED, *echoes(5)], "mhcc"),
        "in a session that never acted": (echoes(5), "cc"),
        "the same again is left to another rule": ([*LOOKED, *(echoes(1, s)[0] for s in range(1, 5))], ""),
        "pauses": ([*LOOKED, *(bash(s * 121, "echo 'which one?'") for s in range(1, 9))], ""),
    },
)
def test_messages_that_are_alike(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


def prompt(second: float) -> ActionEvent:
    """A prompt of the user that says something new."""
    return event(second, "", kind=Kind.SESSION_STARTED, outcome=None, task=Task(prompts=2), event_id=f"prompt {second}")


SENTENCE = "Hmm, let me look somewhere else."


@cases(
    "events, found",
    {
        "a sentence three times": ([*LOOKED, *each(range(1, 5), turn, SENTENCE)], "cc"),
        "a short answer may be one to somebody": ([*LOOKED, *each(range(1, 4), turn, "All done!")], "m"),
        "in a session that never acted": (each(3, turn, SENTENCE), "m"),
        "a prompt in between": ([*LOOKED, turn(1, SENTENCE), turn(2, SENTENCE), prompt(3), turn(4, SENTENCE)], ""),
        "tools that are not guarded may have been called": (
            [*LOOKED, *each(range(1, 4), turn, SENTENCE, usage=Usage(output_tokens=150))],
            "m",
        ),
        "long texts that are equal": ([*LOOKED, *each(range(1, 4), turn, SENTENCE * 30, output_digest="d")], "c"),
    },
)
def test_the_same_sentence_instead_of_an_act(events: Events, found: str) -> None:
    assert severities(Monologue(chants=10_000), events) == found


@cases(
    "turns, before, found",
    {
        "seven": (7, 1, ""),
        "eight": (8, 1, "m"),
        "sixteen": (16, 1, "mmmmhhhhc"),
        "who never acts is there to talk": (60, 0, ""),
    },
)
def test_talk_of_any_kind(turns: int, before: int, found: str) -> None:
    acts = [event(-10, "read_file")] * before
    events = [turn(s, other_words(s * 7)) for s in range(turns)]
    strict = Monologue(likeness=1)
    assert severities(strict, [*acts, *events]) == found


THOUGHTFUL = {"usage": Usage(output_tokens=900)}


@cases(
    "every_s, fields, found",
    {
        "as fast as no person answers": (10, {}, "m"),
        "a person may have answered": (20, {}, ""),
        "a tool that is not guarded may have been called": (1, THOUGHTFUL, ""),
    },
)
def test_a_message_counts_half_as_talk_if(every_s: int, fields: dict[str, Any], found: str) -> None:
    events = [turn(s * every_s, other_words(s * 7), **fields) for s in range(8)]
    assert severities(Monologue(likeness=1), [event(-10, "read_file"), *events]) == found


SILENT: dict[str, Any] = {"output_head": None, "output_bytes": None}
LARGE = {"usage": Usage(input_tokens=190_000)} | SILENT
CONDENSED = {"usage": Usage(input_tokens=190_000, output_tokens=900)} | SILENT
CALLING = {"usage": Usage(input_tokens=4_000, output_tokens=80)} | SILENT


@cases(
    "events, found",
    {
        "after a turn with a text": ([turn(0), *each(range(1, 21), turn, **SILENT)], "mmmmmhhhhhc"),
        "two million tokens, and nothing is added to the context": (each(12, turn, **CONDENSED), "mcc"),
        "as many, but results are added": (
            [turn(s, **SILENT, usage=Usage(input_tokens=190_000 + 500 * s, output_tokens=900)) for s in range(12)],
            "mmm",
        ),
        "with output: it may have called tools that are not guarded": (
            [turn(0), *each(range(1, 22), turn, **CALLING)],
            "mmmmmhhhhhhh",
        ),
        "a call in between": (
            [*each(9, turn, **LARGE), event(9, "read_file"), *each(range(10, 19), turn, **LARGE)],
            "",
        ),
        "a pause in between": ([*each(9, turn, **LARGE), *each(range(200, 209), turn, **LARGE)], ""),
    },
)
def test_turns_with_neither_text_nor_call(events: Events, found: str) -> None:
    assert severities(DETECTOR, events) == found


def test_empty_turns_are_reported_with_what_they_used() -> None:
    *_, (_, finding) = findings(DETECTOR, each(12, turn, **LARGE))
    reason = "12 model turns in a row with neither text nor call, which used 2280000 tokens"
    assert (finding.code, finding.reason) == ("empty_turns", reason)
    assert finding.values == {"turns": 12, "tokens": 2_280_000}


PASSAGE = "and then we look at it again with care. "


@cases(
    "text, repeats, found",
    {
        "in its recorded beginning": (PASSAGE * 12, None, "m"),
        "after it, as its producer counted": ("Here is what I found.", 12, "m"),
        "nowhere, as its producer counted": (PASSAGE * 12, 0, ""),
    },
)
def test_a_passage_is_repeated(text: str, repeats: int | None, found: str) -> None:
    assert severities(DETECTOR, [turn(0, text, output_repeats=repeats)]) == found


def test_chanting_gets_worse_with_each_message_and_ends() -> None:
    texts = [f"{w} {PASSAGE}" * 12 for w in ("amber", "basin", "cedar")]
    events = [e for s, text in enumerate(texts) for e in (turn(s, text), event(s + 0.5, "read_file"))]
    assert [code for _, code, _ in fires_at(DETECTOR, events)] == ["chanting"] * 3
    assert severities(DETECTOR, events) == "mhc"
    assert severities(DETECTOR, [turn(0, PASSAGE * 60)]) == "h"
    between = [turn(s, other_words(s)) for s in range(1, 10)]
    assert severities(DETECTOR, [turn(0, PASSAGE * 12), *between, turn(11, f"x{PASSAGE}" * 12)]) == "mm"


ACTS = (
    *("echo $PATH", 'echo "$HOME"', "echo `id`", "echo *", "echo ~", "echo {1..9}", "echo a > x", "echo a | nc h 1"),
    *("make && echo done", "echo start; make", "echo a\nls", "#!/bin/sh\nls", "# look\nls", "echo a &", "ls", ""),
)


@pytest.mark.parametrize("command", ACTS)
def test_commands_that_do_something(command: str) -> None:
    assert severities(DETECTOR, each(9, bash, command)) == ""
