"""Steps, the common form of recordings: each becomes one event."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from haltline.interventions.agent.call import describe_output
from haltline.interventions.agent.calls.event_publisher import made
from haltline.interventions.agent.novelty import SeenBySession
from haltline.interventions.agent.producers.cleaning import cleaned_error, describe_arguments
from haltline.interventions.agent.prompts import Prompts
from haltline.interventions.agent.redaction.payload_encoding import Whole
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.events import ActionEvent, Kind, Outcome, Task, Usage
from haltline.schemas.record import trusting
from haltline.schemas.repeated_passage import repeated_passage
from haltline.streams.importing.values import count, inside

STEP_MS = 1000
"""Milliseconds between steps for which the recording has no time."""
MAX_COST = 1e15
"""US dollars; a larger amount is an error in the recording."""
_MAX_ID_CHARS = 256
Written = tuple[int, int]
"""Input tokens that were written to a provider's cache: for five minutes, and for an hour."""


class Turn(NamedTuple):
    """What one turn of a model used."""

    session_id: str
    """For a subagent: of the session that it is below of."""
    model: str
    usage: Usage
    written: Written
    time_ms: int


Pricing = Callable[[Turn], float | None]
"""The cost of a turn in US dollars: as recorded, or by the model's price; None: that is not known."""
_SETTINGS = GuardSettings(mode="local")
_used = trusting(Usage)  # the checks of a copy take as long as all else of a turn


@dataclass(kw_only=True, slots=True)
class Step:
    """A call, the result of one, a turn of the model, or a prompt of the user (`SESSION_STARTED`)."""

    kind: Kind
    call_id: str | None = None
    action: str = ""
    args: dict[str, Any] | None = None
    outcome: Outcome | None = None
    error: str | None = None
    output: Any = None
    usage: Usage | None = None
    model: str = ""
    """For a turn: the model's name, if it is recorded."""
    written: Written = (0, 0)
    duration_ms: float | None = None
    time_ms: int | None = None
    """Epoch milliseconds; None: not recorded."""
    below: str | None = None
    """For a subagent: its id; for a nested one, all ids from the outermost on, separated by slashes."""
    prompt: str = ""
    """For a prompt: its text, which is not stored."""


class Part(NamedTuple):
    """The recording of one session."""

    session_id: object
    """Its id; ignored if it is not a text."""
    steps: Iterable[Step]
    folder: object = None
    """The folder in which the agent worked, of a file with several sessions."""


class _Call(NamedTuple):
    action: str
    args: Whole | None
    described: dict[str, Any]
    """The fields of its events about the arguments."""


@dataclass
class Recording:
    """The steps of one session, in order."""

    session_id: str
    agent_id: str
    steps: Iterable[Step]
    goal: str = ""
    price: Pricing | None = None
    untimed: int = field(default=0, init=False)
    """The number of steps with a generated time; complete when all steps are read."""

    def events(self, start_ms: int) -> Iterator[ActionEvent]:
        """Yield the events, redacted, with stable ids; a step without a recorded time gets a generated one."""
        seqs: dict[str, int] = {}
        calls: dict[str, _Call] = {}
        seen = SeenBySession()
        now_ms, prompts = start_ms, Prompts()
        for step in self.steps:
            if step.kind is Kind.SESSION_STARTED and not prompts.take(step.prompt):
                continue
            if step.time_ms is None:
                self.untimed += 1
            now_ms = step.time_ms if step.time_ms is not None else now_ms + STEP_MS
            session_id, parent_id = self.session_id, None
            if step.below is not None:
                whole = f"{self.session_id}/{step.below}"
                session_id, parent_id = _shortened(whole), _shortened(whole.rpartition("/")[0])
            seq = seqs.get(session_id, 0)
            seqs[session_id] = seq + 1
            call_id = _shortened(step.call_id) if step.call_id else None
            # The end of a call says what was called.
            call = calls.get(call_id) if call_id is not None else None
            if call is None:
                args = None if step.args is None else Whole(step.args)
                call = _Call(step.action, args, describe_arguments(args, _SETTINGS))
                if call_id is not None:
                    calls[call_id] = call
            result = None if step.output is None else Whole(step.output)
            output = describe_output(result, _SETTINGS) if result is not None else {}
            if step.kind is Kind.MODEL_TURN and isinstance(step.output, str):
                output["output_repeats"] = repeated_passage(step.output)[1]
            if step.kind is Kind.COMPLETED and output | ({"error": step.error} if step.error else {}):
                output["output_novelty"] = seen.of(session_id).take(result, step.error, args=call.args)
            yield made(
                {
                    "event_id": blake2b(f"{session_id}\0{seq}".encode(), digest_size=12).hexdigest(),
                    "kind": step.kind,
                    "session_id": session_id,
                    "parent_session_id": parent_id,
                    "agent_id": self.agent_id,
                    "seq": seq,
                    "time": now_ms,
                    "call_id": call_id,
                    "action": call.action[:512],
                    "outcome": step.outcome,
                    "error": None if step.error is None else cleaned_error(step.error, _SETTINGS),
                    "duration_ms": step.duration_ms,
                    "usage": self._priced(step, now_ms),
                    "task": Task(prompts=prompts.count) if step.kind is Kind.SESSION_STARTED else None,
                    **call.described,
                    **output,
                }
            )

    def _priced(self, step: Step, now_ms: int) -> Usage | None:
        usage = step.usage
        if self.price is None or usage is None:
            return usage
        cost = self.price(Turn(self.session_id, step.model, usage, step.written, now_ms))
        return (
            usage if cost is None or cost == usage.cost_usd else _used({**vars(usage), "cost_usd": min(cost, MAX_COST)})
        )


