"""The settings of a guard."""

import os
import uuid
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import ConfigDict, Field, SkipValidation, ValidationError
from pydantic.dataclasses import dataclass

from haltline.interventions.agent.redaction.marks import Keys
from haltline.interventions.agent.rules.settings import ClientRules
from haltline.schemas.events import Effect, Task
from haltline.schemas.policy import PolicyDocument
from haltline.schemas.problems import problem_of
from haltline.schemas.record import Id

CallMode = Literal["async", "blocking", "local"]
"""How calls wait for verdicts, with the guarantees of each mode.

`async`: a call that may destroy something (`ask_from`) waits for its verdict as in `blocking`, unless its own tool was
given this mode by name. Every other call is published and continues; a decision on it applies to the calls after the
decision has arrived. A fast loop makes as many calls as fit into that time. `blocking`: each call waits for its
verdict, up to `budget_s`. Without one, `fail_closed_from` decides which are refused; all others are made. `local`: the
worker's own core decides in this process before the call. It knows this process only, and no other sessions of its
agent.
"""

Seconds = Annotated[float, Field(ge=0, le=3600)]
Positive = Annotated[float, Field(gt=0, le=86_400)]

_PREFIX = "HALTLINE_"
_CLIENT_CONFIG = "HALTLINE_CLIENT_CONFIG"
_MAY_BE_NONE = ("fail_closed_from", "ask_from")


DEFAULT_AGENT = "unknown"
"""The default id of an agent."""


class GuardOptions(TypedDict, total=False):
    """The keyword arguments of a Guard: the fields of GuardSettings."""

    session_id: str
    agent_id: str
    bootstrap: str | None
    topic_prefix: str
    mode: CallMode
    parent_session_id: str | None
    root_session_id: str | None
    ancestors: tuple[str, ...]
    mission_id: str | None
    task: Task | None
    budget_s: float
    first_budget_s: float
    start_budget_s: float
    close_budget_s: float
    approval_wait_s: float
    max_decision_age_s: float
    fail_closed_from: Effect | None
    ask_from: Effect | None
    rules: ClientRules | None
    policy: PolicyDocument | None
    throttle_s: float
    max_pause_s: float | None
    rollback_budget_s: float
    snapshots: bool
    max_args_bytes: int
    max_run_bytes: int
    max_output_chars: int
    digest_key: str
    redact_pii: bool
    spool_dir: str | None
    spool_max_mb: int
    verify_key: str | None
    fetch_wait_ms: int | None
    kafka: Mapping[str, str | int | float | bool]


