"""The policy document."""

import os
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field

from haltline.schemas.author_rules import AuthorRules
from haltline.schemas.correlation import Correlation
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import Effect
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import Interventions
from haltline.schemas.record import EpochMs, Id, JsonObject, Name, Part, Record

MAX_ENTRIES = 1000
"""The most tools, arguments or overrides that a document may name."""
MAX_RULES = 200
MAX_CORRELATIONS = 64


class Reading(StrEnum):
    """How the arguments of a tool are read."""

    PLAIN = "plain"
    """Named arguments: targets are taken from them by name."""
    SHELL = "shell"
    """A command line."""
    SQL = "sql"
    """SQL statements."""


class Tool(Part):
    """Properties of the tools whose name matches a glob (case is ignored)."""

    match: Name
    """A glob over names of tools."""
    effect: Effect | None = None
    """The tool's effect; left out: the built-in one. A producer's hint never lowers it."""
    reading: Reading = Reading.PLAIN
    """How its arguments are read."""
    loop_key: Annotated[tuple[Name, ...], Field(max_length=64)] | None = None
    """The arguments that identify a call for repetition; empty: all calls of the tool are the same. Left out: all
    arguments."""


class Rule(Part):
    """The settings of one detector and the effects of its findings."""

    enabled: bool = True
    """False: the detector does not run."""
    mode: Mode = Mode.ENFORCE
    """shadow: only record; warn: a nudge at most; enforce. Left out: the rule's default."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The detector's own settings; left out: its defaults."""
    levels: dict[Severity, Level] = Field(default_factory=dict)
    """The level by severity of the finding; left out: the rule's defaults."""


class Exemption(Part):
    """An operator's permission for an override to loosen a rule."""

    by: Annotated[str, Field(min_length=1, max_length=256)]
    """The name of the person who allows it."""
    reason: Annotated[str, Field(min_length=1, max_length=4096)]
    """The reason, for the audit."""
    expires: EpochMs
    """From then on, by the sessions' event time, the whole override has no effect."""


class Override(Part):
    """Other rules for some agents or sessions, by glob.

    Of all that match a session the strictest counts, setting by setting, whatever their order. One with an exemption
    may loosen rules. It takes precedence over all others, and the last of several counts.
    """

    agent: Name = "*"
    """A glob over ids of agents."""
    session: Name = "*"
    """A glob over ids of sessions."""
    rules: Annotated[dict[Id, Rule], Field(max_length=MAX_RULES)]
    """By detector id, like the document's own."""
    exemption: Exemption | None = None
    """Left out: the override can only be stricter."""


class Experiment(Part):
    """A controlled experiment: whether a rule's hints help."""

    rule: Id
    """The rule whose hints (NUDGE, REINFORCE) some sessions do not get. Nothing else changes."""
    silent: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The share of sessions without them, chosen by a hash of the session's id."""


class Preset(StrEnum):
    """A policy to start from; the document's own fields take precedence."""

    STARTER = "starter"
    """Only the loop guard and severe destruction are enforced; the rest warns or records."""
    STANDARD = "standard"
    """The defaults of every rule."""
    LITERAL = "literal"
    """Many destructive acts on different targets kill the session; by default they need a person's approval."""
    CAREFUL = "careful"
    """The defaults, and a person must approve the first irreversible act on each target."""
    REGULATED = "regulated"
    """Lower thresholds and harder interventions."""


class Published(Part):
    """The publisher of a document, the reason and the time."""

    by: Annotated[str, Field(min_length=1, max_length=256)]
    reason: Annotated[str, Field(min_length=1, max_length=4096)]
    time: EpochMs


class ApprovalRules(Part):
    """Approvals of calls by people."""

    expires_s: Annotated[float, Field(ge=1, le=86_400)] = 900.0
    """A request without an answer by then is refused, never allowed."""
    quorum: Annotated[int, Field(ge=1, le=5)] = 1
    """How many different operators must approve."""
    critical_quorum: Annotated[int, Field(ge=1, le=5)] = 2
    """The same for requests of priority critical: a critical finding on a destructive act."""
    critical_voters: Annotated[int, Field(ge=1, le=9)] = 3
    """The number of operators that may vote: a critical request is rejected once the others cannot reach the quorum."""
    covers: Annotated[int, Field(ge=0, le=10_000)] = 100
    """An approval of a volume of destructive acts allows this many more of them in the session; 0: none."""


class ProbationRules(Part):
    """The stricter limits of a session after a reset."""

    actions: Annotated[int, Field(ge=0, le=10_000)] = 20
    """The number of actions on probation; 0: no probation."""
    rules: Annotated[dict[Id, Rule], Field(max_length=MAX_RULES)] = Field(
        default_factory=lambda: {"destructive_volume": Rule(settings={"max_deletes": 2, "max_deletes_in_actions": 3})}
    )
    """By detector id, like an override's: they can only be stricter. A hold on probation is a kill."""
    lockout_s: Annotated[float, Field(ge=0, le=7 * 86_400)] = 3600.0
    """A kill during probation cannot be reset within this time. It doubles with each further one."""
    longest_lockout_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = 86_400.0
    """The longest lockout."""