def _shortened(name: str) -> str:
    """An identifier within the length limit of events; a longer one is truncated, and ends with its digest."""
    if len(name) <= _MAX_ID_CHARS:
        return name
    digest = blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"{name[: _MAX_ID_CHARS - len(digest) - 1]}-{digest}"


def prompted(text: object, time_ms: int | None) -> Step:
    """A prompt of the user: each except the first restarts the session if it says something new."""
    return Step(kind=Kind.SESSION_STARTED, prompt=text if isinstance(text, str) else "", time_ms=time_ms)


def turn(
    usage: Usage | None,
    model: object,
    output: object,
    time_ms: int | None,
    *,
    written: Written = (0, 0),
    below: str | None = None,
) -> Iterator[Step]:
    """A model turn with usage; nothing if its usage is not recorded."""
    if usage is not None:
        name, text = (value if isinstance(value, str) else "" for value in (model, output))
        yield Step(
            kind=Kind.MODEL_TURN,
            usage=usage,
            model=name,
            output=text or None,
            written=written,
            time_ms=time_ms,
            below=below,
        )


def proposed(call_id: object, name: object, args: object, time_ms: int | None, *, below: str | None = None) -> Step:
    """A proposed call; an id or arguments of another type are dropped."""
    return Step(
        kind=Kind.PROPOSED,
        call_id=call_id if isinstance(call_id, str) else None,
        action=str(name or "unknown"),
        args=args if isinstance(args, dict) else None,
        time_ms=time_ms,
        below=below,
    )


def ended(call_id: object, output: Any, time_ms: int | None, *, failed: bool | None, below: str | None = None) -> Step:
    """The end of a call; an id of another type is dropped. `failed`: None if not recorded."""
    return Step(
        kind=Kind.COMPLETED,
        call_id=call_id if isinstance(call_id, str) else None,
        outcome=Outcome.UNKNOWN if failed is None else Outcome.ERROR if failed else Outcome.OK,
        error=str(output)[:2000] if failed else None,
        output=output,
        time_ms=time_ms,
        below=below,
    )


class TokenNames(NamedTuple):
    """The names of a turn's counts in one format, with dots in the path of a nested one.

    Several names, separated by spaces, are added up.
    """

    whole: str
    """Input tokens, including cached ones."""
    out: str
    cached: str = ""
    cost: str = ""
    written: str = ""
    """Input tokens that were written to a cache."""


CHAT = TokenNames("prompt_tokens", "completion_tokens", "prompt_tokens_details.cached_tokens")
"""The names of OpenAI's chat completions."""


def turn_of(used: object, names: TokenNames, model: object, output: object, time_ms: int | None) -> Iterator[Step]:
    """A model turn with the counts in `used`, by the names of its format; nothing if there are none."""
    yield from turn(tokens(used, names), model, output, time_ms, written=(_total(used, names.written), 0))


def _total(used: object, paths: str) -> int:
    return sum(count(inside(used, *path.split("."))) for path in paths.split())


def tokens(used: object, names: TokenNames = CHAT) -> Usage | None:
    """The usage of one turn by the names of its format. None: no usage."""
    cost = inside(used, *names.cost.split("."))
    return usage_of(_total(used, names.whole), _total(used, names.out), cached=_total(used, names.cached), cost=cost)


def usage_of(whole: object, out: object, *, cached: object = None, cost: object = None) -> Usage | None:
    """The usage of one turn: input tokens including cached ones, output tokens, and the cost in US dollars.

    A value that is not a number counts as 0. None: no usage.
    """
    read = min(count(whole), count(cached))
    usage = Usage(
        input_tokens=count(whole) - read, output_tokens=count(out), cache_read_tokens=read, cost_usd=_amount(cost)
    )
    return usage if usage.tokens or usage.cost_usd else None


def _amount(value: object) -> float:
    try:
        amount = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return amount if 0 < amount <= MAX_COST else 0.0
