"""SWE-agent (`.traj`, a list of steps) and mini-SWE-agent (`.traj.json`, a list of messages; before 2.0 and since)."""

from collections.abc import Callable, Iterator
from typing import Any

from haltline.schemas import expressions as re
from haltline.streams.importing.messages import args_of
from haltline.streams.importing.reading import Content, Source
from haltline.streams.importing.steps import CHAT, Part, Step, TokenNames, ended, proposed, turn_of
from haltline.streams.importing.values import inside, moment, objects

_FENCE = re.compile(
    r"```(?:bash|mswea_bash_command)[^\S\n]*+(?:\n[^\S\n]*+(?=\n(?!```)))*+\n(.*?)(\n```|\Z)", re.DOTALL
)
_CHAT = CHAT._replace(cost="cost")
_OF_ALL = TokenNames("tokens_sent", "tokens_received", cost="instance_cost")
_CODE = re.compile(r"<returncode>(-?\d+)</returncode>")


def shows_swe_agent(content: Content) -> bool:
    """Return whether this is the trajectory of SWE-agent."""
    return isinstance(inside(content.value, "trajectory"), list)


def shows_mini_swe_agent(content: Content) -> bool:
    """Return whether this is the trajectory of mini-SWE-agent."""
    return isinstance(inside(content.value, "messages"), list) and "info" in content.value


def swe_agent_parts(source: Source) -> Iterator[Part]:
    """Yield the session of SWE-agent."""
    yield _part(source, "trajectory", _swe_agent)


def mini_swe_agent_parts(source: Source) -> Iterator[Part]:
    """Yield the session of mini-SWE-agent."""
    yield _part(source, "messages", _mini_swe_agent)


def _part(source: Source, name: str, steps: Callable[[list[dict[str, Any]], Any], Iterator[Step]]) -> Part:
    value = source.content.value
    return Part(inside(value, "instance_id"), steps(source.objects(name, inside(value, name)), value))


def _swe_agent(trajectory: list[dict[str, Any]], whole: Any) -> Iterator[Step]:
    """Yield the steps: a command and its output. Whether it failed is not recorded, and usage only of all together."""
    for number, entry in enumerate(trajectory):
        command = entry.get("action")
        if not isinstance(command, str) or not command.strip():
            continue
        yield proposed(f"c{number}", "bash", {"command": command}, None)
        done, duration = ended(f"c{number}", entry.get("observation"), None, failed=None), entry.get("execution_time")
        done.duration_ms = duration * 1000 if isinstance(duration, int | float) and 0 <= duration < 1e9 else None
        yield done
    replayed = args_of(inside(whole, "replay_config"))
    yield from turn_of(
        inside(whole, "info", "model_stats"), _OF_ALL, inside(replayed, "agent", "model", "name"), "", None
    )


def _mini_swe_agent(messages: list[dict[str, Any]], whole: Any) -> Iterator[Step]:
    """Yield the steps: a model message has one or several commands, and a message with a result follows for each.

    A cost that no message has, as in old releases, is the last one's.
    """
    waiting: list[str] = []
    calls = 0
    model = inside(whole, "info", "config", "model", "model_name")
    costs = [inside(message, "extra", "cost") for message in messages]
    last = None
    if not any(costs):
        last = next((one for one in reversed(messages) if one.get("role") == "assistant"), None)
    for message in messages:
        extra = message.get("extra")
        time_ms = moment(inside(extra, "timestamp") or inside(extra, "response", "created"))
        if message.get("role") == "assistant":
            cost = inside(whole, "info", "model_stats", "instance_cost") if message is last else inside(extra, "cost")
            used = {**(inside(extra, "response", "usage") or {}), "cost": cost}
            yield from turn_of(used, _CHAT, inside(extra, "response", "model") or model, None, time_ms)
            for command in _commands(message):
                waiting.append(f"c{calls}")
                yield proposed(f"c{calls}", "bash", {"command": command}, time_ms)
                calls += 1
        elif waiting and message.get("role") in ("user", "tool"):
            yield _end(waiting.pop(0), message, time_ms)


def _commands(message: dict[str, Any]) -> list[str]:
    actions = objects(inside(message, "extra", "actions"))
    if actions:
        return [action["command"] for action in actions if isinstance(action.get("command"), str)]
    content = message.get("content")
    found = [one for one, end in _FENCE.findall(content) if end] if isinstance(content, str) else []
    return found if len(found) == 1 else []  # with none or several, the model is asked again


def _end(call_id: str, message: dict[str, Any], time_ms: int | None) -> Step:
    content = message.get("content")
    text = content if isinstance(content, str) else ""
    code: Any = inside(message, "extra", "returncode")
    if code is None and (found := _CODE.search(text)):
        code = int(found[1])
    output = inside(message, "extra", "raw_output")
    output = output if isinstance(output, str) else text
    done = ended(call_id, output, time_ms, failed=None if code is None else code != 0)
    done.error = f"exit code {code}: {output[-1500:]}" if done.error is not None else None
    return done
