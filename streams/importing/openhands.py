"""OpenHands: the event stream of V0 (`action`, `observation`, `cause`), and the typed events of its SDK (`kind`)."""

from collections.abc import Iterator
from typing import Any

from haltline.schemas.events import Kind, Outcome
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, ended, proposed, tokens, turn
from haltline.streams.importing.values import inside, moment, objects

_TALK = frozenset(
    {"message", "system", "recall", "think", "change_agent_state", "null", "agent_state_changed", "finish"}
)

_SOURCES = frozenset({"agent", "user", "environment"})


def shows(content: Content) -> bool:
    """Return whether the file has such events, or lines that contain them."""
    return any(_listed_in(line) is not None for line in content.head) or _are_events(content.head)


def parts(source: Source) -> Iterator[Part]:
    """Yield the session of the file, or of each line of an evaluation's output."""
    lines = list(source.lines)
    wholes = [(line, events) for line in lines if (events := _listed_in(line)) is not None]
    for line, events in wholes:
        yield Part(inside(line, "instance_id"), _steps(source.objects("history", events)))
    if not wholes:
        value = source.content.value
        yield Part(None, _steps(source.objects("the file", lines if value is None else value)))


def _are_events(events: list[dict[str, Any]]) -> bool:
    kinds = {"ActionEvent", "ObservationEvent"}
    return any(
        (str(e.get("source")) in _SOURCES and ("action" in e or "observation" in e)) or str(e.get("kind")) in kinds
        for e in events
    )


def _listed_in(line: dict[str, Any]) -> list[Any] | None:
    """Return the events in a line of an evaluation's output, which has a line for each session; None: no events."""
    for name in ("history", "trajectory"):
        listed = line.get(name)
        if isinstance(listed, list) and _are_events(objects(listed)):
            return listed
    return None


def _steps(events: list[dict[str, Any]]) -> Iterator[Step]:
    """Yield the calls of the agent, their results, and the turns."""
    seen: set[str] = set()
    for event in events:
        time_ms = moment(event.get("timestamp"))
        response = inside(event, "tool_call_metadata", "model_response")
        response_id = str(inside(response, "id") or event.get("llm_response_id") or "")
        usage = tokens(inside(response, "usage"))
        if usage is not None and response_id not in seen:
            seen.add(response_id)
            yield from turn(usage, None, None, time_ms)
        if "kind" in event:
            yield from _typed(event, time_ms)
        elif "action" in event and event.get("source") == "agent" and str(event["action"]) not in _TALK:
            args = _without(event.get("args"), "thought", "security_risk")
            yield proposed(f"{event.get('id')}", event["action"], args, time_ms)
        elif "observation" in event and event.get("cause") is not None and str(event["observation"]) not in _TALK:
            code = inside(event, "extras", "metadata", "exit_code") or inside(event, "extras", "exit_code")
            failed = event["observation"] == "error" or code not in (None, 0)
            yield ended(f"{event['cause']}", event.get("content"), time_ms, failed=failed)


def _typed(event: dict[str, Any], time_ms: int | None) -> Iterator[Step]:
    call_id, kind = event.get("tool_call_id"), event["kind"]
    if not isinstance(call_id, str):
        return
    if kind == "ActionEvent" and event.get("tool_name") not in ("think", "finish"):
        yield proposed(call_id, event.get("tool_name"), _without(event.get("action"), "kind"), time_ms)
    elif kind == "ObservationEvent" and event.get("tool_name") not in ("think", "finish"):
        seen = event.get("observation")
        failed = inside(seen, "is_error") is True or inside(seen, "exit_code") not in (None, 0)
        yield ended(call_id, inside(seen, "content") or seen, time_ms, failed=failed)
    elif kind == "AgentErrorEvent":
        yield ended(call_id, event.get("error"), time_ms, failed=True)
    elif kind == "UserRejectObservation":
        yield Step(kind=Kind.COMPLETED, call_id=call_id, outcome=Outcome.REFUSED, time_ms=time_ms)


def _without(args: object, *names: str) -> dict[str, Any] | None:
    return {name: value for name, value in args.items() if name not in names} if isinstance(args, dict) else None
