"""smolagents: the tools and the model of an agent behind a guard, for ToolCallingAgent and CodeAgent alike.

    agent = guarded(ToolCallingAgent(tools=[delete_asset], model=model), guard)

There is no hook before a call, so each tool is replaced by a copy that calls the guard first; tools of managed agents
too, each agent as a session below this one. A refused call gives the model the reason; in a CodeAgent it raises, so
that the code does not continue. Hints are added to the step's observations. When the session was stopped, the run ends
before the model's next turn with AgentGenerationError, whose `__cause__` is Refused. Code that a CodeAgent runs without
a tool is not seen. Needs smolagents (`pip install 'haltline[smolagents]'`).
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from smolagents import ActionStep, CodeAgent, FinalAnswerTool, LocalPythonExecutor, MultiStepAgent, Tool

from haltline.interventions.agent.frame.calls import NO_PLACE, Described, Results, call, turn
from haltline.interventions.agent.frame.session import Denied, FrameworkSession, tokens
from haltline.interventions.agent.guard import Guard
from haltline.schemas.events import Effect

A = TypeVar("A", bound=MultiStepAgent)


class CallDenied(Exception):
    """A refused call; its text is for the model."""


def guarded(agent: A, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> A:
    """Put the agent behind the guard, and return it. `effects`: those of tools whose names do not show them.

    Raises: ValueError: it is, or manages, a CodeAgent that sends the source of its tools to a remote executor.
    """
    return _guarded(agent, FrameworkSession(guard, effects=effects))


def _guarded(agent: A, session: FrameworkSession) -> A:
    raises = isinstance(agent, CodeAgent)
    if isinstance(agent, CodeAgent) and not isinstance(agent.python_executor, LocalPythonExecutor):
        executor = type(agent.python_executor).__name__
        raise ValueError(f"agent: expected a CodeAgent with a local executor, got {executor}: its tools run elsewhere")
    agent.tools = {
        name: tool if isinstance(tool, FinalAnswerTool) else _guarded_tool(tool, session, raises=raises)
        for name, tool in agent.tools.items()
    }
    for name, managed in agent.managed_agents.items():
        _guarded(managed, session.subagent(agent_id=f"{session.guard.settings.agent_id}/{name}"[:256]))
    agent.model = _Model(agent.model, session)

    def add_hints(step: Any, **_: Any) -> None:
        if isinstance(step, ActionStep) and (hints := session.take_kept()):
            step.observations = "\n\n".join(filter(None, (step.observations, hints)))

    agent.step_callbacks.register(ActionStep, add_hints)
    return agent


def _guarded_tool(tool: Tool, session: FrameworkSession, *, raises: bool) -> Tool:
    raises = raises or tool.output_type in {"image", "audio"}  # there, a text would be a file name
    names, forward = list(tool.inputs), tool.forward

    def refused(denied: Denied) -> str:
        if raises:
            raise CallDenied(denied.text)
        return denied.text

    # Hints are added after the step's observations.
    results = Results[Any](refused, hinted=lambda _result, _hints: NO_PLACE)

    def guarded_call(*args: Any, **named: Any) -> Any:
        return call(
            session,
            results,
            (None, tool.name, dict(zip(names, args, strict=False)) | named),
            lambda allowed: forward(**allowed.args) if allowed.changed else forward(*args, **named),
        )

    tool = copy.copy(tool)
    tool.forward = guarded_call
    return tool


class _Model:
    """The agent's model; it makes no further turn in a stopped session."""

    def __init__(self, model: Any, session: FrameworkSession) -> None:
        self._model = model
        self._session = session
        if hasattr(model, "generate_stream"):
            self.generate_stream = self._generate_stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, *args: Any, **options: Any) -> Any:
        return turn(self._session, lambda: self._model.generate(*args, **options), _described)

    def _generate_stream(self, *args: Any, **options: Any) -> Iterator[Any]:
        self._session.before_turn()
        text, used = [], []
        for part in self._model.generate_stream(*args, **options):
            text.append(part.content or "")
            used.append(part.token_usage)
            yield part
        counted = [one for one in used if one is not None]
        usage = tokens(sum(one.input_tokens for one in counted), sum(one.output_tokens for one in counted))
        self._session.turn(usage if counted else None, "".join(text))


def _described(message: Any) -> Described:
    used = message.token_usage
    text = message.content if isinstance(message.content, str) else None
    return None if used is None else tokens(used.input_tokens, used.output_tokens), text