_FROM_ENV = {
    name: _PREFIX + name.upper()
    for name in GuardOptions.__annotations__
    if name not in ("ancestors", "task", "rules", "kafka")
} | {
    "topic_prefix": "HALTLINE_PREFIX",  # the command line's name
    "policy": "HALTLINE_AGENT_POLICY",  # HALTLINE_POLICY is for workers
}


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class GuardSettings:
    """Settings of a guard: the agent's identity, Kafka's address, and the fail policy.

    Raises ValueError (pydantic's) for invalid values.
    """

    session_id: Id = field(default_factory=lambda: uuid.uuid4().hex)
    """One run of one agent. A kill is in force for it until an operator resets it, also across processes."""
    agent_id: Id = DEFAULT_AGENT
    """Set it: counts across sessions are by agent. The default causes a warning at the start, and destruction is
    counted by host.
    """
    bootstrap: str | None = None
    """Kafka's address, "host:port", several separated by commas. None: only with mode `local`."""
    topic_prefix: str = "haltline."
    mode: CallMode = "async"

    parent_session_id: Id | None = None
    root_session_id: Id | None = None
    ancestors: tuple[Id, ...] = ()
    """More sessions above this one, besides parent and root: a kill of any of them stops this one."""
    mission_id: Id | None = None
    task: Task | None = None

    budget_s: Positive = 1.0
    """How long a call waits for its verdict."""
    first_budget_s: Seconds = 5.0
    """How long to wait, at most, for the first verdict of a connection, from the first request: the worker may only now
    be assigned the session's partition. At least `budget_s`.
    """
    start_budget_s: Seconds = 5.0
    """How long the first calls wait, from the guard's start, until kills are known."""
    close_budget_s: Seconds = 5.0
    """How long `close` waits until the last events have arrived."""
    approval_wait_s: Seconds = 900.0
    """How long a call waits for a person's approval, at most until its request expires; 0: it is refused at once."""
    max_decision_age_s: Positive = 30.0
    """A decision about an event older than this is ignored, unless it is a kill."""
    fail_closed_from: Effect | None = Effect.DESTRUCTIVE
    """Without a verdict, calls of this effect or a worse one are refused, others are made; None: all are made."""
    ask_from: Effect | None = Effect.DESTRUCTIVE
    """In mode `async`, calls of this effect or a worse one wait for their verdict, and so do those whose arguments
    contain a word that may destroy something (`rm`, `DROP` ...), unless their name shows that they are read-only; None:
    no call waits. In the environment None is `none`.
    """

    rules: ClientRules | None = None
    """The rules of the agent's author: budgets, rates, lists, arguments, evidence, loops."""
    policy: SkipValidation[PolicyDocument | None] = None
    """The policy of mode `local`: the path of a policy document, a mapping of its fields, or a Policy, as
    `haltline.load_policy` takes it. None: all defaults. In other modes the workers use their own.
    """
    throttle_s: Positive = 300.0
    """How long the limits of a THROTTLE are in force, unless it has its own time."""
    max_pause_s: Annotated[float, Field(ge=0, le=600)] | None = None
    """The longest delay of a poll that a THROTTLE slows; 0: none. None: 60 seconds, and none in mode `local`, where an
    agent is often tried without real time.
    """
    rollback_budget_s: Seconds = 60.0
    """How long a call waits for a rollback."""
    snapshots: bool = True
    """Before a call that discards uncommitted work, keep it in a snapshot (`haltline undo`), and do not count the call
    as a loss. False where tools work on other files than those that this process sees, as in a container.
    """

    max_args_bytes: Annotated[int, Field(ge=0, le=256 * 1024)] = 8192
    """Longer arguments of calls that only read or write are truncated before they are published; the digest is of the
    whole.
    """
    max_run_bytes: Annotated[int, Field(ge=8192, le=512 * 1024)] = 256 * 1024
    """How much of the arguments of every other call is published, which decisions are based on. For longer arguments
    the record states where the unread part starts, and the rule `unread_execution` refuses the call.
    """
    max_output_chars: Annotated[int, Field(ge=0, le=65_536)] = 512
    """How much of the beginning of an output is published; 0: nothing."""
    digest_key: str = ""
    """A key that makes digests useless without it; must be the same for all agents whose calls are compared."""

    redact_pii: bool = False
    """Also remove addresses, cards, social security and phone numbers, and texts that look like keys. Requires a
    `digest_key`: without one such a number is found by trying.
    """
    spool_dir: str | None = None
    """A folder in which records wait on disk while the broker is down, also for the next process. None: they wait in
    memory, for two minutes and as far as there is room.
    """
    spool_max_mb: Annotated[int, Field(ge=1, le=100_000)] = 64
    """The maximum that waits there, for each process."""

    verify_key: str | None = None
    """A file with the worker's public key, several separated as in PATH: records without a seal of such a key are
    ignored. Requires the extra `sealed`. None: only the broker's ACLs protect the worker's topics.
    """
    fetch_wait_ms: Annotated[int, Field(ge=1, le=60_000)] | None = None
    """How long the broker may hold a fetch without new records. None: 500, or 10 on an embedded broker."""
    kafka: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """More librdkafka settings for producer and consumer, such as `security.protocol`."""

    def __post_init__(self) -> None:
        if self.bootstrap is None and self.mode != "local":
            raise ValueError(
                f"bootstrap: expected Kafka's address (host:port) for mode {self.mode!r}, got none; "
                "only mode 'local' works without. GuardSettings.from_env() and the commands read "
                f"{_PREFIX}BOOTSTRAP and {_PREFIX}MODE"
            )

        if self.redact_pii and not self.digest_key:
            raise ValueError(
                "redact_pii: expected a digest_key as well, got none: digests of short numbers can be guessed"
            )

    @cached_property
    def keys(self) -> Keys:
        """The keys of digests."""
        key = self.digest_key.encode()
        return Keys(key, key if self.redact_pii else None)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **changes: Any) -> "GuardSettings":
        """Return the settings of `HALTLINE_BOOTSTRAP`, `HALTLINE_SESSION_ID`, ...: one variable for each simple field.

        `HALTLINE_PREFIX` is `topic_prefix`, and `HALTLINE_CLIENT_CONFIG` names a file of librdkafka settings
        (`security.protocol=...`), one `name=value` per line, for `kafka`; `HALTLINE_AGENT_RULES` files of `rules`.
        `changes` override variables. Raises ValueError for an invalid value, and OSError if the file cannot be read.
        """
        variables = os.environ if environ is None else environ
        options: dict[str, Any] = {name: variables[env] for name, env in _FROM_ENV.items() if env in variables}
        options |= {name: None for name in _MAY_BE_NONE if options.get(name) == "none"}
        if _CLIENT_CONFIG in variables:
            options["kafka"] = read_named_values(Path(variables[_CLIENT_CONFIG]))
        rules = ClientRules.from_env(variables)
        if rules is not None:
            options["rules"] = rules
        try:
            return cls(**(options | changes))
        except ValidationError as error:
            raise ValueError(str(problem_of(error)).removeprefix("the record: ")) from error

    def changed(self, **changes: Unpack["GuardOptions"]) -> "GuardSettings":
        """Return the settings with these changes."""
        return GuardSettings(**({name: getattr(self, name) for name in GuardOptions.__annotations__} | dict(changes)))

    @property
    def longest_pause_s(self) -> float:
        """The longest delay of a poll that is slowed, in seconds."""
        if self.max_pause_s is not None:
            return self.max_pause_s
        return 0.0 if self.bootstrap is None else 60.0

    @property
    def lineage(self) -> tuple[str, ...]:
        """The session and all above it."""
        above = (self.parent_session_id, self.root_session_id, *self.ancestors)
        return tuple(dict.fromkeys(s for s in (self.session_id, *above) if s is not None))


def read_named_values(file: Path, separator: str = "=") -> dict[str, str]:
    """Read a file's settings or headers, one a line. Raises ValueError for a line without a name, and OSError."""
    named: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, file.read_text(encoding="utf-8").splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        name, found, value = line.partition(separator)
        if not found or not name.strip():
            raise ValueError(f"{file}:{number}: expected `name{separator}value`, got a line without")
        named[name.strip()] = value.strip()
    return named
