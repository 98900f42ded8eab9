"""An agent of browser-use behind haltline: it clicks on a button that deletes, again and again, and is stopped.

HALTLINE_BOOTSTRAP=127.0.0.1:9092 python agent.py
"""

import asyncio
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# By default, browser-use sends tasks, actions and page addresses to its vendor.
os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_VERSION_CHECK": "false"}

from browser_use import Agent, Browser
from browser_use.llm.views import ChatInvokeCompletion

from haltline import Guard, GuardSettings, Refused
from haltline.interventions.agent.integrations.browser_use import guarded

PAGE = b"""<button onclick="fetch('/delete', {method: 'POST'})">Delete fact_sales</button>"""


class Catalogue(BaseHTTPRequestHandler):
    """A page with a button that deletes nothing."""

    def do_GET(self) -> None:
        """Send the page."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def do_POST(self) -> None:
        """Handle a click on the button."""
        print("deleted fact_sales", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Script:
    """A model that clicks on the button at every turn."""

    model = name = model_name = provider = "scripted"

    async def ainvoke(self, messages: Any, output_format: Any = None, **_: Any) -> Any:
        """Return the next turn."""
        (index,) = re.findall(r"\[(\d+)\]<button", messages[-1].text)
        state = {"evaluation_previous_goal": "", "memory": "", "next_goal": ""}
        answer = {**state, "action": [{"click": {"index": index}}]}
        return ChatInvokeCompletion(completion=output_format.model_validate(answer), usage=None)


async def run(url: str) -> None:
    """Run the agent until it is stopped."""
    browser = Browser(headless=True, chromium_sandbox=os.geteuid() != 0, enable_default_extensions=False)
    model = Script()
    # A real model, with its key in ANTHROPIC_API_KEY (from browser_use import ChatAnthropic):
    # model = ChatAnthropic(model="claude-sonnet-4-5")
    async with Guard(GuardSettings.from_env(agent_id="cleaner")) as guard:
        agent = guarded(Agent(f"Delete fact_sales at {url}.", llm=model, browser=browser, use_vision=False), guard)
        try:
            await agent.run(max_steps=10)
        except Refused as refused:
            print(f"stopped: {refused.code}")


def main() -> None:
    """Serve the page, and run the agent."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Catalogue)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asyncio.run(run(f"http://127.0.0.1:{server.server_port}"))


if __name__ == "__main__":
    main()
