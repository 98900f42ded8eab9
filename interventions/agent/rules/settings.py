"""The rules that an agent's author gives to a guard, in code or in files."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson

from haltline.schemas.author_rules import CallRules, Seconds

RULES_VARIABLE: Final = "HALTLINE_AGENT_RULES"
"""The environment variable with the paths of rule files, JSON or TOML."""


class ClientRules(CallRules):
    """The rules of a guard. Names of actions are globs; amounts are US dollars.

    Raises ValueError (pydantic's) for invalid values.
    """

    idempotency_ttl_seconds: Seconds = 3600.0
    """How long a result is returned again for the same key."""
    also: tuple[CallRules, ...] = ()
    """Further rules that apply beside these, as those of another file: the stricter of both has effect."""

    @classmethod
    def from_file(cls, file: str | os.PathLike[str]) -> "ClientRules":
        """Read the rules of a JSON file, or of a TOML file (`*.toml`).

        Raises ValueError with the file's name for invalid rules, and OSError if it cannot be read.
        """
        path = Path(file)
        data = path.read_bytes()
        try:
            document = tomllib.loads(data.decode()) if path.suffix == ".toml" else orjson.loads(data)
            return cls.model_validate(document)
        except ValueError as error:
            raise ValueError(f"{path}: expected rules as JSON or TOML: {error}") from error

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "ClientRules | None":
        """Read the files that `HALTLINE_AGENT_RULES` names, all of which apply; None if it is not set."""
        files = (os.environ if environ is None else environ).get(RULES_VARIABLE, "")
        rules = [cls.from_file(file) for file in files.split(os.pathsep) if file]
        if not rules:
            return None
        first, *others = rules
        shortest = min(one.idempotency_ttl_seconds for one in rules)
        return first.model_copy(update={"also": (*first.also, *others), "idempotency_ttl_seconds": shortest})
