"""Keys of callers, each with a name and a role. Only digests of keys are stored."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from haltline.schemas.problems import problem_of
from haltline.streams.policy.yaml_text import BadYaml, value_of

May: TypeAlias = Literal["look", "tell", "act", "change"]
"""A permission. `tell`: report events, and check whether to stop, for agents' SDKs; `act`: kill, release, approve,
label; `change`: hide records, change policies."""


class Role(StrEnum):
    """The role of a key."""

    VIEWER = "viewer"
    AGENT = "agent"
    OPERATOR = "operator"
    ADMIN = "admin"


_ALLOWED: Final[Mapping[Role, frozenset[May]]] = {
    Role.VIEWER: frozenset({"look"}),
    Role.AGENT: frozenset({"tell"}),
    Role.OPERATOR: frozenset({"look", "tell", "act"}),
    Role.ADMIN: frozenset(get_args(May)),
}


@dataclass(frozen=True, slots=True)
class Who:
    """A caller."""

    name: str
    role: Role

    def may(self, act: May) -> bool:
        """Return whether the role has this permission."""
        return act in _ALLOWED[self.role]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=256)
    role: Role
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class BadKeys(ValueError):
    """An invalid file of keys: where, what was expected and what was received."""


class Keys:
    """The valid keys of a console."""

    def __init__(self, known: Mapping[str, Who]) -> None:
        self._known = dict(known)

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """Read a YAML list of `name`, `role` and `sha256` of a key. Raises BadKeys, and OSError."""
        try:
            document = value_of(path.read_text())
        except BadYaml as error:
            raise BadKeys(f"{path}: expected YAML, got {error}") from None
        if not isinstance(document, list) or not document:
            raise BadKeys(f"{path}: expected a list of name, role and sha256, got {type(document).__name__}")
        known: dict[str, Who] = {}
        for number, one in enumerate(document):
            try:
                entry = _Entry.model_validate(one)
            except ValidationError as error:
                raise BadKeys(f"{path}: {number}: {problem_of(error)}") from None
            known[entry.sha256] = Who(entry.name, entry.role)
        return cls(known)

    @classmethod
    def of(cls, keys: Iterable[tuple[str, Who]]) -> "Keys":
        """Keys from plain text, for a console within this process."""
        return cls({digest_of(key): who for key, who in keys})

    def who(self, key: str) -> Who | None:
        """The holder of a key; None: unknown key."""
        digest, found = digest_of(key), None
        for known, who in self._known.items():
            if hmac.compare_digest(known, digest):
                found = who
        return found


def digest_of(key: str) -> str:
    """The stored digest of a key. A random key of 256 bits needs no slow hash."""
    return hashlib.sha256(key.encode()).hexdigest()


def new_key() -> str:
    """A key of 256 random bits."""
    return f"{_PREFIX}{secrets.token_urlsafe(32)}"


_PREFIX: Final = "hl_"
"""The prefix by which secret scanners detect a key."""
