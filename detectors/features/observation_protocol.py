"""Protocols of the parts of an observation that other features use, which avoid import cycles."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from haltline.detectors.commands.model import Destruction
from haltline.detectors.features.call import Again, OpenCall
from haltline.detectors.features.error_normalization import Normalization
from haltline.detectors.features.tool import KnownTool
from haltline.schemas.events import ActionEvent, Effect, Kind, Usage


class Observed(Protocol):
    """A call within its session, with its result. `Observation` documents the members."""

    event: ActionEvent
    action: str
    args: dict[str, Any] | None
    hint: Effect | None
    tool: KnownTool
    runs: bool
    text: str

    @property
    def targets(self) -> tuple[str, ...]: ...
    @property
    def cwd(self) -> str | None: ...

    @property
    def effect(self) -> Effect: ...
    @property
    def destroys(self) -> tuple[Destruction, ...]: ...
    @property
    def line(self) -> str: ...
    @property
    def written(self) -> Mapping[str, list[list[str]]]: ...

    kind: Kind
    time_ms: int

    @property
    def began_ms(self) -> int: ...

    offset: int
    usage: Usage | None
    call: OpenCall | None
    index: int
    step: int
    is_attempt: bool
    is_result: bool
    refused: bool
    failed: bool
    recalled: bool
    measured: bool

    @property
    def fingerprint(self) -> str: ...

    @property
    def head(self) -> str: ...

    @property
    def irreversible(self) -> tuple[Destruction, ...]: ...

    @property
    def losses(self) -> tuple[Destruction, ...]: ...

    @property
    def creates(self) -> Sequence[str]: ...

    @property
    def chooses(self) -> Sequence[str]: ...
    @property
    def renames(self) -> Sequence[tuple[str, str]]: ...
    @property
    def files(self) -> Sequence[tuple[str, list[list[str]]]]: ...
    @property
    def places(self) -> Sequence[str]: ...

    @property
    def changes(self) -> bool: ...
    @property
    def changed(self) -> bool: ...

    @property
    def produces(self) -> bool: ...
    @property
    def does_more_than_look(self) -> bool: ...

    @property
    def waits(self) -> bool: ...
    @property
    def shows_placeholder(self) -> bool: ...
    @property
    def unread(self) -> bool: ...
    @property
    def cancelled(self) -> bool: ...
    @property
    def infrastructure(self) -> bool: ...

    @property
    def backs_off(self) -> bool: ...

    @property
    def timed_out(self) -> str: ...

    @property
    def got_on(self) -> bool: ...

    @property
    def steps_through(self) -> bool: ...
    @property
    def again(self) -> Again | None: ...
    @property
    def novelty(self) -> tuple[float, ...] | None: ...

    def error_key(self, level: Normalization) -> str: ...
    def may_have_changed_since(self, index: int) -> bool: ...
    def was_condensed_between(self, first: int, last: int) -> bool: ...
