"""An agent of browser-use behind the guard, in one headless Chromium for all cases."""

import asyncio
import atexit
import gc
import json
import os
import re
import shutil
import tempfile
from functools import cache
from typing import Any, cast

os.environ |= {
    "ANONYMIZED_TELEMETRY": "false",
    "BROWSER_USE_CLOUD_SYNC": "false",
    "BROWSER_USE_VERSION_CHECK": "false",
    "BROWSER_USE_DISABLE_EXTENSIONS": "true",  # which it would download
    "BROWSER_USE_LOGGING_LEVEL": "result",
}

from browser_use import Agent, Browser, Tools
from browser_use.llm.exceptions import ModelProviderError
from browser_use.llm.views import ChatInvokeCompletion, ChatInvokeUsage
from pydantic import ValidationError

from haltline.interventions.agent import Guard
from haltline.interventions.agent.integrations.browser_use import guarded
from tests.browsers import program
from tests.conformance.harness import CACHED, EFFECTS, END, INPUT, OUTPUT, TOOLS, Call, Run, Script, why

ADAPTER = "browser-use"
# Actions have no ids and return texts; 60,000 characters of them are read; those of one turn are a sequence, which ends
# at the first that fails.
LACKS = frozenset({"any_result", "call_ids", "long_results", "parallel_calls", "subagents"})
SYNC, ASYNC = False, True
gc.freeze()  # each agent collects garbage at its end: not among what the libraries have made
LOOP = asyncio.new_event_loop()  # the browser's, for all cases
RESULT = re.compile(r"^Result\n(.*?)(?=\n</?step|\n</agent_history>|\Z)", re.DOTALL | re.MULTILINE)


class Scripted:
    """Plays the script; a turn is one object of JSON, as its models write it."""

    model = name = model_name = provider = "scripted"
    _verified_api_keys = True

    def __init__(self, script: Script) -> None:
        self.run = Run()
        self._turns = iter([*script, [Call("done", {"text": END, "success": True})]])

    async def ainvoke(self, messages: Any, output_format: Any = None, **_: Any) -> ChatInvokeCompletion[Any]:
        self.run.turns += 1
        text = "\n".join(message.text for message in messages[1:])  # after the system's
        history = re.search(r"<agent_history>.*?</agent_history>", text, re.DOTALL)
        self.run.read = RESULT.findall(history[0]) if history else []
        calls = next(self._turns)
        actions = ",".join(f"{{{json.dumps(call.name)}:{self.args_of(call)}}}" for call in calls)
        text = f'{{"evaluation_previous_goal":"","memory":"","next_goal":"","action":[{actions}]}}'
        try:
            said = output_format.model_validate_json(text)
        except ValidationError as error:
            raise ModelProviderError(str(error)) from error
        return self.answer(said)

    def args_of(self, call: Call) -> str:
        return call.written

    def answer(self, said: Any) -> ChatInvokeCompletion[Any]:
        usage = ChatInvokeUsage(
            prompt_tokens=INPUT,
            prompt_cached_tokens=CACHED,
            prompt_cache_creation_tokens=None,
            prompt_image_tokens=None,
            completion_tokens=OUTPUT,
            total_tokens=INPUT + OUTPUT,
        )
        return ChatInvokeCompletion(completion=said, usage=usage)


@cache
def browser() -> Browser:
    profile = tempfile.mkdtemp(prefix="browser-use-profile-")
    made = Browser(
        executable_path=program(),
        headless=True,
        chromium_sandbox=False,  # CI runs as root, and the pages are our own
        keep_alive=True,
        user_data_dir=profile,
        wait_between_actions=0,
        minimum_wait_page_load_time=0,
        wait_for_network_idle_page_load_time=0,
    )

    def end() -> None:
        LOOP.run_until_complete(made.kill())
        shutil.rmtree(profile, ignore_errors=True)

    atexit.register(end)
    return made


def tools_of(*kept: str) -> Tools:
    """The suite's, and of browser-use's own only these: models of all are made anew in each step, which takes long."""
    tools = Tools()
    for name in tools.registry.registry.actions.keys() - {"done", *kept}:
        tools.exclude_action(name)
    for function in TOOLS:
        tools.registry.action(function.__doc__)(function)
    return tools


def agent_of(model: Any, **options: Any) -> Agent:
    usual: dict[str, Any] = {
        "tools": tools_of(), "use_vision": False, "use_judge": False, "enable_signal_handler": False,
    }  # fmt: skip
    return Agent(task="work", llm=model, browser=browser(), **usual | options)


def run_of(agent: Agent, model: Any) -> Run:
    """Until its end; `model` is what the agent was made with."""
    try:
        LOOP.run_until_complete(agent.run(max_steps=30))
    except Exception as error:
        model.run.stopped = why(error)
    finally:
        shutil.rmtree(agent.agent_directory, ignore_errors=True)
    return cast("Run", model.run)


def run(guard: Guard, script: Script, *, is_async: bool) -> Run:
    model = Scripted(script)
    return run_of(guarded(agent_of(model), guard, effects=EFFECTS), model)