class HoldRules(Part):
    """The hold of a session that makes no progress."""

    attempts: Annotated[int, Field(ge=0, le=1000)] = 3
    """Turns that are made after a refused call; if a stop stands then, the session is held."""
    within: Annotated[int, Field(ge=0, le=10_000)] = 20
    """A stop that comes later than this number of turns after a refused call is a first one again."""
    kill_after: Annotated[int, Field(ge=1, le=10_000)] = 10
    """A held session that goes on is killed after this number of refused turns."""


class Operations(Part):
    """Approvals, kills, resets and incidents."""

    approvals: ApprovalRules = ApprovalRules()
    """Approvals of calls by people."""
    probation: ProbationRules = ProbationRules()
    """The stricter limits of a session after a reset."""
    hold: HoldRules = HoldRules()
    """The hold of a session that makes no progress."""
    kill_ack_s: Annotated[float, Field(ge=0.1, le=3600)] = 5.0
    """A kill that the agent's side has not acknowledged by then is sent again."""
    kill_issues: Annotated[int, Field(ge=1, le=100)] = 3
    """How often it is sent; if the last one is not acknowledged either, an incident is opened."""
    second_person_s: Annotated[float, Field(ge=1, le=86_400)] = 900.0
    """How long an act of two operators (a fleet's kill, a reset within the lockout) waits for the second one."""
    incident_quiet_h: Annotated[float, Field(gt=0, le=8784)] = 1.0
    """An incident is over when nothing was counted on it for this time while its session, or scope, was active."""
    reset_requires_new_session: bool = False
    """A reset does not release a session: it stays closed, and the work continues in a new one."""


_OPERATIONS = Operations()


class Policy(Record):
    """One policy document."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    v: int = 1
    """The version of this format."""
    name: Id = "default"
    """The name under which it is published and which workers follow."""
    version: Annotated[int, Field(ge=0)] = 1
    """Named in every decision, so each published document has its own."""
    preset: Preset | None = None
    """The preset to start from; expanded into the rules when the document is loaded."""
    tools: Annotated[tuple[Tool, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Searched in order, before the built-in ones."""
    target_args: Annotated[tuple[Name, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Arguments that name the target of an action, besides the built-in ones."""
    scratch: Annotated[tuple[Name, ...], Field(max_length=MAX_ENTRIES)] | None = None
    """Globs over targets as `kind=name` whose loss is none, such as `database=*_dev`. Left out: none."""
    rows: Annotated[tuple[Name, ...] | None, Field(max_length=MAX_ENTRIES)] = None
    """What commands of own programs do, besides the built-in rows: `destroys | acmectl tenant drop | | tenant:$1`."""
    rules: Annotated[dict[Id, Rule], Field(max_length=MAX_RULES)] = Field(default_factory=dict)
    """By detector id; all others run with their defaults."""
    correlations: Annotated[tuple[Correlation, ...], Field(max_length=MAX_CORRELATIONS)] = ()
    """The policy's own rules, over several events or findings of a session."""
    author_rules: Annotated[tuple[AuthorRules, ...] | None, Field(max_length=MAX_ENTRIES)] = None
    """Budgets, rates, lists, constraints and conditions of calls, for all agents or some. Left out: none."""
    judgement: Mode | None = None
    """The strictest mode of rules of judgement, such as `shadow` in a new installation, unless `rules` sets their
    mode. Harm, budgets, tripwires and kills are enforced at once. Left out: their defaults."""
    overrides: Annotated[tuple[Override, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Other rules for some agents or sessions."""
    experiment: Experiment | None = None
    """Hints of one rule that some sessions do not get, to measure whether they help. Left out: none."""
    cooldown_s: Annotated[float, Field(ge=0)] = 30.0
    """A rule does not repeat a decision of the same level within this time, unless it is a refusal."""
    interventions: Interventions | None = None
    """How levels are chosen and what decisions contain besides; left out: its defaults."""
    kill_grace_s: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    """Calls that a killed session starts later than this after the kill are an incident of their own."""
    session_ttl_h: Annotated[float, Field(ge=1, le=8784)] = 24.0
    """A session that was idle for this long starts again; a kill outlives it."""
    operations: Operations | None = None
    """Approvals, kills and resets; left out: the defaults of each."""
    opinion: Annotated[JsonObject | None, Field(json_schema_extra={"deprecated": True})] = None
    """Of earlier releases: second opinions of a model. It has no effect."""

    published: Published | None = None
    """Added on publication; it has no effect on decisions."""

    @property
    def operated(self) -> Operations:
        """Approvals, kills and resets, with their defaults."""
        return self.operations or _OPERATIONS

    def overrides_for(self, agent_id: str, session_id: str, time_ms: int) -> tuple[Override, ...]:
        """The overrides that apply to a session at an event time (epoch ms), in order."""
        return tuple(
            override
            for override in self.overrides
            if (override.exemption is None or time_ms < override.exemption.expires)
            and fnmatchcase(agent_id, override.agent)
            and fnmatchcase(session_id, override.session)
        )


PolicyDocument: TypeAlias = Policy | Mapping[str, Any] | str | os.PathLike[str]
"""A policy as callers pass it: the path of a document, its fields, or a Policy."""
