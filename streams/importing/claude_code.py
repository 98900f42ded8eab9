"""Claude Code: its transcripts, and what `--output-format stream-json` printed."""

from collections.abc import Iterable, Iterator
from typing import Any

from haltline.interventions.agent.integrations.claude_code.messages import (
    ToolUse,
    Turns,
    subagent_of,
    text_of,
    tools_of,
)
from haltline.schemas.events import Kind, Outcome
from haltline.streams.importing.steps import Step, inside, moment

_MESSAGES = ("assistant", "user")
"""Lines of other types can repeat a message: a request to the model has the results of the turn before."""
_OWN = ("isMeta", "isCompactSummary")
"""Marks of lines that Claude Code wrote in the user's name."""


def session_of(lines: Iterable[dict[str, Any]]) -> str | None:
    """The session that the lines name."""
    named = (line.get("sessionId") or line.get("session_id") for line in lines)
    return next((name for name in named if isinstance(name, str) and name), None)


def steps(lines: Iterable[dict[str, Any]]) -> Iterator[Step]:
    """What each line says; in a transcript all subagents are one, for its lines do not tell them apart."""
    turns: dict[str | None, Turns] = {}
    times_ms: dict[str | None, int | None] = {}
    texts: dict[str | None, list[str]] = {}
    models: dict[str | None, str] = {}
    prompts = 0
    for line in lines:
        if line.get("type") not in _MESSAGES:
            continue
        below = subagent_of(line) or line.get("agentId") or ("sidechain" if line.get("isSidechain") else None)
        below = below if isinstance(below, str) else None
        time_ms = moment(line.get("timestamp"))
        turn = turns.setdefault(below, Turns())
        usage = turn.rest() if below is None and _is_prompt(line) else turn.add(line)
        if usage is not None:
            output = "\n".join(texts.pop(below, [])) or None
            model = models.get(below, "")
            yield Step(kind=Kind.MODEL_TURN, usage=usage, model=model, output=output, time_ms=time_ms, below=below)
        if isinstance(model := inside(line, "message", "model"), str):
            models[below] = model
        if line.get("type") == "assistant" and (text := text_of(line)):
            texts.setdefault(below, []).append(text)
        times_ms[below] = time_ms or times_ms.get(below)
        if below is None and _is_prompt(line):
            prompts += 1
            if prompts > 1:  # the session was started for the first
                yield Step(kind=Kind.SESSION_STARTED, prompts=prompts, time_ms=time_ms)
        for tool in tools_of(line):
            if isinstance(tool, ToolUse):
                yield Step(
                    kind=Kind.PROPOSED,
                    call_id=tool.call_id,
                    action=tool.name,
                    args=tool.args,
                    time_ms=time_ms,
                    below=below,
                )
            else:
                yield Step(
                    kind=Kind.COMPLETED,
                    call_id=tool.call_id,
                    outcome=Outcome.ERROR if tool.is_error else Outcome.OK,
                    error=str(tool.content)[:2000] if tool.is_error else None,
                    output=tool.content,
                    time_ms=time_ms,
                    below=below,
                )
    for below, left in turns.items():
        usage = left.rest()
        if usage is not None:
            output = "\n".join(texts.pop(below, [])) or None
            yield Step(
                kind=Kind.MODEL_TURN,
                usage=usage,
                model=models.get(below, ""),
                output=output,
                time_ms=times_ms.get(below),
                below=below,
            )


def _is_prompt(line: dict[str, Any]) -> bool:
    """Whether a line is what the user said, and neither a result nor what Claude Code itself adds."""
    if line.get("type") != "user" or any(line.get(name) is True for name in _OWN) or any(tools_of(line)):
        return False
    return bool(text_of(line))
