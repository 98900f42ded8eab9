"""An agent of browser-use behind haltline, with a scripted model: `python examples/browser_use_agent.py BOOTSTRAP`.

It clicks on the same button of a page again and again, which is to delete a table; haltline stops it.
"""

import asyncio
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# browser-use sends tasks, actions and addresses of pages to its makers unless it is told not to.
os.environ |= {"ANONYMIZED_TELEMETRY": "false", "BROWSER_USE_VERSION_CHECK": "false"}

from browser_use import Agent, Browser
from browser_use.llm.views import ChatInvokeCompletion

from haltline import Guard, Refused
from haltline.interventions.agent.integrations.browser_use import guarded

PAGE = b"""<button onclick="fetch('/delete', {method: 'POST'})">Delete fact_sales</button>"""


class Catalogue(BaseHTTPRequestHandler):
    """A page with a button that deletes nothing."""

    def do_GET(self) -> None:
        """The page."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def do_POST(self) -> None:
        """What the button does."""
        print("deleted fact_sales", flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Script:
    """Clicks on the button at every turn."""

    model = name = model_name = provider = "scripted"

    async def ainvoke(self, messages: Any, output_format: Any = None, **_: Any) -> Any:
        """The next turn."""
        (index,) = re.findall(r"\[(\d+)\]<button", messages[-1].text)
        said = {"evaluation_previous_goal": "", "memory": "", "next_goal": "", "action": [{"click": {"index": index}}]}
        return ChatInvokeCompletion(completion=output_format.model_validate(said), usage=None)


async def run(bootstrap: str, url: str) -> None:
    """Runs it until it is stopped."""
    browser = Browser(headless=True, chromium_sandbox=os.geteuid() != 0, enable_default_extensions=False)
    agent = Agent(f"Delete fact_sales at {url}.", llm=Script(), browser=browser, use_vision=False)
    async with Guard(agent_id="cleaner", bootstrap=bootstrap, mode="blocking", budget_s=20, start_budget_s=20) as guard:
        try:
            await guarded(agent, guard).run(max_steps=10)
        except Refused as refused:
            print(f"stopped: {refused.code}")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Catalogue)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asyncio.run(run(sys.argv[1], f"http://127.0.0.1:{server.server_port}"))
