"""What the sample agents share: the way to the catalogue, and how they tell what they do.

They tell it as one JSON object a line on standard output, for whoever started them.
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
    """By the guard: the tool did not run."""
    ADVISED = "advised"
    """The guard has something to say before the tool runs."""
    MESSAGE = "said"
    """The agent says something."""


@dataclass(frozen=True)
class Step:
    """One thing that an agent did or received."""

    outcome: Outcome
    text: str
    """The tool's answer, the guard's words, or the agent's own."""
    call: str = ""
    """The call, such as `delete_asset(fact_sales)`."""
    code: str = ""
    """Of a refusal or an advice."""


def catalogue(method: str, path: str) -> str:
    """What the catalogue answers to a request."""
    request = urllib.request.Request(os.environ[URL_VARIABLE] + path, method=method)
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_WITHIN_S) as response:
            body = response.read()
    except urllib.error.HTTPError as error:
        body = error.read()
    return str(json.loads(body)["message"])


def attempt(tool: Callable[..., str], *arguments: str) -> str | None:
    """Calls a guarded tool and prints its result; None when it was refused."""
    call = f"{tool.__name__}({', '.join(arguments)})"
    try:
        answer = tool(*arguments)
    except Refused as refused:
        emit(Step(Outcome.REFUSED, refused.reason, call, refused.code))
        return None
    emit(Step(Outcome.ANSWERED, answer, call))
    return answer


def hear(advice: Advice) -> None:
    """Tells what the guard advised."""
    emit(Step(Outcome.ADVISED, advice.message, code=advice.code))


def emit(step: Step) -> None:
    """One line on standard output."""
    sys.stdout.write(json.dumps(asdict(step)) + "\n")
    sys.stdout.flush()


def steps(output: str) -> Iterator[Step]:
    """The steps in an agent's output; lines that are none, such as warnings, are passed over."""
    for line in output.splitlines():
        if line.startswith("{"):
            fields = json.loads(line)
            yield Step(Outcome(fields["outcome"]), fields["text"], fields["call"], fields["code"])
