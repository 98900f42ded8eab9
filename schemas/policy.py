"""The policy document: what counts, from when on, and what follows."""

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import Effect
from haltline.schemas.findings import Severity
from haltline.schemas.record import Id, Name, Record


class _Part(BaseModel):
    """A part of a policy: a misspelt field is an error, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Reading(StrEnum):
    """How the arguments of a tool are read."""

    PLAIN = "plain"
    """Named arguments: targets are taken from them by name."""
    SHELL = "shell"
    """A command line."""
    SQL = "sql"
    """SQL statements."""


class Tool(_Part):
    """What is known of the tools whose name matches a glob (case is ignored)."""

    match: Name
    effect: Effect | None = None
    reading: Reading = Reading.PLAIN


class Rule(_Part):
    """How one detector is set, and what its findings lead to."""

    enabled: bool = True
    mode: Mode = Mode.ENFORCE
    settings: dict[str, Any] = Field(default_factory=dict)
    """The detector's own settings; left out: its defaults."""
    levels: dict[Severity, Level] = Field(default_factory=dict)
    """What a finding of a severity leads to; left out: the rule's defaults."""


class Override(_Part):
    """Other settings for some agents or sessions, by glob. Later ones win, setting by setting."""

    agent: Name = "*"
    session: Name = "*"
    rules: dict[Id, Rule]


class Policy(Record):
    """One policy document."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    v: int = 1
    name: Id = "default"
    version: Annotated[int, Field(ge=0)] = 1
    tools: tuple[Tool, ...] = ()
    """Looked through in order, before the built-in ones."""
    target_args: tuple[Name, ...] = ()
    """Arguments that name what an action is about, besides the built-in ones."""
    rules: dict[Id, Rule] = Field(default_factory=dict)
    """By detector id; a detector that is not named runs with its defaults."""
    overrides: tuple[Override, ...] = ()
    cooldown_s: Annotated[float, Field(ge=0)] = 30.0
    """A rule does not repeat a decision of the same level within this time, unless it is a refusal."""
    session_ttl_h: Annotated[float, Field(gt=0)] = 24.0
    """A session that was idle for so long starts anew; a kill outlives it."""

    def overrides_for(self, agent_id: str, session_id: str) -> tuple[Override, ...]:
        """The overrides that hold for a session, in order."""
        return tuple(
            override
            for override in self.overrides
            if fnmatchcase(agent_id, override.agent) and fnmatchcase(session_id, override.session)
        )

    def rule(self, detector_id: str, overrides: tuple[Override, ...] = ()) -> Rule:
        """The rule of a detector under these overrides: only what an override says is changed."""
        merged = self.rules.get(detector_id, Rule())
        for override in overrides:
            if detector_id not in override.rules:
                continue
            other = override.rules[detector_id]
            said = {name: getattr(other, name) for name in other.model_fields_set}
            said["settings"] = {**merged.settings, **other.settings}
            said["levels"] = {**merged.levels, **other.levels}
            merged = merged.model_copy(update=said)
        return merged
