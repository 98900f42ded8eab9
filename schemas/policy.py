"""The policy document: what counts, from when on, and what follows."""

import os
from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, TypeAlias

from pydantic import ConfigDict, Field

from haltline.schemas.correlation import Correlation
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import Effect
from haltline.schemas.findings import Severity
from haltline.schemas.intervening import Interventions
from haltline.schemas.opinions import OpinionRules
from haltline.schemas.record import EpochMs, Id, Name, Part, Record

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
    """What is known of the tools whose name matches a glob (case is ignored)."""

    match: Name
    """A glob over names of tools."""
    effect: Effect | None = None
    """What it does; left out: what is known of it otherwise. A producer's hint never lowers it."""
    reading: Reading = Reading.PLAIN
    """How its arguments are read."""
    loop_key: Annotated[tuple[Name, ...], Field(max_length=64)] | None = None
    """The arguments in which two calls must be equal to be the same call; empty: any two are. Left out: all of them."""


class Rule(Part):
    """How one detector is set, and what its findings lead to."""

    enabled: bool = True
    """Off: it is not looked for."""
    mode: Mode = Mode.ENFORCE
    """shadow: only record; warn: a nudge at most; enforce. Left out: the rule's default."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """The detector's own settings; left out: its defaults."""
    levels: dict[Severity, Level] = Field(default_factory=dict)
    """What a finding of a severity leads to; left out: the rule's defaults."""


class Exemption(Part):
    """An operator's word that an override may loosen a rule."""

    by: Annotated[str, Field(min_length=1, max_length=256)]
    """Who allows it: a person's name."""
    reason: Annotated[str, Field(min_length=1, max_length=4096)]
    """Why, for the audit and for whoever reads it later."""
    expires: EpochMs
    """From then on, by the sessions' event time, the whole override no longer holds."""


class Override(Part):
    """Other rules for some agents or sessions, by glob.

    Of all that hold for a session the strictest counts, setting by setting, whatever their order. One with an
    exemption may loosen: it holds, over every other, and of several the last.
    """

    agent: Name = "*"
    """A glob over ids of agents."""
    session: Name = "*"
    """A glob over ids of sessions."""
    rules: Annotated[dict[Id, Rule], Field(max_length=MAX_RULES)]
    """By detector id, as the document's own."""
    exemption: Exemption | None = None
    """Without one it can only be stricter."""


class Preset(StrEnum):
    """A policy to begin with; what a document says itself comes before it."""

    STARTER = "starter"
    """Only the loop guard and severe destruction are enforced; the rest warns or records."""
    STANDARD = "standard"
    """The defaults of every rule."""
    LITERAL = "literal"
    """Many destructive acts on different targets kill the session; by default a person is asked."""
    CAREFUL = "careful"
    """As the defaults, and a person is asked before the first irreversible act on each target."""
    REGULATED = "regulated"
    """Lower thresholds and harder interventions."""


class Published(Part):
    """Who put a document on the topic, why and when."""

    by: Annotated[str, Field(min_length=1, max_length=256)]
    reason: Annotated[str, Field(min_length=1, max_length=4096)]
    time: EpochMs


class ApprovalRules(Part):
    """How a person's approval of a call is got."""

    expires_s: Annotated[float, Field(ge=1, le=86_400)] = 900.0
    """A request that nobody has answered by then is refused; never allowed."""
    quorum: Annotated[int, Field(ge=1, le=5)] = 1
    """How many different operators must approve."""
    critical_quorum: Annotated[int, Field(ge=1, le=5)] = 2
    """The same for requests of priority critical: a critical finding about an act that destroys."""
    critical_voters: Annotated[int, Field(ge=1, le=9)] = 3
    """Out of so many operators: a critical request is rejected once the others can no longer make the quorum."""
    covers: Annotated[int, Field(ge=0, le=10_000)] = 100
    """An approval of a volume of destructive acts lets so many more of them pass in the session; 0: none."""


