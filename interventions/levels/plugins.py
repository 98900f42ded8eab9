"""Strategies and interventions of other packages: found by name, validated once, with their errors contained.

A package offers a strategy by an entry point of the group `haltline.strategies` (a class without arguments that has
`choose`, as `strategies.Strategy`) and an intervention by one of `haltline.interventions` (a class that has
`intervene`, as `Handler`). It runs only if a policy names it. Its exceptions, and results that are no level or no
payload, are reported as a failure under its name, and the decision is made without it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

import orjson

from haltline.interventions.levels.strategies import Case, Strategy
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.findings import Finding
from haltline.schemas.record import JsonObject

STRATEGIES: Final = "haltline.strategies"
"""The entry point group of strategies."""
INTERVENTIONS: Final = "haltline.interventions"
"""The entry point group of interventions."""

MAX_BYTES: Final = 16 * 1024
"""The limit of a handler's additions to one decision, as JSON."""

Tell = Callable[[str, BaseException], None]
"""Reports a failure: the extension's name, and the error."""

_ADDS: Final = frozenset({"message", "limits", "arguments", "custom"})
_T = TypeVar("_T")


class Offered(Protocol):
    """An extension offered by an installed package."""

    @property
    def load(self) -> Callable[[], object]:
        """Import it."""

    @property
    def place(self) -> str:
        """Its name in errors, with its package."""


class Handler(Protocol):
    """An intervention of another package."""

    def intervene(self, decision: Decision, finding: Finding) -> Mapping[str, Any] | None:
        """Return additions to the decision: `message`, `limits`, `arguments` or `custom` (any JSON object). Pure."""


class ExtensionError(Exception):
    """An invalid result of another package's extension: which, what was expected, what was received."""


class Extensions:
    """Extensions of other packages; nothing is imported before a policy names it."""

    def __init__(
        self, strategies: Mapping[str, Offered] | None = None, handlers: Mapping[str, Offered] | None = None
    ) -> None:
        self._strategies = dict(strategies or {})
        self._handlers = dict(handlers or {})

    def strategy(self, name: str, known: Mapping[str, Strategy], place: str) -> Strategy:
        """Return a built-in strategy, or another package's. Raises ValueError for an unknown or invalid one."""
        if name in known:
            return known[name]
        found = _loaded(name, self._strategies, "choose", place, ", ".join((*known, *sorted(self._strategies))))
        return _Contained(found, f"strategy {name}")

    def handler(self, name: str, place: str) -> "ContainedHandler":
        """Return another package's intervention. Raises ValueError for an unknown or invalid one."""
        expected = ", ".join(sorted(self._handlers)) or f"one of the entry point group {INTERVENTIONS}"
        return ContainedHandler(_loaded(name, self._handlers, "intervene", place, expected), f"intervention {name}")


NO_EXTENSIONS: Final = Extensions()
"""Only haltline's own."""


class _Contained:
    """Another package's strategy, with its results validated."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._name = inner, name

    def choose(self, case: Case) -> Level:
        level = _called(lambda: self._inner.choose(case))
        if not isinstance(level, Level):
            raise ExtensionError(f"{self._name}: expected a Level, got {level!r:.120}")
        return level


class ContainedHandler:
    """Another package's intervention, with its results validated."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self.name = inner, name

    def added(self, decision: Decision, finding: Finding) -> JsonObject:
        """Return the fields that it adds. Raises its exceptions, and ExtensionError for an invalid result."""
        decided = _called(lambda: self._inner.intervene(decision, finding))
        if decided is None:
            return {}
        if not isinstance(decided, Mapping) or not set(decided) <= _ADDS:
            raise ExtensionError(
                f"{self.name}: expected a mapping with {', '.join(sorted(_ADDS))}, got {decided!r:.120}"
            )
        size = len(orjson.dumps(dict(decided)))
        if size > MAX_BYTES:
            raise ExtensionError(f"{self.name}: expected at most {MAX_BYTES} bytes, got {size}")
        merged = Decision.model_validate_json(decision.model_copy(update=dict(decided)).to_json())
        return {name: getattr(merged, name) for name in decided}


def _called(call: Callable[[], _T]) -> _T:
    try:
        return call()
    except SystemExit as error:
        raise ExtensionError(f"expected it to return, got {error!r}") from error


def _loaded(name: str, offered: Mapping[str, Offered], method: str, place: str, expected: str) -> Any:
    source = offered.get(name)
    if source is None:
        raise ValueError(f"{place}: expected {expected}, got {name!r}")
    try:
        found = source.load()
        made = found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{place}: {source.place}: expected it to be imported and made, got {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(made, method, None)):
        raise ValueError(f"{place}: {source.place}: expected an object with a method {method}, got {made!r:.120}")
    return made
