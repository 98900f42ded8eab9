"""The keys of an intake, each with a scope and limits of its own. Only digests of keys are stored.

A file of keys is TOML, one table for each key:

    [acme]
    sha256 = "9f86d081..."                 # of the key's text
    may = ["verdicts", "publish"]          # also "metrics"; default: these two
    agents = ["acme-*"]                    # globs; default: all
    sessions = ["acme-*"]
    missions = ["acme-*"]
    requests_per_minute = 600              # default: no limit
    max_body_bytes = 262144                # default: the intake's own limit
"""

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from haltline.interventions.agent.enforcement.token_bucket import TokenBucket
from haltline.interventions.agent.service.problems import Bad, TooOften
from haltline.schemas import expressions as re
from haltline.schemas.events import ActionEvent
from haltline.schemas.problems import problem_of

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
_BEARER: Final = "Bearer "
_MINUTE_S: Final = 60
_SHA256: Final = re.compile("[0-9a-f]{64}")


class May(StrEnum):
    """The permissions of a key."""

    VERDICTS = "verdicts"
    """Request verdicts on calls and turns, report results, start and end sessions; LiteLLM's guardrail."""
    PUBLISH = "publish"
    """Publish events and spans."""
    METRICS = "metrics"
    """Read the intake's metrics."""


class Scope(BaseModel):
    """The permissions and limits of one key."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str = ""
    """The SHA-256 of the key's text, 64 hex digits."""
    may: tuple[May, ...] = (May.VERDICTS, May.PUBLISH)
    agents: tuple[str, ...] = ("*",)
    sessions: tuple[str, ...] = ("*",)
    missions: tuple[str, ...] = ("*",)
    requests_per_minute: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """The rate limit; also the burst size after idle time."""
    max_body_bytes: Annotated[int, Field(ge=256, le=MAX_BODY_BYTES)] = MAX_BODY_BYTES
    """The size limit of a request, also after decompression."""


class Key:
    """One key, with its recent use."""

    def __init__(self, name: str, scope: Scope, *, is_local: bool = False) -> None:
        """`is_local`: it is this machine's user's, whose files the service may look at."""
        self.name = name
        self.is_local = is_local
        self.max_body_bytes = scope.max_body_bytes
        self._scope = scope
        rate = scope.requests_per_minute
        self._bucket = None if rate is None else TokenBucket(per_s=rate / _MINUTE_S, burst=rate)

    def admit(self, may: May) -> None:
        """Count a request. Raises Bad (403) if the key has no permission, and TooOften beyond its rate."""
        if may not in self._scope.may:
            raise Bad(403, f"key {self.name}: expected one for {may.value}, got one for {', '.join(self._scope.may)}")
        if self._bucket is not None and self._bucket.take() is None:
            rate = self._scope.requests_per_minute or 1
            raise TooOften(f"key {self.name}: expected at most {rate} requests a minute, got more", _MINUTE_S / rate)

    def check_size(self, size: int) -> None:
        """Raise Bad (413) for a body or a message of more bytes than allowed."""
        if size > self.max_body_bytes:
            raise Bad(413, f"the body: expected at most {self.max_body_bytes} bytes, got more")

    def outside(
        self, *, agents: Iterable[object] = (), sessions: Iterable[object] = (), missions: Iterable[object] = ()
    ) -> str | None:
        """Return what is outside the key's scope, of the values that are given; None: nothing."""
        named = (
            ("agent_id", agents, self._scope.agents),
            ("session_id", sessions, self._scope.sessions),
            ("mission_id", missions, self._scope.missions),
        )
        for name, values, globs in named:
            for value in values:
                if isinstance(value, str) and not any(fnmatchcase(value, glob) for glob in globs):
                    return f"{name}: expected one of {', '.join(globs)}, as key {self.name} is for, got {value!r:.80}"
        return None

    def outside_of_event(self, event: ActionEvent) -> str | None:
        """Return what is outside the key's scope in an event, and in its session's ancestors."""
        return self.outside(
            agents=(event.agent_id,),
            sessions=(event.session_id, event.parent_session_id, event.root_session_id),
            missions=(event.mission_id,),
        )

    def check_request(self, fields: Mapping[str, Any], own_agent: str | None) -> None:
        """Raise Bad (403) for a request about a session outside the scope.

        `own_agent` is the intake's, for a session that the request begins; it is not told.
        """
        above = fields.get("ancestors")
        outside = self.outside(
            agents=(fields.get("agent_id"),),
            sessions=(
                *(fields.get(name) for name in ("session_id", "parent_session_id", "root_session_id")),
                *(above if isinstance(above, list) else ()),
            ),
            missions=(fields.get("mission_id"),),
        )
        if outside is None and fields.get("agent_id") is None and self.outside(agents=(own_agent,)) is not None:
            outside = f"agent_id: expected one of {', '.join(self._scope.agents)}, as key {self.name} is for, got none"
        if outside is not None:
            raise Bad(403, outside)


OPEN: Final = Key("none", Scope(may=tuple(May)))
"""The key of every client of an intake without keys and token."""


class BadKeys(ValueError):
    """A file of keys cannot be used: where, what was expected and what was given."""


class Keys:
    """The keys of an intake; its token is a key for everything."""

    def __init__(self, scopes: Mapping[str, Scope], token: str | None = None, *, is_local: bool = False) -> None:
        """`is_local`: the token is for this machine's user."""
        self._by_digest = {scope.sha256: Key(name, scope) for name, scope in scopes.items()}
        if token is not None:
            self._by_digest[digest_of(token)] = Key("token", Scope(may=tuple(May)), is_local=is_local)

    @property
    def is_open(self) -> bool:
        """Return whether there are none, so that every client is admitted."""
        return not self._by_digest

    def of(self, authorization: str) -> Key:
        """Return the key of an `Authorization` header.

        Raises Bad (401) if keys are required and it has none of them.
        """
        if self.is_open:
            return OPEN
        given = authorization.removeprefix(_BEARER) if authorization.startswith(_BEARER) else ""
        # Digests are compared, so the duration reveals nothing about a key.
        key = self._by_digest.get(digest_of(given))
        if key is None:
            raise Bad(401, "Authorization: expected the bearer token or a key of this intake, got none or another")
        return key


def digest_of(key: str) -> str:
    """Return the SHA-256 of a key's text, in hex."""
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def read_keys(path: Path) -> dict[str, Scope]:
    """Return the scopes of a file by the names of their keys. Raises BadKeys, and OSError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadKeys(f"{path}: expected TOML, got {error}") from None
    if not document:
        raise BadKeys(f"{path}: expected a table for each key, got none")
    scopes: dict[str, Scope] = {}
    named: dict[str, str] = {}
    for name, table in document.items():
        try:
            scope = Scope.model_validate(table)
        except ValidationError as error:
            problem = problem_of(error)
            raise BadKeys(f"{path}: {name}: {problem.place}: {problem.text}") from None
        if _SHA256.fullmatch(scope.sha256) is None:  # it may be the key itself, which must not be logged
            raise BadKeys(f"{path}: {name}: sha256: expected 64 hex digits, got {len(scope.sha256)} other characters")
        if scope.sha256 in named:
            raise BadKeys(f"{path}: {name}: sha256: expected a key of its own, got that of {named[scope.sha256]}")
        scopes[name], named[scope.sha256] = scope, name
    return scopes
