"""Traces of ACGP's SDK as events, and the decisions on them in ACGP's vocabulary.

A trace is one step of an agent's reasoning: a turn of the model. If its context names a tool (`tool` or `action`), the
tool's call follows, proposed and completed. The last event awaits a verdict: with it the trace is processed.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine, select

from haltline.console.read_model import tables
from haltline.interventions.acgp.scores import ctq, scores_of
from haltline.interventions.agent.producers.cleaning import cleaned
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.vocabularies import acgp
from haltline.schemas import wire
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent, Kind, Outcome, Task, Usage
from haltline.schemas.findings import Detection
from haltline.schemas.record import EARLIEST_MS, LATEST_MS, JsonObject, rfc3339

SOURCE: Final = "acgp"
CLEANING: Final = GuardSettings(mode="local", max_output_chars=8192)
_CALL, _TURN = ":call", ":turn"
_LONGEST_AGO_MS: Final = 86_400_000
_LATEST: Final = 1000
_HIGH, _MEDIUM = 0.7, 0.5
"""The minimum scores of high and of medium quality of reasoning, from the SDK's own models."""
_RENDERED: Final = (
    "flag_severity", "message", "decision_id", "session_id", "agent_id", "tripwire", "trust_debt", "agent_acl_tier",
)  # fmt: skip
_OF_PEOPLE: Final = frozenset({acgp.Intervention.ESCALATE, acgp.Intervention.HALT})


EXAMPLE: Final[JsonObject] = {
    "trace_id": "6f2b9e1c-3f0a-4b57-9f5e-0a7c1f8f6f11",
    "agent_type": "planner",
    "agent_tag": "inventory-planner",
    "goal": "Plan the inventory update",
    "reasoning_text": "First I look what is there.",
    "final_output": "1. Count. 2. Order.",
    "context_information": {"session_id": "run-7"},
}


class Trace(BaseModel):
    """One step, in the fields of the SDK."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [EXAMPLE]},
    )

    trace_id: Annotated[str, Field(min_length=1, max_length=200)]
    agent_type: Annotated[str, Field(max_length=256)] = ""
    agent_tag: Annotated[str, Field(max_length=200)] = ""
    goal: Annotated[str, Field(max_length=100_000)] = ""
    user_query: Annotated[str | None, Field(max_length=100_000)] = None
    reasoning_text: Annotated[str, Field(max_length=1_000_000)] = ""
    final_output: Annotated[str, Field(max_length=1_000_000)] = ""
    output_type: Annotated[str | None, Field(max_length=256)] = None
    context_information: JsonObject = Field(default_factory=dict)
    documents_used: list[str] | None = None
    similarity_scores: list[float] | None = None
    start_time: str | None = None
    end_time: str | None = None
    timestamp: str | None = None
    had_error: bool = False


class Processed(NamedTuple):
    """The decision on a trace."""

    trace_id: str
    decision: Decision
    """The one with the highest level."""
    scores: Mapping[str, float]

    @property
    def composite(self) -> float:
        """CTQ, 0 to 1."""
        governance = self.decision.governance
        return ctq(self.scores) if governance is None else governance.ctq

    @property
    def oversight_mode(self) -> str:
        """The level of oversight for this quality, in the SDK's vocabulary."""
        if self.composite > _HIGH:
            return "socratic_philosopher"
        return "wise_critic" if self.composite >= _MEDIUM else "strict_guardian"

    def follow_up(self) -> JsonObject:
        """The decision for ACGP: `OK`, `NUDGE`, `ESCALATE`, `BLOCK` or `HALT`, and whether it is a `FLAG`."""
        rendered = acgp.render(self.decision)
        feedback = {name: getattr(rendered, name) for name in _RENDERED} | {
            "intervention": rendered.intervention.value.upper(),
            "flag": "FLAG" if rendered.flagged else None,
            "reason": self.decision.reason,
            "timestamp": rfc3339(rendered.timestamp),
        }
        return {
            "trace_id": self.trace_id,
            "status": "processed",
            "ctq_scores": self.ctq_scores(),
            "feedback": feedback,
            "requires_hitl": rendered.flagged or rendered.intervention in _OF_PEOPLE,
            "oversight_mode": self.oversight_mode,
        }

    def ctq_scores(self) -> dict[str, float]:
        """The score of each dimension, and the total."""
        return {"composite_score": self.composite, "total_score": self.composite, **self.scores}


def session_of(trace: Trace, key: str) -> str:
    """The session of a trace: its context's, else one for the agent's tag."""
    context = trace.context_information
    named = _first(context, "session_id", "run_id")
    return str(named or f"acgp:{key}:{trace.agent_tag or trace.agent_type or 'agent'}")[:256]


