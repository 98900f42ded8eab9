"""The common part of the sample agents: access to the catalogue, and reports of their steps.

They report one JSON object per line on standard output, to the process that started them.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from haltline.interventions.agent import Advice, Refused

URL_VARIABLE: Final = "CATALOGUE_URL"
EXIT_STOPPED: Final = 3
"""The exit code of an agent that was stopped."""

_ANSWER_WITHIN_S = 10.0


class Outcome(StrEnum):
    """The result of a step."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """The guard refused: the tool did not run."""
    ADVISED = "advised"
    """The guard gave advice before the tool ran."""
    MESSAGE = "said"
    """A message of the agent."""


@dataclass(frozen=True)
class Step:
    """One thing that an agent did or received."""

    outcome: Outcome
    text: str
    """The tool's answer, the guard's message, or the agent's own."""
    call: str = ""
    """The call, such as `delete_asset(fact_sales)`."""
    code: str = ""
    """The code of a refusal or an advice."""


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
    """Call a guarded tool and print its result; None if it was refused."""
    call = f"{tool.__name__}({', '.join(arguments)})"
    try:
        answer = tool(*arguments)
    except Refused as refused:
        emit(Step(Outcome.REFUSED, refused.reason, call, refused.code))
        return None
    emit(Step(Outcome.ANSWERED, answer, call))
    return answer


def hear(advice: Advice) -> None:
    """Report the guard's advice."""
    emit(Step(Outcome.ADVISED, advice.message, code=advice.code))


def emit(step: Step) -> None:
    """Print a step as one line."""
    sys.stdout.write(json.dumps(asdict(step)) + "\n")
    sys.stdout.flush()


def steps(output: str) -> Iterator[Step]:
    """Yield the steps in an agent's output; other lines, such as warnings, are skipped."""
    for line in output.splitlines():
        if line.startswith("{"):
            fields = json.loads(line)
            yield Step(Outcome(fields["outcome"]), fields["text"], fields["call"], fields["code"])
