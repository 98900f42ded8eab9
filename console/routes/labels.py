"""Operators' labels of decisions, and the precision of each rule."""

from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from haltline.console.context import ContextDep, OperatorClient, Viewer
from haltline.console.http.routing import NO_SUCH_ID, StrictRoute
from haltline.console.ids import decision_in, whole
from haltline.console.read_model.history import decisions_of, hint_effectiveness, labels_of
from haltline.detectors import PATTERNS
from haltline.schemas.decisions import ScopeKind
from haltline.schemas.record import rfc3339
from haltline.schemas.removed_rules import REMOVED
from haltline.streams.replay.label_precision import by_rule

router = APIRouter(prefix="/api/v1", tags=["labels"], route_class=StrictRoute)

_LATEST = 50
_DECISIONS = 1000

Why = Annotated[str, Field(min_length=1, max_length=4096, examples=["the table was to be removed"])]


class LabelRequest(BaseModel):
    """An operator's label of a decision."""

    label: Literal["confirmed", "false_alarm"]
    reason: Why


class MissedRequest(BaseModel):
    """A rule that should have found something in a session."""

    rule: Annotated[str, Field(min_length=1, max_length=256)]
    reason: Why


class LabelResult(BaseModel):
    """The outcome."""

    command_id: str
    answered: bool
    """Whether a worker has processed it."""


class Quality(BaseModel):
    """The quality of a rule, by the labels."""

    rule: str
    confirmed: int
    false_alarm: int
    missed: int
    precision: float | None
    """The share of its labelled decisions that were right."""
    recall: float | None
    """The share of the sessions labelled for it that it found."""


class LabelRecord(BaseModel):
    """One label."""

    label: str
    rule: str
    session_id: str
    decision_id: str | None
    by: str
    reason: str
    time: str


class Advice(BaseModel):
    """The effect of a rule's hints in the next ten actions of their sessions."""

    rule: str
    hints: int
    helped: int
    """The rule found nothing more."""
    went_on: int
    """It had the same kind of finding again."""
    stopped: int
    """It decided a pause or more."""
    unknown: int
    """The session has not continued for long enough yet."""
    share_helped: float | None
    """The share of the known ones."""


class Compared(BaseModel):
    """One figure of an experiment: shares from 0 to 1, or a mean number of calls."""

    what: str
    told: float | None
    told_of: int
    """The number of sessions that got the hint, and in which it is known."""
    silent: float | None
    silent_of: int
    difference: float | None
    """Told less silent."""
    low: float | None
    high: float | None
    """The ends of its 95 % interval."""


class Effect(BaseModel):
    """What the hints of a rule change, by the policy's experiment."""

    rule: str
    measures: list[Compared]


class Precision(BaseModel):
    """Every rule with labels, and the latest labels."""

    rules: list[Quality]
    labels: int
    latest: list[LabelRecord]
    advice: list[Advice]
    """By rule, for the last 1000 decisions: whether hints helped."""
    experiments: list[Effect]
    """By rule, for the same decisions: what the hints of an experiment changed."""


@router.get("/precision")
def precision(here: ContextDep, _: Viewer) -> Precision:
    """The quality of each rule, by the operators' labels of its decisions; the last label of a decision counts."""
    labels = labels_of(here.engine)
    decisions = decisions_of(here.engine, (one.decision_id for one in labels if one.decision_id is not None))
    rule_of = {name: decision.detector for name, decision in decisions.items()}
    advice, experiments = hint_effectiveness(here.engine, _DECISIONS)
    return Precision(
        rules=[Quality(**one.to_dict()) for one in by_rule(labels, decisions.values())],
        labels=len(labels),
        advice=[Advice(**one.to_dict()) for one in advice],
        experiments=[Effect(**one.to_dict()) for one in experiments],
        latest=[
            LabelRecord(
                label=one.label or "",
                rule=one.code or rule_of.get(one.decision_id or "", ""),
                session_id=one.id,
                decision_id=one.decision_id,
                by=one.by,
                reason=one.reason,
                time=rfc3339(one.time),
            )
            for one in reversed(labels[-_LATEST:])
        ],
    )


@router.post("/decisions/{decision_id}/label", responses=NO_SUCH_ID)
def label(here: ContextDep, who: OperatorClient, decision_id: str, body: LabelRequest) -> LabelResult:
    """Labels whether a rule's decision was right, without changing it. An operator's own kill has no rule: 409."""
    decision = decision_in(here.engine, decision_id)
    answer = here.inbox.label(decision, body.label, by=who.name, reason=body.reason)
    return LabelResult(command_id=answer.command.command_id, answered=answer.answered)


@router.post("/sessions/{session_id:path}/missed", responses={404: {"description": "There is no such rule."}})
def missed(here: ContextDep, who: OperatorClient, session_id: str, body: MissedRequest) -> LabelResult:
    """Labels that a rule should have had a finding in a session, and did not."""
    if body.rule not in PATTERNS.keys() | REMOVED and not body.rule.startswith("correlation_"):
        raise HTTPException(404, f"rule: expected one of {', '.join(sorted(PATTERNS))}, got {body.rule!r:.80}")
    session_id = whole(here, ScopeKind.SESSION, session_id, hint="no events of it were found")
    answer = here.inbox.missed(session_id, body.rule, by=who.name, reason=body.reason)
    return LabelResult(command_id=answer.command.command_id, answered=answer.answered)