def events_of(trace: Trace, *, key: str, sent_at: str | None = None) -> list[ActionEvent]:
    """The events of a trace, in order.

    The SDK's times have no UTC offset. A step's age is computed from `sent_at`, which has the same clock.
    """
    context = trace.context_information
    ended = trace.end_time or trace.timestamp
    time_ms = max(EARLIEST_MS, min(LATEST_MS - 1, time.time_ns() // 1_000_000 - _ago_ms(ended, sent_at)))
    who = {
        "session_id": session_of(trace, key),
        "agent_id": trace.agent_tag or trace.agent_type or "unknown",
        "time": time_ms,
        "source": SOURCE,
        "sent_by": key,
    }
    tool = _first(context, "tool", "action")
    text = "\n".join(filter(None, (trace.reasoning_text, trace.final_output)))
    scores = {"ctq": context["ctq"]} if isinstance(context.get("ctq"), dict) else {}
    turn = ActionEvent(
        event_id=trace.trace_id if tool is None else trace.trace_id + _TURN,
        kind=Kind.MODEL_TURN,
        output_head=text or None,
        outcome=Outcome.ERROR if trace.had_error else None,
        task=Task(goal=trace.goal[:16_000]) if trace.goal else None,
        usage=_usage(context),
        await_verdict=tool is None,
        **who,
        **scores,
    )
    if tool is None:
        return [cleaned(turn, CLEANING)]
    args: JsonObject = next(
        (context[n] for n in ("args", "tool_input", "inputs") if isinstance(context.get(n), dict)), {}
    )
    call = {"call_id": trace.trace_id, "action": tool[:512], **who}
    proposed = ActionEvent(event_id=trace.trace_id + _CALL, kind=Kind.PROPOSED, args=args, **call, **scores)
    completed = ActionEvent(
        event_id=trace.trace_id,
        kind=Kind.COMPLETED,
        outcome=Outcome.ERROR if trace.had_error else Outcome.OK,
        error=trace.final_output or None if trace.had_error else None,
        output_head=None if trace.had_error else trace.final_output or None,
        await_verdict=True,
        **call,
    )
    return [cleaned(event, CLEANING) for event in (turn, proposed, completed)]


def processed(engine: Engine, trace_id: str, key: str | None) -> tuple[bool, Processed | None]:
    """Return whether the trace is known, and its decision, if any. `key`: only traces sent with this key."""
    ids = (trace_id, trace_id + _CALL, trace_id + _TURN)
    found = _bodies(engine, ids)
    events = [wire.decode_event(body) for topic, body in found if topic == "actions"]
    known = [event for event in events if _is_of(event, key)]
    decisions = [wire.decode(Decision, body) for topic, body in found if topic == "interventions"]
    if not known or not any(decision.event_id == trace_id for decision in decisions):
        return bool(known), None
    detections = [wire.decode(Detection, body) for topic, body in found if topic == "detections"]
    hardest = max(decisions, key=lambda decision: (decision.level.rank, decision.event_id == trace_id))
    governance = next((d.governance for d in decisions if d.governance is not None), None)
    ctq_scores = next((extra["ctq"] for event in known if "ctq" in (extra := event.model_extra or {})), None)
    scores = scores_of((detection.finding for detection in detections), ctq_scores)
    if governance is not None:
        scores |= governance.scores
        hardest = hardest.model_copy(update={"governance": hardest.governance or governance})
    return True, Processed(trace_id, hardest, scores)


def news(engine: Engine, after: Mapping[int, int], since_ms: int) -> tuple[list[str], dict[int, int]]:
    """The traces with decisions after these offsets (by partition) and not before this time, and the new offsets.

    At first, of the last thousand decisions of each partition.
    """
    table, place = tables.records.c, tables.offsets.c
    ends = select(place.partition, place.next).where(place.topic == "interventions")
    ids: dict[str, None] = {}
    with engine.connect() as connection:
        following: dict[int, int] = dict(connection.execute(ends).all())
        for partition, end in following.items():
            first = after.get(partition, end - _LATEST)
            if end > first:
                held = (table.topic == "interventions", table.partition == partition, table.offset >= first)
                statement = select(table.event_id).where(*held, table.time_ms >= since_ms).order_by(table.offset)
                for name in connection.execute(statement).scalars():
                    ids[(name or "").removesuffix(_CALL).removesuffix(_TURN)] = None
    return list(ids), following


def _bodies(engine: Engine, ids: Sequence[str]) -> list[tuple[str, bytes]]:
    table = tables.records.c
    topics = ("actions", "interventions", "detections")
    statement = select(table.topic, table.body).where(table.topic.in_(topics), table.event_id.in_(ids))
    with engine.connect() as connection:
        return [(topic, body.encode()) for topic, body in connection.execute(statement).all()]


def _is_of(event: ActionEvent, key: str | None) -> bool:
    extra = event.model_extra or {}
    return extra.get("source") == SOURCE and (key is None or extra.get("sent_by") == key)


def _first(context: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that is a text and not empty."""
    return next((context[name] for name in names if isinstance(context.get(name), str) and context[name]), None)


def _usage(context: Mapping[str, Any]) -> Usage | None:
    names = {
        "input_tokens": ("input_tokens", "prompt_tokens"),
        "output_tokens": ("output_tokens", "completion_tokens"),
        "cost_usd": ("cost_usd", "cost"),
    }
    usage: dict[str, Any] = {}
    for field, candidates in names.items():
        value = next((context[name] for name in candidates if _is_amount(context.get(name))), None)
        if value is not None:
            usage[field] = float(value) if field == "cost_usd" else int(value)
    return Usage(**usage) if usage else None


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e12


def _ago_ms(then: str | None, now: str | None) -> int:
    try:
        ago = datetime.fromisoformat(now or "") - datetime.fromisoformat(then or "")
    except (ValueError, TypeError):
        return 0
    return min(_LONGEST_AGO_MS, max(0, round(ago.total_seconds() * 1000)))
