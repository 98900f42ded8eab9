"""The common part of the sample agents: access to the catalogue, and reports of their steps.

Each report is a line on standard output, for the process that started them.
"""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from textwrap import shorten
from typing import Final

from haltline.interventions.agent import Advice, Refused

URL_VARIABLE: Final = "CATALOGUE_URL"
EXIT_STOPPED: Final = 3
"""The exit code of an agent that was stopped."""

REPORT: Final = "agent: "
"""The beginning of each reported line."""

_ANSWER_WITHIN_S = 10.0
_SHOWN_CHARS = 48


def catalogue(method: str, path: str) -> str:
    """Return the catalogue's answer to a request."""
    request = urllib.request.Request(os.environ[URL_VARIABLE] + path, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_WITHIN_S) as response:
            body = response.read()
    except urllib.error.HTTPError as error:
        body = error.read()
    return str(json.loads(body)["message"])


def attempt(tool: Callable[..., str], *arguments: str) -> str | None:
    """Call a guarded tool and report its answer; None if it was refused."""
    call = f"{tool.__name__}({', '.join(arguments)})"
    try:
        answer = tool(*arguments)
    except Refused as refused:
        say(f"{call} REFUSED ({refused.code})")
        return None
    say(f"{call} -> {shorten(answer, _SHOWN_CHARS, placeholder=' ...')}")
    return answer


def print_hint(advice: Advice) -> None:
    """Report the guard's advice."""
    say(f"hears ({advice.code}): {advice.message}")


def say(text: str) -> None:
    """Report one line."""
    print(REPORT + text, flush=True)
