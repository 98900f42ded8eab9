"""The text of a decision: for the model in at most 400 characters, and for the operator in one line. Pure.

A text for the model says what was found and since when, what would be progress, and whom to ask, and is the same in
every integration. What may come from a tool, a file or a command line is quoted and cut: no name speaks to the model.
"""

import json
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from haltline.interventions.state.messages import BY_LEVEL, HINTS
from haltline.schemas.control import HALTLINE, ControlRecord, ControlState
from haltline.schemas.decisions import WHOLE_SESSION, Approval, ApprovalState, Decision, Level, ScopeKind

MAX_CHARS: Final = 400
_NAME_CHARS: Final = 60
_CAUSE_CHARS: Final = 120
_LINE_CHARS: Final = 300
_STOOD: Final = "was stopped for: "
"""Before the cause, in the reason of an answer to a request."""
_TRIPWIRE: Final = "tripwire_"
NO_AGENTS: Final = "no_agents_"
"""Beginning of the codes of refusals of calls that start agents; the rule follows."""
TREE_FROZEN: Final = "tree_frozen_"
"""Beginning of the codes of refusals in a tree of sessions that a rule froze; the rule follows."""
ONE_THING: Final = frozenset({ScopeKind.TOOL, ScopeKind.TARGET})
"""Scopes whose kill refuses calls, but ends no session."""

OPERATOR: Final = "Only an operator can release it."
USER_OR_OPERATOR: Final = "A new prompt of your user, or an operator, releases it."
_END: Final = "End your turn now, and report what is done and what is missing."
_NO_OTHER_WAY: Final = "Do not try to reach the same result another way."
_MEANWHILE: Final = "Do something else meanwhile, or end your turn and report it."
_REPORT: Final = "Report what you wanted to do and why, or continue with something else."
PROGRESS: Final = "Progress is a new result, a change that takes effect, or your report of what is missing."

NO_VERDICT: Final = (
    "haltline did not make this call: no decision on it could be obtained, and it could do harm. Continue with calls "
    "that only read, or end your turn and report it. Ask whoever operates you to look at haltline."
)
"""For a call without a verdict that is refused."""
NOT_CHECKED: Final = (
    "haltline did not make this call: it could not be checked. Write it in a simpler way, or report it."
)
"""For a call that the guard, or its front end, could not check or read."""
NOT_DECIDED: Final = (
    "haltline did not make this call: it is not decided yet, and a person may have to approve it. Do not try to reach "
    "the same result another way. Continue with something else, or end your turn and report it."
)
"""For a call whose verdict is still awaited."""


def of_decision(decision: Decision) -> str:
    """Return the text for the model; empty if there is nothing to tell it."""
    level, approval = decision.level, decision.approval
    if decision.message or level < Level.PAUSE:
        return fitted(decision.message)
    is_authors = decision.detector.startswith(_TRIPWIRE)  # its condition is for people
    cause = "" if is_authors else decision.reason.rpartition(_STOOD)[2]
    if level is Level.KILL and decision.scope not in ONE_THING:
        return stopped(cause, decision.time, _named(decision.scope, decision.scope_id or ""))
    if approval is not None and approval.action == WHOLE_SESSION and level is Level.PAUSE:
        return held(cause, decision.time, decision.detector)
    if approval is not None:
        return _of_request(approval, cause)
    advice = hint(level, decision.code, decision.detector, decision.target)
    return fitted(f"haltline refused this call{_of(cause)}. {advice or f'{_NO_OTHER_WAY} {_REPORT}'}")


def told(decision: Decision) -> Decision:
    """Return the decision with its text for the model."""
    text = of_decision(decision)
    return decision if text == decision.message else decision.model_copy(update={"message": text})


def hint(level: Level, code: str, rule: str, target: str | None, own: Mapping[str, str] = HINTS) -> str:
    """Return the hint of a finding, by its code or its rule in `own` texts, else by the level; empty without any."""
    text = own.get(code) or own.get(rule) or (BY_LEVEL.get(level, "") if own is HINTS else "")
    return fitted(text.replace("{target}", quoted(target) if target else "the same thing"))


def of_entry(entry: ControlRecord) -> str:
    """Return the text for the model of what an entry of the control topic refuses."""
    cause = entry.reason if entry.by == HALTLINE else f"by {entry.by}: {entry.reason}"
    one = _named(entry.scope, entry.id)
    since = clock(entry.since)
    if entry.state is ControlState.CONTAINED:
        look = "Look, change nothing, and report what you would do."
        return f"Since {since} haltline allows {one} only to read{_of(cause)}. {look} {OPERATOR}"
    if entry.state is ControlState.KILLED and entry.scope not in ONE_THING:
        return stopped(cause, entry.since, one)
    if entry.code.startswith(NO_AGENTS):
        rest = "Go on with those that you have, or do the work yourself."
        return f"haltline starts no further agent since {since}{_of(cause)}. {rest}"
    if entry.by == HALTLINE and (entry.scope is ScopeKind.SESSION or entry.code.startswith(TREE_FROZEN)):
        return held(cause, entry.since, entry.code)
    where = f"haltline refused this call: since {since} {one} is frozen{_of(cause)}."
    return f"{where} {_NO_OTHER_WAY} {_REPORT} {OPERATOR}"


