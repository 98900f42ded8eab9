"""What agents say: one record for each action they are about to do, or have done."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from haltline.schemas.ordered import OrderedName
from haltline.schemas.payloads import Checkpoint
from haltline.schemas.record import EpochMs, Id, JsonObject, Name, Record, Text

# Bounded, so that sums of them in a session's state stay within what JSON readers take: 64 bits, never infinite.
Count = Annotated[int, Field(ge=0, le=2**53)]
Amount = Annotated[float, Field(ge=0, le=1e15)]


class Kind(StrEnum):
    """What an event reports."""

    SESSION_STARTED = "session.started"
    PROPOSED = "action.proposed"
    COMPLETED = "action.completed"
    MODEL_TURN = "model.turn"
    HEARTBEAT = "session.heartbeat"
    SESSION_ENDED = "session.ended"


class Effect(OrderedName):
    """What an action does to the world, from harmless to harmful.

    A producer's hint may raise the effect that the policy gives to a tool, never lower it.
    """

    READ = "read"
    """Looks only."""
    POLL = "poll"
    """Looks at the same thing again, and expects it to change."""
    WRITE = "write"
    """Makes something new, or changes what is easily made again."""
    NETWORK = "network"
    """Reaches something outside."""
    EXEC = "exec"
    """Runs a program; what it does is not known from its name."""
    MUTATE = "mutate"
    """Changes something that others rely on."""
    DESTRUCTIVE = "destructive"
    """Takes something away."""


class Outcome(StrEnum):
    """How an action ended."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """Never executed: haltline, a permission or a person refused it."""
    UNKNOWN = "unknown"


class Usage(Record):
    """What one step used. Increments, never running totals."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_tokens: Count = 0
    cost_usd: Amount = 0.0
    memory_bytes: Count = 0
    """The amount in use at the end of the step: the one value that is a level and not an increment."""
    cpu_ms: Amount = 0
    file_ops: Count = 0

    @property
    def tokens(self) -> int:
        """All of them, those read from a cache too."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens


class Novelty(Record):
    """How much of the whole result of a call is new in its session. Counts only, no text.

    A word is `[A-Za-z_]{3,}` or a run of the digits 0 to 9. The result of a call that failed is the text of its error.
    """

    new_words: Count
    """Those of `words` that stood in no earlier result of the session, and in no argument of a call that has ended."""
    words: Count
    """Distinct words of the result, of its first 64 KiB as UTF-8."""
    results: Count
    """Results of the session that were counted before this one. Fewer than the session's earlier events with this
    field: the producer was restarted, and what was known before may count as new once more."""


class SentSecret(Record):
    """A secret that the session has read before, in the arguments of a call that sends them somewhere."""

    kind: Name
    """As the agent's side tells it: `github_token`, `password`, `credential` ..."""
    digest: Name
    """Of the secret, under a key that only the agent's side has: equal for equal secrets."""
    elsewhere: bool | None = None
    """Its provider's hosts are known, and the call goes to none of them; None: it has none, or the call goes to others
    as well."""


class Task(Record):
    """What a session was asked to do."""

    goal: Text = ""
    expected_paths: list[Name] = Field(default_factory=list, max_length=1000)
    limits: dict[Name, float] = Field(default_factory=dict, max_length=100)
    """Limits that the session declares for itself; they can tighten the policy, never loosen it."""
    prompts: Count | None = None
    """How many prompts its user has given; None: nobody counts. Another one is a boundary, as another goal is: progress
    counts anew."""


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
    """The machine that it runs on; tells agents apart that left their id at its default."""
    seq: Count | None = None
    """The session's own counter, to see loss, repeats and disorder."""
    time: EpochMs
    call_id: Id | None = None
    """Joins what was proposed with its result."""

    action: Name = ""
    """The name of the tool."""
    args: JsonObject | None = None
    """The arguments; may be cut, then `args_digest` is of the whole."""
    args_digest: Name | None = None
    unread_from: Count | None = None
    """Texts and lists in `args` were cut behind so many characters or items, and what follows was not seen by whoever
    decides; none: nothing was cut, or the producer does not say."""
    targets: list[Name] = Field(default_factory=list, max_length=1000)
    """What it acts on, such as `asset_id=fact_sales`, `path=/etc/passwd`, `host=example.org`."""
    effect: Effect | None = None
    loop_key: Name | None = None
    """What a repetition of this call is, where its tool declares it: calls of a tool with equal ones are the same."""

    outcome: Outcome | None = None
    error: str | None = None
    duration_ms: Amount | None = None
    output_digest: Name | None = None
    output_bytes: Count | None = None
    output_head: str | None = None
    output_novelty: Novelty | None = None
    """Of the end of an action; None: the producer does not say."""
    secrets_sent: Annotated[list[SentSecret], Field(max_length=64)] | None = None
    """Of a call that is about to be made: secrets of the session that it sends to where they do not belong. None: there
    are none, or the producer does not look for them."""

    usage: Usage | None = None
    """On a turn of the model, none, or one without tokens and costs, says that what it used is not known."""
    task: Task | None = None
    checkpoint: Checkpoint | None = None
    """The agent's side has kept a state to which it can go back; on any kind of event."""
    dropped: Count | None = None
    """So many of the session's records were dropped before this one, since that was last reported."""
    await_verdict: bool = False
    """The agent's side waits for a verdict on this event."""

    @property
    def is_usage_unknown(self) -> bool:
        """Whether it is a turn of the model that sums of what was used lack."""
        used = self.usage
        return self.kind is Kind.MODEL_TURN and (used is None or not (used.tokens or used.cost_usd))
