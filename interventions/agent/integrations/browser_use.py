"""browser-use: the actions and the model turns of an Agent behind a guard.

    agent = guarded(Agent(task, llm=llm, browser=browser), guard)

A refused action is not made: its result has an error, so the rest of its step is left out, and the model reads the
reason. It does not count as a failure after which browser-use gives up. When the session was stopped, Refused ends the
run before the model's next turn. Hints are added to `long_term_memory`. The turns of all models of the agent are
counted: its own, extraction, judge, compaction, fallback. `done` only reports, and is not guarded.

Needs browser-use (`pip install 'haltline[browser-use]'`).
"""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import urlsplit

from browser_use import ActionResult, Agent

from haltline.interventions.agent.frame.calls import Described, Results, call_async, turn_async
from haltline.interventions.agent.frame.session import Allowed, Denied, FrameworkSession, tokens, with_hints
from haltline.interventions.agent.guard import Guard
from haltline.schemas.events import Effect
from haltline.schemas.tool_names import destroying_verb, words

_EFFECTS: Final[Mapping[str, Effect]] = {
    **dict.fromkeys(("search", "extract", "dropdown_options", "screenshot"), Effect.READ),
    "navigate": Effect.NETWORK,
    "select_dropdown": Effect.WRITE,  # other tools of such names are read-only
}
_ON_PAGE: Final = frozenset({"click", "input", "select_dropdown", "send_keys", "upload_file", "evaluate"})
_ON_FILE: Final = frozenset({"write_file", "replace_file", "read_file", "save_as_pdf"})
_MAX_LABEL_CHARS = 80


def guarded(agent: Agent, guard: Guard, *, effects: Mapping[str, Effect | str] | None = None) -> Agent:
    """Put the agent behind the guard, and return it. `effects`: those of actions whose names do not show them.

    Raises: ValueError: it is another agent, such as that of `browser_use.beta`, whose actions run in another process.
    """
    if not isinstance(agent, Agent):
        raise ValueError(f"agent: expected a browser_use.Agent, got {type(agent)!r}: its actions may run elsewhere")
    own = effects or {}
    session = FrameworkSession(guard, effects={**_EFFECTS, **own})
    make, step = agent.tools.act, agent.step
    tools = object.__new__(type(agent.tools))  # another agent may share them, and copy() cannot copy them
    vars(tools).update(vars(agent.tools))
    refusals: list[ActionResult] = []

    def refused(denied: Denied) -> ActionResult:
        # A longer error is truncated to 200 characters before the model reads it.
        refusals.append(ActionResult(error=f"Not made: {denied.code}", long_term_memory=denied.text))
        return refusals[-1]

    async def act(action: Any, browser_session: Any = None, **options: Any) -> ActionResult:
        name, args = next(((n, a) for n, a in action.model_dump(exclude_unset=True).items() if a is not None), ("", {}))
        if name == "done":
            return await make(action, browser_session, **options)
        about = await _about(name, args, browser_session, options.get("file_system"))
        if name in own:
            about.pop("effect", None)  # the caller has declared the effect
        secrets = options.get("sensitive_data")

        def output(result: ActionResult) -> tuple[str | None, str | None]:
            text = result.extracted_content or result.long_term_memory
            return _hidden(text, secrets), _hidden(result.error, secrets)

        async def made(allowed: Allowed) -> ActionResult:
            changed = type(action).model_validate({name: allowed.args}) if allowed.changed else action
            return await make(changed, browser_session, **options)

        results = Results[ActionResult](refused, output=output, hinted=_hinted)
        return await call_async(session, results, (None, name, args), made, **about)

    async def guarded_step(step_info: Any = None) -> None:
        await session.before_turn_async()
        refusals.clear()
        failures = agent.state.consecutive_failures
        await step(step_info)  # exceptions inside are only counted as failures
        results = agent.state.last_result or []
        if len(results) == 1 and any(results[0] is refusal for refusal in refusals):
            agent.state.consecutive_failures = failures
        if not agent.history.is_done():
            await session.before_turn_async()

    tools.act, agent.tools, agent.step = act, tools, guarded_step
    settings, models = agent.settings, [(agent, "llm"), (agent, "judge_llm"), (agent, "_fallback_llm")]
    models.append((settings, "page_extraction_llm"))
    if settings.message_compaction:
        settings.message_compaction = settings.message_compaction.model_copy()
        models.append((settings.message_compaction, "compaction_llm"))
    for holder, name in models:
        if (llm := getattr(holder, name)) is not None:
            setattr(holder, name, _Model(llm, session))
    return agent


class _Model:
    """A model of the agent; it makes no further turn in a stopped session."""

    def __init__(self, model: Any, session: FrameworkSession) -> None:
        self._model = model
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def ainvoke(self, messages: Any, output_format: Any = None, **options: Any) -> Any:
        return await turn_async(
            self._session, lambda: self._model.ainvoke(messages, output_format, **options), _described
        )


def _described(response: Any) -> Described:
    used, said = response.usage, response.completion
    usage = None if used is None else tokens(used.prompt_tokens, used.completion_tokens, used.prompt_cached_tokens)
    return usage, said if isinstance(said, str) else said.model_dump_json(exclude_none=True)


def _hinted(result: ActionResult, hints: str) -> ActionResult:
    """Add hints to a result: beside a memory, only content that is included once is read."""
    content = None if result.include_extracted_content_only_once else result.extracted_content
    result.long_term_memory = with_hints(result.long_term_memory or content or "", hints)
    return result


async def _about(name: str, args: Mapping[str, Any], browser: Any, files: Any) -> dict[str, Any]:
    """Return the target of an action, and its effect where that is more than the name shows."""
    if name == "navigate":
        url = str(args.get("url"))
        return _host(urlsplit(url if "//" in url else f"//{url}").hostname)
    if name in _ON_FILE and files is not None and args.get("file_name"):
        return {"targets": [f"path={PurePath(files.get_dir(), args['file_name'])}"]}
    if name not in _ON_PAGE or browser is None:
        return {}
    page = urlsplit(await browser.get_current_page_url())
    if name == "click" and (node := await browser.get_element_by_index(args.get("index"))) is not None:
        label = " ".join(node.get_meaningful_text_for_llm().split())[:_MAX_LABEL_CHARS]
        if (verb := destroying_verb(label)) and words(label)[0] == verb:  # a button `Delete ...`
            # By its node, as buttons of several rows may have the same text.
            target = f"element={page.netloc}{page.path} {label} {node.backend_node_id}"
            return {"effect": Effect.DESTRUCTIVE, "targets": [target]}
    return _host(page.hostname)


def _host(name: str | None) -> dict[str, Any]:
    return {"targets": [f"host={name}"]} if name else {}


def _hidden(text: str | None, secrets: Mapping[str, Any] | None) -> str | None:
    """Replace the values of the agent's `sensitive_data` by their names."""
    for name, value in (secrets or {}).items():
        if isinstance(value, dict):
            text = _hidden(text, value)
        elif text and value:
            text = text.replace(value, f"<secret>{name}</secret>")
    return text
