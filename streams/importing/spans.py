"""Sessions from spans: of LangSmith, Langfuse, Phoenix, OpenAI's Agents SDK and Inspect, in a common form.

A session is what the spans name (a thread, a group), else their trace. What lies below the call of a tool in which a
model was asked is a subagent, a session of its own. Tools' spans often lack the id of their call, and some their
arguments: they have them from the model's turn that asked for the call.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from haltline.schemas.events import Kind, Outcome, Usage
from haltline.streams.importing.messages import Proposal, Returned, proposals, text_of
from haltline.streams.importing.steps import Step

TOOL: Final = "tool"
MODEL: Final = "model"
_MAX_DEPTH = 200
_MAX_ERROR_CHARS = 2000


@dataclass(kw_only=True)
class Span:
    """One span of any of these formats."""

    id: str
    parent: str | None = None
    trace: str | None = None
    session: str | None = None
    kind: str = ""
    """`TOOL`, `MODEL`, or "" for a span that only groups others."""
    name: str = ""
    args: dict[str, Any] | None = None
    call_id: str | None = None
    outcome: Outcome | None = None
    """Set if it is neither ok nor a plain error."""
    error: str | None = None
    output: Any = None
    usage: Usage | None = None
    start_ms: float | None = None
    end_ms: float | None = None
    proposals: list[Proposal] = field(default_factory=list)
    """For a model: the proposed calls."""
    is_gate: bool = False
    """Represents the call of a tool that has another span as well: the spans below can be those of a subagent."""

    def is_turn(self, output: object, usage: Usage | None) -> None:
        """Set its fields to the turn of a model with this output."""
        self.kind, self.usage = MODEL, usage
        self.output = text_of(output) or None
        self.proposals = list(proposals(output))

    def is_call(self, name: object, result: Returned) -> None:
        """Set its fields to the call of a tool with this result."""
        self.kind, self.name = TOOL, str(name or "unknown")
        self.output, self.call_id = result.content, result.call_id
        if result.is_error:
            self.error = self.error or str(result.content)

    def merge(self, later: "Span") -> None:
        """Add the fields of a later record of the same span."""
        for one in fields(self):
            value = getattr(later, one.name)
            if value not in (None, "", []):
                setattr(self, one.name, value)


class Part(NamedTuple):
    """The recording of one session."""

    session_id: object
    """Its id; ignored if it is not a text."""
    steps: Iterable[Step]


def parts(spans: Iterable[Span]) -> Iterator[Part]:
    """Yield the sessions, each with its steps in order of time."""
    by_id: dict[str, Span] = {}
    for span in spans:
        known = by_id.setdefault(span.id, span)
        if known is not span:
            known.merge(span)
    of_trace: dict[str | None, str] = {}
    for span in by_id.values():
        if span.session is not None:
            of_trace.setdefault(span.trace, span.session)
    gates = {gate.id for span in by_id.values() if span.kind == MODEL for gate in _above(span, by_id)}
    sessions: dict[str | None, list[Span]] = {}
    for span in by_id.values():
        if span.kind:
            session = span.session or of_trace.get(span.trace) or span.trace
            sessions.setdefault(session, []).append(span)
    for session, members in sessions.items():
        members.sort(key=lambda span: span.start_ms or span.end_ms or 0.0)
        yield Part(session, _steps(members, {span.id: _below(span, by_id, gates) for span in members}))


def _above(span: Span, by_id: dict[str, Span]) -> Iterator[Span]:
    """Yield the tool calls that contain a span, the innermost first."""
    parent = span.parent
    for _ in range(_MAX_DEPTH):
        above = by_id.get(parent) if parent is not None else None
        if above is None:
            return
        if above.kind == TOOL or above.is_gate:
            yield above
        parent = above.parent


def _below(span: Span, by_id: dict[str, Span], gates: set[str]) -> str | None:
    names = [(gate.call_id or gate.id).replace("/", "_") for gate in _above(span, by_id) if gate.id in gates]
    return "/".join(reversed(names)) or None


def _steps(spans: list[Span], below: dict[str, str | None]) -> list[Step]:
    """Return the steps: two for a tool, one for a turn; at equal times in the order of the spans' starts."""
    found: list[tuple[float, Step]] = []
    open_calls: dict[str | None, list[Proposal]] = {}
    for span in spans:
        where = below[span.id]
        if span.kind == MODEL:
            end_ms = span.end_ms if span.end_ms is not None else span.start_ms
            open_calls.setdefault(where, []).extend(span.proposals)
            turn = Step(kind=Kind.MODEL_TURN, usage=span.usage, output=span.output, below=where, time_ms=_whole(end_ms))
            turn.error = span.error[:_MAX_ERROR_CHARS] if span.error is not None else None
            found.append((end_ms or 0.0, turn))
            continue
        proposal = _proposal_of(span, open_calls.get(where, []))
        call_id = span.call_id or (proposal and proposal.call_id) or span.id
        args = span.args if span.args is not None or proposal is None else proposal.args
        start_ms = span.start_ms if span.start_ms is not None else span.end_ms
        begun = Step(kind=Kind.PROPOSED, call_id=call_id, action=span.name or "unknown", args=args, below=where)
        begun.time_ms = _whole(start_ms)
        found.append((start_ms or 0.0, begun))
        if span.end_ms is not None or span.outcome is not None or span.error is not None or span.output is not None:
            found.append((span.end_ms or start_ms or 0.0, _end_of(span, begun)))
    found.sort(key=lambda one: one[0])
    return [step for _, step in found]


def _end_of(span: Span, begun: Step) -> Step:
    has_times = span.start_ms is not None and span.end_ms is not None
    return Step(
        kind=Kind.COMPLETED,
        call_id=begun.call_id,
        outcome=span.outcome or (Outcome.ERROR if span.error is not None else Outcome.OK),
        error=span.error[:_MAX_ERROR_CHARS] if span.error is not None else None,
        output=span.output,
        duration_ms=max((span.end_ms or 0.0) - (span.start_ms or 0.0), 0.0) if has_times else None,
        time_ms=_whole(span.end_ms) or begun.time_ms,
        below=begun.below,
    )


def _proposal_of(span: Span, waiting: list[Proposal]) -> Proposal | None:
    """Return and remove the proposal of this call: by its id, else the first one with its name."""
    known = span.call_id is not None and any(one.call_id == span.call_id for one in waiting)
    for index, one in enumerate(waiting):
        if one.call_id == span.call_id if known else one.name == span.name:
            return waiting.pop(index)
    return None


def _whole(time_ms: float | None) -> int | None:
    return None if time_ms is None else round(time_ms)