class ProbationRules(Part):
    """What a session is held to after a reset."""

    actions: Annotated[int, Field(ge=0, le=10_000)] = 20
    """For so many of its actions; 0: no probation."""
    rules: Annotated[dict[Id, Rule], Field(max_length=MAX_RULES)] = Field(
        default_factory=lambda: {"destructive_volume": Rule(settings={"max_deletes": 2, "max_deletes_in_actions": 3})}
    )
    """By detector id, as an override's: they can only be stricter. From PAUSE on, each decision is a kill."""
    lockout_s: Annotated[float, Field(ge=0, le=7 * 86_400)] = 3600.0
    """A kill during probation cannot be reset before this has passed; the next one for twice as long, and so on."""
    longest_lockout_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = 86_400.0
    """It does not grow beyond this."""


class Operations(Part):
    """Approvals, kills, resets and incidents."""

    approvals: ApprovalRules = ApprovalRules()
    """How a person's approval of a call is got."""
    probation: ProbationRules = ProbationRules()
    """What a session is held to after a reset."""
    kill_ack_s: Annotated[float, Field(ge=0.1, le=3600)] = 5.0
    """A kill that the agent's side has not acknowledged by then is sent again."""
    kill_issues: Annotated[int, Field(ge=1, le=100)] = 3
    """How often it is sent; when the last one is not acknowledged either, that is an incident."""
    second_person_s: Annotated[float, Field(ge=1, le=86_400)] = 900.0
    """How long what takes two operators (a fleet's kill, a reset within the lockout) waits for the second."""
    incident_quiet_h: Annotated[float, Field(gt=0, le=8784)] = 1.0
    """An incident is over when nothing was counted on it for so long while its session, or scope, went on."""
    reset_requires_new_session: bool = False
    """A reset does not release a session: it stays closed, and the work goes on in a new one."""


_OPERATIONS = Operations()


class Policy(Record):
    """One policy document."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    v: int = 1
    """The version of this format."""
    name: Id = "default"
    """Under which it is published, and followed by workers."""
    version: Annotated[int, Field(ge=0)] = 1
    """Named in every decision, so each published document has its own."""
    preset: Preset | None = None
    """What to begin with; spelled out into the rules when the document is loaded."""
    tools: Annotated[tuple[Tool, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Looked through in order, before the built-in ones."""
    target_args: Annotated[tuple[Name, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Arguments that name what an action is about, besides the built-in ones."""
    rules: Annotated[dict[Id, Rule], Field(max_length=MAX_RULES)] = Field(default_factory=dict)
    """By detector id; a detector that is not named runs with its defaults."""
    correlations: Annotated[tuple[Correlation, ...], Field(max_length=MAX_CORRELATIONS)] = ()
    """Rules of the policy's own, over several events or findings of a session."""
    judgement: Mode | None = None
    """The most that rules of judgement may do, such as `shadow` in a new installation, where `rules` names no mode of
    theirs. Harm, budgets, tripwires and kills are enforced at once. Left out: their defaults."""
    overrides: Annotated[tuple[Override, ...], Field(max_length=MAX_ENTRIES)] = ()
    """Other rules for some agents or sessions."""
    cooldown_s: Annotated[float, Field(ge=0)] = 30.0
    """A rule does not repeat a decision of the same level within this time, unless it is a refusal."""
    interventions: Interventions | None = None
    """How levels are chosen and what decisions bring along; left out: its defaults."""
    kill_grace_s: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    """What a killed session begins later than this after the kill is an incident of its own."""
    session_ttl_h: Annotated[float, Field(ge=1, le=8784)] = 24.0
    """A session that was idle for so long starts anew; a kill outlives it."""
    operations: Operations | None = None
    """Approvals, kills and resets; left out: the defaults of each."""
    opinion: OpinionRules | None = None
    """Second opinions of a model on findings in doubt; left out: none are requested."""

    published: Published | None = None
    """Added when it is published; not part of what is decided."""

    @property
    def operated(self) -> Operations:
        """Approvals, kills and resets, with what is left out."""
        return self.operations or _OPERATIONS

    def overrides_for(self, agent_id: str, session_id: str, time_ms: int) -> tuple[Override, ...]:
        """The overrides that hold for a session at a moment of its event time, in order."""
        return tuple(
            override
            for override in self.overrides
            if (override.exemption is None or time_ms < override.exemption.expires)
            and fnmatchcase(agent_id, override.agent)
            and fnmatchcase(session_id, override.session)
        )


PolicyDocument: TypeAlias = Policy | Mapping[str, Any] | str | os.PathLike[str]
"""A policy as people give it: the path of a document, its fields, or a Policy."""
