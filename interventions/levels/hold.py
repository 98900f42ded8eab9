"""The hold: how a session that makes no progress is stopped. Pure, in event time.

The rules of judgement share one cause, and what they find is taken together. Below a stop, each gives its hints. A stop
is carried out in steps: one call is refused, and the model is told what repeats and what progress would be. The next
attempts are made, unless they repeat what was refused. If any of these rules has a finding after them, even one that
would be a hint, no progress has come, and the session is held: a freeze of the whole session with one open request,
which ends by an operator's approval or reset, or by a new prompt of its user. What is plainly equal, such as the same
call with the same result, is held at once after a hint.

A held session that goes on is killed after the policy's number of refused turns. Time alone allows nothing.
"""

from collections.abc import Sequence
from typing import Final

from haltline.interventions.levels.default_levels import (
    FREEZE,
    HELD_CODE,
    JUDGEMENT,
    STOPS_SESSION,
    cause_of_rule,
)
from haltline.interventions.state.context import Deed
from haltline.interventions.state.intervention_history import History
from haltline.interventions.state.session_control import Freeze, Judging, SessionControl
from haltline.schemas.control import HALTLINE, ControlState
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import HoldRules

CAUSE: Final = "no_progress"
REPEATED: Final = "refused_again"
"""The code of the finding that a refused call is repeated."""
WENT_ON: Final = "session_killed_after_hold"
"""The code of a kill, as the session continued while it was held."""

DETECTOR: Final = "held"
"""The `detector` of decisions on what a held session does."""

_MAX_REFUSED: Final = 8


def is_held(control: SessionControl) -> bool:
    """Return whether every call of the session is refused, though it is not killed."""
    return control.held is not None and control.held.state == ControlState.FROZEN


def freezes(event: ActionEvent, decision: Decision) -> bool:
    """Return whether a decision is a pause of the whole session: for progress or budgets, or on a model turn."""
    on_call = event.kind in {Kind.PROPOSED, Kind.COMPLETED}
    return decision.level is Level.PAUSE and (not on_call or decision.detector in STOPS_SESSION | JUDGEMENT)


def without_freezes(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Return the findings without those whose pause freezes the whole session."""
    return [finding for finding in findings if finding.detector not in STOPS_SESSION | JUDGEMENT]


def is_for_progress(held: Freeze | None) -> bool:
    """Return whether a freeze is a hold for lack of progress."""
    return held is not None and held.by == HALTLINE and held.code == HELD_CODE


def on_attempt(control: SessionControl, act: Deed, rules: HoldRules) -> Finding | None:
    """Count an attempt after a refusal. Returns the finding that it repeats the refused call, if it does."""
    judging = control.judging
    if judging is None or not act.is_attempt:
        return None
    call = act.fingerprint[:16]
    if judging.refuses_next and not act.is_result:  # the agent's side refuses it, as it knows the decision
        judging.refuses_next, judging.step = False, act.step
        judging.refused = [*judging.refused, call][-_MAX_REFUSED:]
        return None
    if act.step > judging.step:  # the calls of one turn count once
        judging.step = act.step
        judging.attempts += 1
    if judging.attempts > rules.within:
        control.judging = None
        return None
    if act.refused or call not in judging.refused:
        return None
    return Finding(
        detector=judging.rule,
        code=REPEATED,
        severity=Severity.CRITICAL,
        reason=f"the refused call is repeated: {judging.reason}",
        evidence=(act.evidence,),
    )


def judge_anew(control: SessionControl) -> None:
    """Forget what was found of the session's progress: it was released, or its user says something new."""
    control.judging = None
    for rule in JUDGEMENT & control.given.keys():
        del control.given[rule]
    if (history := control.history) is not None:
        history.entries = [entry for entry in history.entries if entry.rule not in JUDGEMENT]
        for rule in JUDGEMENT & history.issues.keys():
            del history.issues[rule]


def judging(finding: Finding, since_ms: int, act: Deed | None, *, on_call: bool) -> Judging:
    """Return the steps towards a hold, after the first refusal; not `on_call`: the next call is the refused one."""
    refused = [act.fingerprint[:16]] if on_call and act is not None else []
    step = 0 if act is None else act.step
    return Judging(finding.detector, finding.reason[:500], since_ms, refused, not on_call, step)


def counts_turn(held: Freeze, act: Deed, rules: HoldRules, *, is_turn: bool) -> bool:
    """Count an attempt of a held session, or a refused turn of its model. Returns whether it went on for too long."""
    if is_turn:
        held.turns += 1
    elif act.step > held.step:  # the calls of one turn count once
        held.step = act.step
        held.turns += 1
    return held.turns >= rules.kill_after


def cause_of(held: Freeze) -> str:
    """Return the cause that a freeze counts under."""
    return CAUSE if held.code == HELD_CODE else cause_of_rule(held.code.removeprefix(FREEZE))


def was_hinted(history: History) -> bool:
    """Return whether the model had a hint that the session makes no progress."""
    return any(entry.rule in JUDGEMENT and entry.said for entry in history.entries)


def since_ms(history: History, event: ActionEvent) -> int:
    """Return when the session's lack of progress was first found, event time in epoch milliseconds."""
    return min((times[0] for rule in JUDGEMENT if (times := history.issues.get(rule))), default=event.time)
