"""The frameworks that haltline guards, one row each: the source of the documentation's index and of `haltline init`."""

from dataclasses import dataclass
from typing import Any, Final

_ADAPTERS: Final = "haltline.interventions.agent.integrations"


@dataclass(frozen=True, kw_only=True)
class Framework:
    """One framework."""

    name: str
    """Its extra in haltline, and its page: docs/frameworks/NAME.md."""
    title: str
    program: str
    """The path of its program in the repository."""
    how: str
    """Human-readable code that guards an agent."""
    ends: str
    """What ends the run of a stopped session, in Markdown."""
    adapter: str = ""
    """The module with its adapter; empty: none is needed."""
    names: str = ""
    """What to import from the adapter."""
    setup: tuple[str, ...] = ()
    """Lines before `how`, after the guard's construction where there is an adapter."""
    language: str = "python"
    drivers: tuple[str, ...] = ()
    """Drivers of the conformance tests, if their names differ from the row's."""
    extra: str = ""
    """Extra of haltline, if it differs from the name; `-` for none."""

    @property
    def extras(self) -> tuple[str, ...]:
        """Extras of haltline that its agents need."""
        return () if self.extra == "-" else (self.extra or self.name,)

    @property
    def lines(self) -> str:
        """The lines to add to a program, in its order."""
        first = []
        if self.adapter:
            first = [
                "from haltline import Guard, GuardSettings",
                f"from {_ADAPTERS}.{self.adapter} import {self.names}",
                "",
                'guard = Guard(GuardSettings.from_env(agent_id="agent"))',
            ]
        return "\n".join([*first, *self.setup, self.how])


def _row(name: str, title: str, **given: Any) -> Framework:
    """A framework whose adapter and program have its name."""
    module = name.replace("-", "_")
    return Framework(name=name, title=title, **{"program": f"examples/{module}_agent.py", "adapter": module, **given})


def _in_javascript(name: str, title: str, module: str, **given: Any) -> Framework:
    setup = (
        'import { httpSession } from "haltline";',
        f'import {{ guarded }} from "haltline/{module}";',
        'const session = httpSession({ url: "http://127.0.0.1:8765", agentId: "agent" });',
    )
    program = f"clients/typescript/examples/{module.replace('-', '_')}_agent.mjs"
    return Framework(name=name, title=title, program=program, setup=setup, language="javascript", extra="-", **given)


_ROWS: Final = (
    _row(
        "langchain",
        "LangChain, LangGraph",
        names="HaltlineMiddleware",
        how="create_agent(..., middleware=[HaltlineMiddleware(guard)])",
        ends="`Refused`",
    ),
    _row(
        "openai-agents",
        "OpenAI Agents SDK",
        names="HaltlineAgents",
        setup=("adapter = HaltlineAgents(guard)",),
        how="Agent(..., tools=adapter.guarded(tools)); Runner.run(..., hooks=adapter.hooks)",
        ends="`ToolInputGuardrailTripwireTriggered`, or `Refused` before a turn",
    ),
    _row(
        "pydantic-ai",
        "Pydantic AI",
        names="HaltlineCapability",
        how="Agent(..., capabilities=[HaltlineCapability(guard)])",
        ends="`Refused`",
    ),
    _row(
        "strands",
        "Strands",
        names="HaltlineHooks",
        how="Agent(..., hooks=[HaltlineHooks(guard)])",
        ends="`EventLoopException`, caused by `Refused`",
    ),
    _row("llama-index", "LlamaIndex", names="guarded", how="guarded(agent, guard)", ends="`Refused`"),
    _row(
        "agent-framework",
        "Microsoft Agent Framework",
        names="haltline_middleware",
        how="Agent(..., middleware=haltline_middleware(guard))",
        ends="`MiddlewareFailure`, caused by `Refused`, or `Refused` before a turn",
    ),
    _row(
        "google-adk",
        "Google ADK",
        names="HaltlinePlugin",
        how="InMemoryRunner(agent, plugins=[HaltlinePlugin(guard)])",
        ends="`RuntimeError`, caused by `Refused`",
    ),
    _row(
        "crewai",
        "CrewAI",
        names="guarded",
        how="with guarded(guard): crew.kickoff()",
        ends="`HookAborted`, caused by `Refused`",
    ),
    _row("browser-use", "browser-use", names="guarded", how="guarded(Agent(...), guard)", ends="`Refused`"),
    _row(
        "claude-agent-sdk",
        "Claude Agent SDK",
        names="haltline_hooks",
        how="ClaudeAgentOptions(hooks=haltline_hooks(guard))",
        ends="the run ends normally; `guard.stopped` says why",
    ),
    _in_javascript(
        "vercel-ai",
        "Vercel AI SDK (TypeScript)",
        "vercel",
        how="generateText(guarded({ model, tools, prompt }, session)); new ToolLoopAgent(guarded(settings, session))",
        ends="`Refused`",
        drivers=("vercel_ai",),
    ),
    _in_javascript(
        "mastra",
        "Mastra (TypeScript)",
        "mastra",
        how="new Agent(guarded({ id, name, instructions, model, tools }, session))",
        ends="`result.tripwire`; `session.stopped` says why",
        drivers=("mastra",),
    ),
    _in_javascript(
        "langgraph-js",
        "LangGraph.js (TypeScript)",
        "langgraph",
        how="createAgent(guarded({ model, tools }, session))",
        ends="an error named `Refused`",
        drivers=("langgraph_js",),
    ),
    _in_javascript(
        "openai-agents-js",
        "OpenAI Agents SDK (TypeScript)",
        "openai-agents",
        how="new Agent(guarded({ name, model, tools }, session)); new Runner(guarded({}, session))",
        ends="`ToolCallError`, whose `error` is `Refused`, or `Refused` before a turn",
        drivers=("openai_agents_js",),
    ),
    _row(
        "mcp",
        "MCP servers, of any agent",
        setup=(
            '"mcpServers": {',
            '  "files": {"command": "haltline", "args": ["mcp-proxy", "--name", "files", "--", "COMMAND", "WORD"]},',
            '  "docs": {"url": "http://127.0.0.1:8766/mcp"}',
            "}",
            "haltline mcp-proxy --name docs --url https://HOST/mcp    # runs beside the host",
        ),
        how="haltline mcp-proxy --name files -- SERVER",
        ends="the host ends its run; each call has a result with `isError`",
        extra="-",
        adapter="",
    ),
    _row(
        "opentelemetry",
        "OpenTelemetry's GenAI spans",
        names="HaltlineSpanProcessor",
        how="provider.add_span_processor(HaltlineSpanProcessor(guard.settings))",
        ends="`Refused`, of `guard.check()`",
    ),
)

FRAMEWORKS: Final = {row.name: row for row in _ROWS}
"""By name, in the order of the documentation."""
