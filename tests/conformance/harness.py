"""The parts of cases and drivers. Imported in every environment: nothing but haltline and the standard library.

A driver is a module of `drivers` with ADAPTER, what it LACKS of the CAPABILITIES, whether it is SYNC and ASYNC, and
`run(guard, script, is_async=...)`: it builds the real library's agent behind the adapter, with a model that plays the
script and the tools of this module, runs it, and returns what the model read.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from haltline.interventions.agent import Guard

CAPABILITIES: Final = {
    "ends_the_run": "a kill ends the run",
    "stops_before_a_turn": "a stopped session makes no further model turn",
    "reads_hints": "hints reach the model",
    "hints_by_call": "of calls in one turn, each hint stands with its own result",
    "changes_arguments": "arguments are changed by a decision",
    "reads_errors": "the model reads a tool's error, and the run goes on",
    "reports_errors": "a tool's error is reported as one",
    "error_texts": "the text of a tool's error is reported",
    "usage": "tokens are counted",
    "cached_tokens": "tokens from the cache are counted",
    "model_output": "what the model writes is published",
    "call_ids": "calls have the framework's ids",
    "parallel_calls": "several calls in one turn, independent of each other",
    "subagents": "subagents are sessions below their agent's",
    "long_results": "a result of 100,000 characters reaches the model whole",
    "any_result": "tools return what is no text",
}
EFFECTS: Final = {"work": "write"}
END: Final = "the end"
INPUT, CACHED, OUTPUT = 9, 4, 2
"""Tokens of each turn: the input counts with what came from the cache."""


@dataclass(frozen=True)
class Call:
    """A call that the model requests."""

    name: str
    args: Any = field(default_factory=dict)
    """A text is what the model wrote in place of JSON."""
    id: str = ""

    @property
    def written(self) -> str:
        """The arguments as the model writes them."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args)


Script = Sequence[Sequence[Call]]
"""The calls of each turn; after the last the model says END."""


@dataclass
class Run:
    """The result of a run."""

    read: list[str] = field(default_factory=list)
    """The texts that the model read, one for each call, in order."""
    turns: int = 0
    """How many times the model was called."""
    stopped: str = ""
    """The error that ended the run early, as text; empty if it ended normally."""


class Driver(Protocol):
    """A module of `drivers`."""

    ADAPTER: str
    LACKS: frozenset[str]
    SYNC: bool
    ASYNC: bool

    def run(self, guard: Guard, script: Script, *, is_async: bool) -> Run: ...

    # Where it has subagents:
    # def delegate(guard, script) -> Run: an agent calls its subagent once, which plays the script.


ran: list[str] = []
"""The executed tool calls."""
during: list[Callable[[], object]] = []
"""Functions to run during the tool `work`."""
_lock = threading.Lock()


def _did(what: str) -> None:
    with _lock:
        ran.append(what)


def work(path: str) -> str:
    """Works on a path."""
    _did(f"work {path}")
    for happen in during:
        happen()
    if path == "bad":
        raise ValueError("no such path")
    return "x" * 100_000 if path == "long" else f"done {path}"


def delete_asset(asset_id: str) -> str:
    """Deletes an asset."""
    _did(f"delete {asset_id}")
    return f"{asset_id} still exists"


def get_asset(asset_id: str) -> str:
    """Reads an asset."""
    _did(f"get {asset_id}")
    return f"rows of {asset_id}"


def list_assets() -> str:
    """Lists the assets."""
    _did("list")
    return "fact_sales"


def count_rows() -> dict[str, Any]:
    """Counts rows."""
    _did("count")
    return {"rows": 42}


def touch() -> None:
    """Returns nothing."""
    _did("touch")


TOOLS: Final[tuple[Callable[..., Any], ...]] = (work, delete_asset, get_asset, list_assets, count_rows, touch)
TOOL: Final[Mapping[str, Callable[..., Any]]] = {tool.__name__: tool for tool in TOOLS}


def arguments_or_none(args: Any) -> dict[str, Any] | None:
    """The arguments, if they are JSON; for a host without a library that parses them."""
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except ValueError:
            return None
    return args if isinstance(args, dict) else None


@contextmanager
def stops(run: Run) -> Iterator[None]:
    """Record the exception of the block as the end of the run."""
    try:
        yield
    except Exception as error:
        run.stopped = why(error)


def why(error: BaseException) -> str:
    """The text of the error that ended a run, with its causes."""
    behind = error.__cause__ or error.__context__
    return repr(error) + (f" <- {why(behind)}" if behind is not None else "")


def numbered(script: Script) -> list[list[Call]]:
    """The calls with ids, c0, c1 ..., where they have none."""
    count = 0
    turns = []
    for turn in script:
        calls = []
        for call in turn:
            calls.append(call if call.id else Call(call.name, call.args, f"c{count}"))
            count += 1
        turns.append(calls)
    return turns
