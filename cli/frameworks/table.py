"""The frameworks that haltline guards, one row each: the source of the documentation's index and of `haltline init`."""

from typing import Any, Final

from haltline.cli.frameworks.rows import (
    AddItem,
    AddStatement,
    Framework,
    SetKeyword,
    WithBlock,
    WrapArgument,
    WrapCall,
    WrapKeyword,
)


def _row(name: str, title: str, **given: Any) -> Framework:
    """A framework whose package, module, adapter and program have its name by default."""
    module = name.replace("-", "_")
    usual = {"program": f"{module}_agent.py", "packages": (name,), "imports": (module,), "adapter": module}
    return Framework(name=name, title=title, **(usual | given))


_CREATE_AGENT: Final = AddItem(calls=("create_agent",), keyword="middleware", item="HaltlineMiddleware({guard})")
_REACT_AGENT: Final = WrapCall(
    calls=("prebuilt.create_react_agent",), before="guarded(", after=", {guard})", is_function=True
)

_ROWS: Final = (
    _row(
        "langchain",
        "LangChain, LangGraph",
        packages=("langchain", "langgraph"),
        imports=("langchain", "langgraph"),
        names=("HaltlineMiddleware", "guarded"),
        how="create_agent(..., middleware=[HaltlineMiddleware(guard)])",
        ends="`Refused`",
        edits=((_CREATE_AGENT, _REACT_AGENT), (_CREATE_AGENT,), (_REACT_AGENT,)),
    ),
    _row(
        "openai-agents",
        "OpenAI Agents SDK",
        imports=("agents",),
        names=("HaltlineAgents",),
        setup=("adapter = HaltlineAgents({guard})",),
        how="Agent(..., tools=adapter.guarded(tools)); Runner.run(..., hooks=adapter.hooks)",
        ends="`ToolInputGuardrailTripwireTriggered`, or `Refused` before a turn",
        edits=(
            (
                WrapKeyword(
                    calls=("Agent",),
                    keyword="tools",
                    before="adapter.guarded(",
                    after=")",
                    unguarded=("mcp_servers",),
                    copies=("clone",),
                ),
                SetKeyword(
                    calls=("Runner.run", "Runner.run_sync", "Runner.run_streamed"),
                    keyword="hooks",
                    value="adapter.hooks",
                ),
            ),
        ),
    ),
    _row(
        "pydantic-ai",
        "Pydantic AI",
        packages=("pydantic-ai", "pydantic-ai-slim"),
        names=("HaltlineCapability",),
        how="Agent(..., capabilities=[HaltlineCapability(guard)])",
        ends="`Refused`",
        edits=((AddItem(calls=("Agent",), keyword="capabilities", item="HaltlineCapability({guard})"),),),
    ),
    _row(
        "strands",
        "Strands",
        packages=("strands-agents",),
        names=("HaltlineHooks",),
        how="Agent(..., hooks=[HaltlineHooks(guard)])",
        ends="`EventLoopException`, caused by `Refused`",
        edits=((AddItem(calls=("Agent",), keyword="hooks", item="HaltlineHooks({guard})"),),),
    ),
    _row(
        "smolagents",
        "smolagents",
        names=("guarded",),
        how="guarded(agent, guard)",
        ends="`AgentGenerationError`, caused by `Refused`",
        edits=(
            (
                WrapCall(
                    calls=("ToolCallingAgent", "CodeAgent"),
                    before="guarded(",
                    after=", {guard})",
                    outermost="managed_agents",
                ),
            ),
        ),
    ),
    _row(
        "llama-index",
        "LlamaIndex",
        packages=("llama-index-core", "llama-index"),
        names=("guarded",),
        how="guarded(agent, guard)",
        ends="`Refused`",
        edits=(
            (
                WrapCall(
                    calls=("AgentWorkflow", "AgentWorkflow.from_tools_or_functions"),
                    before="guarded(",
                    after=", {guard})",
                ),
            ),
            (WrapCall(calls=("FunctionAgent", "ReActAgent", "CodeActAgent"), before="guarded(", after=", {guard})"),),
        ),
    ),
    _row(
        "dspy",
        "DSPy",
        packages=("dspy", "dspy-ai"),
        names=("guarded",),
        how="guarded(dspy.ReAct(...), guard)",
        ends="`Refused`",
        edits=((WrapCall(calls=("ReAct",), before="guarded(", after=", {guard})"),),),
    ),
    _row(
        "ag2",
        "AG2",
        names=("HaltlineMiddleware",),
        how="Agent(..., middleware=[HaltlineMiddleware(guard)])",
        ends="`Refused`",
        edits=((AddItem(calls=("Agent",), keyword="middleware", item="HaltlineMiddleware({guard})"),),),
    ),
    _row(
        "agent-framework",
        "Microsoft Agent Framework",
        packages=("agent-framework-core", "agent-framework"),
        names=("haltline_middleware",),
        how="Agent(..., middleware=haltline_middleware(guard))",
        ends="`MiddlewareFailure`, caused by `Refused`, or `Refused` before a turn",
        edits=((AddItem(calls=("Agent",), keyword="middleware", item="*haltline_middleware({guard})"),),),
    ),
    _row(
        "google-adk",
        "Google ADK",
        imports=("google.adk",),
        names=("HaltlinePlugin",),
        how="InMemoryRunner(agent, plugins=[HaltlinePlugin(guard)])",
        ends="`RuntimeError`, caused by `Refused`",
        edits=(
            (AddItem(calls=("App",), keyword="plugins", item="HaltlinePlugin({guard})"),),
            (AddItem(calls=("InMemoryRunner", "Runner"), keyword="plugins", item="HaltlinePlugin({guard})"),),
            # The variables that `adk run` and `adk web` read: if a module has both, they use the app.
            (
                AddStatement(
                    target="root_agent",
                    statement='app = App(name="{app}", root_agent={target}, plugins=[HaltlinePlugin({guard})])',
                    imports=("from google.adk.apps import App",),
                    names=("app", "App"),
                ),
            ),
        ),
    ),
    _row(
        "crewai",
        "CrewAI",
        names=("guarded",),
        how="with guarded(guard): crew.kickoff()",
        ends="`HookAborted`, caused by `Refused`",
        edits=(
            (
                WithBlock(
                    methods=("kickoff", "kickoff_async", "akickoff", "kickoff_for_each", "kickoff_for_each_async"),
                    header="with guarded({guard}):",
                ),
            ),
        ),
    ),
    _row(
        "browser-use",
        "browser-use",
        names=("guarded",),
        how="guarded(Agent(...), guard)",
        ends="`Refused`",
        edits=((WrapCall(calls=("Agent",), before="guarded(", after=", {guard})"),),),
    ),
    _row(
        "claude-agent-sdk",
        "Claude Agent SDK",
        names=("haltline_hooks",),
        how="ClaudeAgentOptions(hooks=haltline_hooks(guard))",
        ends="the run ends normally; `guard.stopped` says why",
        edits=((SetKeyword(calls=("ClaudeAgentOptions",), keyword="hooks", value="haltline_hooks({guard})"),),),
    ),
    _row(
        "agent-hooks",
        "agent-hooks 0.1 (any host)",
        packages=("agent-hooks-sdk",),
        names=("HaltlineInterceptor",),
        how='InterceptionEmitter().register(HaltlineInterceptor(guard), name="haltline")',
        ends="every further call is denied; the host ends its run",
        edits=(
            (
                WrapCall(
                    calls=("InterceptionEmitter",),
                    before="",
                    after='.register(HaltlineInterceptor({guard}), name="haltline")',
                ),
            ),
        ),
    ),
    _row(
        "vercel-ai",
        "Vercel AI SDK (TypeScript)",
        program="clients/typescript/examples/vercel_agent.mjs",
        packages=("ai",),
        setup=(
            'import {{ httpSession }} from "haltline";',
            'import {{ guarded }} from "haltline/vercel";',
            'const session = httpSession({{ url: "http://127.0.0.1:8765", agentId: "{agent_id}" }});',
        ),
        how="generateText(guarded({ model, tools, prompt }, session)); new ToolLoopAgent(guarded(settings, session))",
        in_javascript=WrapArgument(
            modules=("ai",),
            calls=("generateText", "streamText", "ToolLoopAgent"),
            unguarded={"Experimental_Agent": "use ToolLoopAgent, its name since version 6 of the SDK"},
        ),
        ends="`Refused`",
        language="javascript",
        drivers=("vercel_ai",),
        extra="-",
        imports=(),
        adapter="",
    ),
    _row(
        "mastra",
        "Mastra (TypeScript)",
        program="clients/typescript/examples/mastra_agent.mjs",
        packages=("@mastra/core",),
        setup=(
            'import {{ httpSession }} from "haltline";',
            'import {{ guarded }} from "haltline/mastra";',
            'const session = httpSession({{ url: "http://127.0.0.1:8765", agentId: "{agent_id}" }});',
        ),
        how="new Agent(guarded({ id, name, instructions, model, tools }, session))",
        in_javascript=WrapArgument(modules=("@mastra/core/agent", "@mastra/core"), calls=("Agent",)),
        ends="`result.tripwire`; `session.stopped` says why",
        language="javascript",
        drivers=("mastra",),
        extra="-",
        imports=(),
        adapter="",
    ),
    _row(
        "mcp",
        "MCP servers, of any agent",
        packages=("mcp", "fastmcp"),
        imports=("mcp", "fastmcp"),
        how="haltline mcp-proxy --name files -- SERVER",
        ends="the host ends its run; each call has a result with `isError`",
        extra="-",
        adapter="",
    ),
    _row(
        "opentelemetry",
        "OpenTelemetry's GenAI spans",
        packages=("opentelemetry-sdk",),
        names=("HaltlineSpanProcessor", "watched"),
        how="provider.add_span_processor(HaltlineSpanProcessor(guard.settings))",
        ends="`Refused`, of `guard.check()`",
        edits=((WrapCall(calls=("TracerProvider",), before="watched(", after=", {guard}.settings)"),),),
    ),
)

FRAMEWORKS: Final = {row.name: row for row in _ROWS}
"""By name, in the order of the documentation."""
