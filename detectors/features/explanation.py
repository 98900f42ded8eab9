"""An explanation of one call: each of its acts with its effect, its target and the source of that classification.

The call is classified without a session: who owns its targets, and what was done before, is unknown.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import ValidationError

from haltline.detectors.commands.effects import rows
from haltline.detectors.commands.effects.languages import in_english
from haltline.detectors.commands.effects.programs import TABLE
from haltline.detectors.commands.model import LOSSES, ActEffect, Badness, Destruction
from haltline.detectors.commands.prefilter import may_destroy
from haltline.detectors.commands.reading import reader_of
from haltline.detectors.commands.rows import place_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.features.call import Phase
from haltline.detectors.features.call_tracker import CallTracker
from haltline.detectors.features.observation import Observation
from haltline.detectors.features.tool_classifier import Classifier
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.policy import Policy, Reading
from haltline.schemas.record import JsonObject

_ONE_BY_ONE = (ActEffect.SENDS, ActEffect.HANDS_OVER, ActEffect.SPENDS)
_SOME_TIME_MS = 1_700_000_000_000
_CERTAIN = {
    "kill": "a row names the target: the same one a second time is a hint\nthe third time it kills the session",
    "question": "severe: refused at once, so that a person can be asked\na second severe one kills the session",
    "hint": "no row names it, but an unknown tool's or argument's name does: a second time is a hint\n"
    "the third is refused",
    "count": "another kind of act than a loss: a repetition is a hint\nthe third time a person is asked",
    "none": "local, for tests, or recreated by the next run: nothing",
}
"""What follows at most, by how certain the act and its damage are."""


@dataclass(frozen=True)
class Act:
    """An act of a call."""

    effect: str
    verb: str
    target: str
    badness: str
    level: str
    """The most that follows by certainty: `kill`, `question`, `hint`, `count` or `none`; see `_CERTAIN`."""
    reversible: bool
    why: str
    """The row of a table, or the module that parses it."""
    asks: bool
    """Whether the policy requires a person's approval for the first one on its target (rule `ask_first`)."""
    follows: str
    """The consequences by the policy's rules, a line each."""


@dataclass(frozen=True)
class Explanation:
    """The classification of a call."""

    tool: str
    effect: str
    """The effect of the tool, by the policy and its name."""
    reading: str
    """The `Reading` of what it runs; empty if it runs nothing."""
    acts: tuple[Act, ...]


def explain(
    action: str,
    args: JsonObject,
    policy: Policy,
    asks_about: Callable[[Destruction], bool] | None,
) -> Explanation:
    """Classify a call of a tool; `asks_about` returns whether the policy's rule `ask_first` applies to an act.

    Raises:
        ValueError: the tool's name is too long, or the arguments are nested too deeply.

    """
    try:
        event = ActionEvent(
            event_id="e", kind=Kind.PROPOSED, session_id="s", time=_SOME_TIME_MS, action=action, args=args
        )
    except ValidationError as error:
        raise ValueError(f"tool: expected a name, got {action[:40]!r}: {error.errors()[0]['msg']}") from None
    try:
        act = Observation(event, Classifier(policy), Phase.ATTEMPT, CallTracker())
        acts, losses = act.acts, act.irreversible
    except RecursionError:
        raise ValueError("arguments: expected fewer levels, got too many to read") from None
    known = act.tool.effect
    return Explanation(
        action,
        "not known" if known is None else str(known),
        str(act.tool.reading) if act.runs else "",
        tuple(_act(one, act, asks_about is not None and one in losses and asks_about(one)) for one in acts),
    )


def _act(one: Destruction, act: Observation, asks: bool) -> Act:
    level = _level(one)
    follows = _CERTAIN[level]
    if level in ("kill", "count") and not one.reversible and one.effect not in _ONE_BY_ONE:
        follows += "\nthree within a minute, or five within 20 actions: a person is asked"
    if asks:
        follows = f"the first on this target: a person is asked\n{follows}"
    return Act(
        one.effect.value, one.verb, one.target, one.badness.name.lower(), level, one.reversible, _why(one, act), asks,
        follows,
    )  # fmt: skip


def _level(one: Destruction) -> str:
    if one.badness is Badness.SCRATCH:
        return "none"
    if one.effect not in LOSSES:
        return "count"
    if one.badness is Badness.SEVERE:
        return "question"
    return "hint" if one.guessed else "kill"


def _why(one: Destruction, act: Observation) -> str:
    if act.text and act.tool.reading is Reading.SHELL and may_destroy(act.text):
        for line, effect in _of_programs(act.text, one.verb):
            if effect is None or effect is one.effect:
                return line
    if act.text:
        return f"the executed text, read as {act.tool.reading}"
    if one.verb.startswith("http_"):
        return "its method and URL: commands/rows/web.txt"
    if one.verb == "click":
        return f"the clicked text{_in_english(one.target)}: commands/rows/buttons.txt"
    return f"its name and arguments{_in_english(act.action)}: commands/rows/tools.txt, schemas/tool_names.py"


def _in_english(text: str) -> str:
    english = in_english(text)
    return f", in English {' '.join(english)!r} (commands/rows/languages.txt)" if english else ""


def _of_programs(text: str, verb: str) -> Iterator[tuple[str, ActEffect | None]]:
    """Yield the sources of what each program does, those of the program that a verb is named after first."""
    for invocation in sorted(invocations(text), key=lambda one: not verb.startswith(one.name.replace("-", "_"))):
        for row in rows.matching(TABLE, invocation):
            yield f"{place_of(row.source)}: {row.source}", row.effect
        module = reader_of(invocation)
        if module:
            yield f"{invocation.name}, read by {module}", None