def stopped(cause: str, since_ms: int, what: str) -> str:
    """Return the text for the model of a kill."""
    return f"haltline stopped {what} at {clock(since_ms)}{_of(cause)}. Nothing more is executed. {_END} {OPERATOR}"


def held(cause: str, since_ms: int, rule: str) -> str:
    """Return the text for the model of a session whose every call is refused until it is released.

    `rule`, or the code that ends with it: a new prompt does not release what has spent too much.
    """
    who = OPERATOR if rule.endswith(("budget", "spend_velocity")) else USER_OR_OPERATOR
    return f"haltline holds this session since {clock(since_ms)}{_of(cause)}. No call is made. {_END} {who}"


def without_progress(cause: str, since_ms: int, advice: str) -> str:
    """Return the text for the model of the call that is refused before a session is held."""
    found = f"haltline refused this call, as there is no progress since {clock(since_ms)}{_of(cause)}."
    rest = f"{PROGRESS} Without it, the session is held."
    return f"{found} {_last_sentences(advice, MAX_CHARS - len(found) - len(rest) - 2)}{rest}"


def alone(text: str, session_id: str) -> str:
    """Return the text where no operator is connected: the user of this machine releases the session."""
    command = f"haltline hook release {shlex.quote(session_id)}"
    for operator, user in (
        (OPERATOR, f"Your user releases it: {command}"),
        (USER_OR_OPERATOR, f"Your user releases it with a new prompt, or: {command}"),
    ):
        if operator in text:
            found = text.replace(operator, user)
            return found if len(found) <= MAX_CHARS else text.replace(operator, "Only your user can release it.")
    return text


def nobody_to_ask(decision: Decision, setting: str) -> str:
    """Return the text for the model of a call that needs approval where nobody can be asked.

    `setting`: the one that would allow it.
    """
    return fitted(
        f"haltline refused this call: it needs an approval, and nobody can be asked here{_of(decision.reason)}. "
        f"Continue with something else, or report it. Whoever runs you allows it by `{setting}` or `tools` in the "
        "guard's policy, or connects the guard to Kafka."
    )


def not_changed(args: Mapping[str, Any]) -> str:
    """Return the refusal of a call that is only allowed with these arguments, where they cannot be changed."""
    return fitted(f"This call is only allowed with other arguments: {json.dumps(args, default=str)}")


def line_of(decision: Decision) -> str:
    """Return the decision for the operator: level, code, time and cause, in one line."""
    would = f" (would be {decision.would})" if decision.would else ""
    cause = _cut(_plain(decision.reason), _LINE_CHARS)
    asked = decision.approval
    until = f"; request {asked.request_id}, until {clock(asked.expires)}" if asked is not None else ""
    return f"{decision.level}{would} {decision.code} at {clock(decision.time)}: {cause}{until}"


def quoted(name: str, most: int = _NAME_CHARS) -> str:
    """Return a name or a cause in double quotes, printable, in one line and cut."""
    return f'"{_cut(_plain(name).replace(chr(34), chr(39)).rstrip("."), most)}"'


def clock(time_ms: int) -> str:
    """Return a time for people."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def fitted(text: str) -> str:
    """Return a text for the model, cut to its maximum."""
    return _cut(text, MAX_CHARS)


def _of_request(asked: Approval, cause: str) -> str:
    """Return the text of a call that waits for a person, or of the answer to its request."""
    found = f"{f': {quoted(asked.action)}' if asked.action else ''}{_of(cause)}."
    match asked.state:
        case ApprovalState.PENDING | ApprovalState.APPROVED:
            waits = f"haltline did not make this call: since {clock(asked.since)} it waits for a person's approval"
            return f"{waits}{found} {_MEANWHILE} Once it is approved, make the same call again."
        case ApprovalState.REJECTED:
            return f"A person has refused this call{found} {_NO_OTHER_WAY} {_REPORT}"
        case ApprovalState.INFO_REQUESTED:
            question = quoted(asked.question, 2 * _CAUSE_CHARS)
            return f"A person asks before approving this call: {question} Answer, then make the same call as before."
        case ApprovalState.EXPIRED:
            why = f"nobody approved it until {clock(asked.expires)}"
        case ApprovalState.USED:
            why = "its approval was for one call, and another has used it"
        case ApprovalState.CANCELLED:
            why = "the request for its approval was closed"
    return f"haltline refused this call: {why}{found} {_REPORT}"


def _of(cause: str) -> str:
    code, _, rest = cause.partition(", ")
    if rest and "_" in code and code.replace("_", "").isalpha():  # a code is for programs
        cause = rest
    return f": {quoted(cause, _CAUSE_CHARS)}" if cause else ""


def _named(scope: ScopeKind, name: str) -> str:
    return "this session" if scope is ScopeKind.SESSION else f"the {scope} {quoted(name)}"


def _plain(text: str) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3].rstrip()}..."


def _last_sentences(text: str, room: int) -> str:
    """Return as many whole sentences from the end as there is room for, each followed by a blank."""
    kept = ""
    for sentence in reversed(text.rstrip(".").split(". ")):
        longer = f"{sentence}. {kept}"
        if len(longer) > room:
            break
        kept = longer
    return kept
