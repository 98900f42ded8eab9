"""Events of agents: one record for each action before it runs, and one after it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.ordered import OrderedName
from haltline.schemas.payloads import Checkpoint
from haltline.schemas.record import EpochMs, Id, JsonObject, Name, Record, Text

# Bounded, so that their sums in a session's state fit into 64 bits and are never infinite, as JSON readers require.
Count = Annotated[int, Field(ge=0, le=2**53)]
Amount = Annotated[float, Field(ge=0, le=1e15)]


class Kind(StrEnum):
    """The kind of an event."""

    SESSION_STARTED = "session.started"
    PROPOSED = "action.proposed"
    COMPLETED = "action.completed"
    MODEL_TURN = "model.turn"
    HEARTBEAT = "session.heartbeat"
    SESSION_ENDED = "session.ended"


class Effect(OrderedName):
    """The effect of an action, from harmless to harmful.

    A producer's hint may raise the effect that the policy gives to a tool, never lower it.
    """

    READ = "read"
    """Only reads."""
    POLL = "poll"
    """Reads the same thing repeatedly until it changes."""
    WRITE = "write"
    """Creates something, or changes what is easily recreated."""
    NETWORK = "network"
    """Accesses an external system."""
    EXEC = "exec"
    """Runs a program, whose effect its name does not tell."""
    MUTATE = "mutate"
    """Changes something that others rely on."""
    DESTRUCTIVE = "destructive"
    """Deletes or destroys something."""


class Outcome(StrEnum):
    """The outcome of an action."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """Never executed: haltline, a permission or a person refused it."""
    UNKNOWN = "unknown"


class Usage(Record):
    """The usage of one step: increments, never running totals."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cost_usd: Amount = 0.0
    memory_bytes: Count = 0
    """The memory in use at the end of the step: the only gauge among these fields."""
    cpu_ms: Amount = 0
    file_ops: Count = 0

    @property
    def tokens(self) -> int:
        """All tokens, including those read from a cache."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens


class Novelty(Record):
    """How much of a call's whole result is new in its session. Counts only, no text.

    A word is `[A-Za-z_]{3,}` or a run of the digits 0 to 9. The result of a failed call is its error text.
    """

    new_words: Count
    """Words that occurred in no earlier result of the session and in no argument of an ended call."""
    words: Count
    """Distinct words in the first 64 KiB (UTF-8) of the result."""
    results: Count
    """Results of the session that were counted before this one. Fewer than the session's earlier events with this
    field: the producer restarted, and known words may count as new again."""
    operands: Count | None = None
    """Operands of the call that no ended call of the session named before: words of its arguments that may name an
    object, such as a file, an id or a host. None: not counted, as in the next two fields."""
    given: Count | None = None
    """Those of them that occurred in an earlier result or a prompt: the agent takes up what it was given."""
    counted: Count | None = None
    """Those of the others that contain digits: the agent may have counted them up."""


class SentSecret(Record):
    """A secret that the session has read before, in the arguments of a call that sends data."""

    kind: Name
    """The kind that the agent's side detected: `github_token`, `password`, `credential` ..."""
    digest: Name
    """Digest of the secret under a key that only the agent's side has. Equal secrets have equal digests."""
    elsewhere: bool | None = None
    """The hosts of its provider are known, and the call sends it to none of them; None: no hosts are known, or it is
    sent to them as well."""


class Kept(Record):
    """What becomes of the local work that a call discards: the agent's side has looked at it."""

    snapshot: Name | None = None
    """The id of the snapshot that has it (`haltline undo`), with commas for one in each of several work trees; None: a
    commit has all of it, or the session wrote it."""
    targets: Annotated[list[Name], Field(max_length=64)]
    """The targets of the acts that lose nothing, as detectors name them: `worktree=/repo`, `path=/repo/a`."""
    lost: Annotated[list[Name], Field(max_length=64)] = Field(default_factory=list)
    """The targets of the acts that lose work of which nothing has a copy: no snapshot can, or may, hold it."""


class Task(Record):
    """The task of a session."""

    goal: Text = ""
    expected_paths: list[Name] = Field(default_factory=list, max_length=1000)
    limits: dict[Name, float] = Field(default_factory=dict, max_length=100)
    """Limits that the session sets for itself. They can tighten the policy, never loosen it."""
    prompts: Count | None = None
    """The number of the user's prompts so far that said something new; None: not counted. Such a prompt or another goal
    is a boundary: progress counts from zero."""


class ActionEvent(Record):
    """One action of one agent: proposed, completed, or one of the events around it."""

    v: int = 1
    event_id: Id
    """Unique; a redelivered event keeps it."""
    kind: Kind
    session_id: Id
    agent_id: Id = "unknown"
    parent_session_id: Id | None = None
    root_session_id: Id | None = None
    mission_id: Id | None = None
    host: Id | None = None
    """The machine that it runs on; distinguishes agents that kept the default id."""
    seq: Count | None = None
    """The session's own counter, for detecting loss, duplicates and reordering."""
    time: EpochMs
    call_id: Id | None = None
    """Links a proposed call with its result."""

    action: Name = ""
    """The name of the tool."""
    args: JsonObject | None = None
    """The arguments, possibly truncated; `args_digest` is of all of them."""
    args_digest: Name | None = None
    unread_from: Count | None = None
    """Texts and lists in `args` were truncated after this many characters or items, so detectors do not see the
    rest; None: not truncated, or unknown."""
    targets: list[Name] = Field(default_factory=list, max_length=1000)
    """What it acts on, such as `asset_id=fact_sales`, `path=/etc/passwd`, `host=example.org`."""
    effect: Effect | None = None
    loop_key: Name | None = None
    """The identity of this call for repetition, if its tool declares one: calls of a tool with equal keys are the
    same."""

    outcome: Outcome | None = None
    error: str | None = None
    duration_ms: Amount | None = None
    output_digest: Name | None = None
    output_bytes: Count | None = None
    output_head: str | None = None
    output_novelty: Novelty | None = None
    """For an ended action; None: unknown."""
    output_repeats: Count | None = None
    """For a model turn: how often its whole text repeats one passage in a row; None: unknown."""
    secrets_sent: Annotated[list[SentSecret], Field(max_length=64)] | None = None
    """For a proposed call: secrets of the session that it sends to the wrong place. None: there are none, or the
    producer does not detect them."""

    kept: Kept | None = None
    """For a proposed call: what it discards without a loss. None: nothing, or the producer did not look."""

    usage: Usage | None = None
    """For a model turn, None or usage without tokens and costs means that its usage is unknown."""
    task: Task | None = None
    checkpoint: Checkpoint | None = None
    """A state that the agent's side saved and can restore; on any kind of event."""
    dropped: Count | None = None
    """How many of the session's records the agent's side dropped since the last report."""
    await_verdict: bool = False
    """The agent's side waits for a verdict on this event."""

    @property
    def is_usage_unknown(self) -> bool:
        """Return whether it is a model turn of unknown usage, which sums of usage lack."""
        if self.kind is not Kind.MODEL_TURN or self.outcome is Outcome.REFUSED:
            return False
        used = self.usage
        return used is None or not (used.tokens or used.cost_usd)
