"""Harbor's ATIF, the Agent Trajectory Interchange Format (`trajectory.json`): steps with calls and their results."""

from collections.abc import Iterator
from typing import Any

from haltline.streams.importing.messages import args_of, text_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import Part, Step, TokenNames, ended, prompted, proposed, tokens, turn
from haltline.streams.importing.values import inside, moment, objects

_TOKENS = TokenNames("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


def shows(content: Content) -> bool:
    """Return whether the file is such a trajectory, of any version."""
    return any(str(one.get("schema_version")).startswith("ATIF-v") for one in content.head)


def parts(source: Source) -> Iterator[Part]:
    """Yield the run. Trajectories of subagents are files of their own, or within it, and sessions of their own."""
    for whole in source.lines:
        yield from _parts(whole)


def _parts(whole: dict[str, Any]) -> Iterator[Part]:
    yield Part(whole.get("session_id") or whole.get("trajectory_id"), _steps(whole))
    for below in objects(whole.get("subagent_trajectories")):
        yield Part(below.get("trajectory_id") or below.get("session_id"), _steps(below))


def _steps(whole: dict[str, Any]) -> Iterator[Step]:
    for step in objects(whole.get("steps")):
        if step.get("is_copied_context") is True:  # of the trajectory that this one goes on
            continue
        time_ms = moment(step.get("timestamp"))
        text = text_of(step.get("message"))
        if step.get("source") == "user":
            yield prompted(text, time_ms)
            continue
        model = step.get("model_name") or inside(whole, "agent", "model_name")
        yield from turn(tokens(step.get("metrics"), _TOKENS), model, text, time_ms)
        calls = objects(step.get("tool_calls"))
        for call in calls:
            yield proposed(call.get("tool_call_id"), call.get("function_name"), args_of(call.get("arguments")), time_ms)
        for number, result in enumerate(objects(inside(step, "observation", "results"))):
            # A result without the id of a call is of the call at its place, or of none.
            of = result.get("source_call_id") or (calls[number].get("tool_call_id") if number < len(calls) else None)
            if of is not None:
                output = text_of(result.get("content"))
                yield ended(of, output, time_ms, failed=None)  # whether it failed is not recorded
