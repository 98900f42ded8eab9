"""Calls that take minutes and return nothing new: their time shows it earlier than their number.

Fires: `fruitless_waits` when `calls` calls of one tool and program, among the last `last_actions` actions, each timed
    out without output, or took at least `slow_s` and returned the same as another one of them, ignoring numbers.
    Successful calls count only if nothing was changed since the other one.
    `only_sleeps` when `sleeps` calls in a row did nothing but sleep, for `slept_s` or longer, whatever they print: the
    session waits for something that it never looks at, such as subagents that are done or dead.
Quiet: differing results, such as those of long builds and tests; changed numbers that count something, such as epochs,
    passed tests or a percentage; a result of which only the beginning is known, unless the call failed in the same way
    or the result's digest is the same; calls that wait for something (see `polling`), calls that ask a person; sleeps
    after a service had failed, such as by a rate limit.
Misses: calls without an id and without a reported duration; results that are worded differently each time.
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.rows import expression_of
from haltline.detectors.features.error_normalization import is_timeout
from haltline.detectors.features.fingerprint import clean_result, digest
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.severity_counts import ASCENDING, ManyCounts
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence, seconds
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Effect, Outcome
from haltline.schemas.findings import Finding
from haltline.schemas.stored import Stored

_SUBJECT, _ANSWER, _TOOK_S = range(4, 7)
"""Positions in an entry: the tool and program, the answer, and the duration in seconds."""

_MAX_ROWS = 20
_Count = Annotated[int, Field(ge=2, le=_MAX_ROWS), Stricter.LOWER]
_READ_CHARS = 240
_NOTHING = ""
"""The answer of a call that returned nothing."""
_TIMED_OUT = expression_of("a call timed out", re.IGNORECASE)
_LINE_OF_TIMEOUT = re.compile(rf"(?<![^\n])[^\n]*(?:{_TIMED_OUT.pattern})[^\n]*\n?", re.IGNORECASE)
_NUMBERS = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+(?:[.,:]\d+)*", re.IGNORECASE)
_COUNTS = expression_of("numbers count something", re.IGNORECASE)
_SAYS_NOTHING = expression_of("a wait shows nothing", re.IGNORECASE)
_ASKS = re.compile(r"ask|confirm|approv|human|user|input", re.IGNORECASE)


class FruitlessWaitsState(Stored):
    """Recent slow calls."""

    rows: list[Entry] = field(default_factory=list)
    changes: int = 0
    """Actions since the first of them that changed something."""
    sleeps: list[Entry] = field(default_factory=list)
    """Calls in a row that only slept."""
    slept_s: float = 0.0
    """Duration of all of them, in seconds."""


@settings
class FruitlessWaits(Detector[FruitlessWaitsState]):
    """Slow calls of one program that returned nothing new."""

    id: ClassVar[str] = "fruitless_waits"
    sees: ClassVar[Trait] = Trait.BEGUN | Trait.DONE
    wakes_at: ClassVar[Trait] = Trait.DONE

    calls: Annotated[tuple[_Count, _Count, _Count], ASCENDING] = (3, 4, 4)
    """Thresholds of medium, high and critical findings: calls."""
    slow_s: Annotated[float, Field(gt=0, le=86_400), Stricter.LOWER] = 60.0
    """The number of seconds that makes a call slow."""
    last_actions: Annotated[int, Field(ge=2, le=10_000), Stricter.HIGHER] = 20
    """Actions. Calls within this many of the session's last actions count together."""

    sleeps: ManyCounts = (6, 9, 12)
    """Thresholds of medium, high and critical findings: calls in a row that only sleep."""
    slept_s: Annotated[float, Field(ge=0, le=86_400), Stricter.LOWER] = 120.0
    """Seconds that they must have slept together."""

    def observe(self, state: FruitlessWaitsState, act: Observation) -> Finding | None:
        """Count a sleep, a change, or a slow call that returned nothing new."""
        if not (act.is_result or state.sleeps or state.rows):
            return None
        if act.only_sleeps:
            return self._slept(state, act) if act.is_result else None
        if act.is_attempt and state.sleeps and not tools.thinks(act.action) and tools.says(act.action) != "plans":
            state.sleeps, state.slept_s = [], 0.0
        if act.is_attempt and state.rows and act.tool.effect is not None and act.changes:
            state.changes += 1
        if not act.is_result:
            return None
        took_s = _took_s(act)
        if took_s < self.slow_s and not _was_ended(act):
            return None
        if act.waits or act.effect is Effect.POLL or _ASKS.search(act.action):
            return None
        subject = " ".join(act.subject.split()[:2])[:160]
        row = entry(act, subject, _answer(act, state.changes), round(took_s, 1))
        near = [r for r in state.rows if abs(act.index - int(r[INDEX])) < self.last_actions]
        state.rows = [*near, row][-_MAX_ROWS:]
        alike = [r for r in state.rows if r[_SUBJECT] == subject]
        answers = [r[_ANSWER] for r in alike]
        fruitless = [r for r in alike if r[_ANSWER] == _NOTHING or answers.count(r[_ANSWER]) > 1]
        calls = len(fruitless)
        if calls < self.calls[0] or row not in fruitless:
            return None
        took = sum(float(r[_TOOK_S]) for r in fruitless)
        what = f"{calls} calls that {f'took {took:.0f}s together' if took else 'timed out'}"
        return self.counted(
            "fruitless_waits",
            calls,
            self.calls,
            f"{what}, within {seconds(fruitless)}s, and returned nothing new: {act.subject:.160}",
            evidence(act, fruitless),
            also=self.thresholds("slow_s", "last_actions"),
            calls=calls,
            took_s=round(took, 1),
        )

    def _slept(self, state: FruitlessWaitsState, act: Observation) -> Finding | None:
        """Count a call that only slept."""
        if act.failed:
            return None
        first = state.sleeps[0] if state.sleeps else entry(act)
        if act.calls.outage.index and act.calls.outage.index == int(first[INDEX]) - 1:
            state.sleeps = [first]
            return None
        state.sleeps = [*state.sleeps, entry(act)][-_MAX_ROWS:]
        state.slept_s += _took_s(act)
        sleeps = len(state.sleeps)
        if state.slept_s < self.slept_s or sleeps < self.sleeps[0]:
            return None
        return self.counted(
            "only_sleeps",
            sleeps,
            self.sleeps,
            f"{sleeps} sleeps in a row, {state.slept_s:.0f}s together, without a look at anything: {act.text:.160}",
            evidence(act, state.sleeps),
            also=self.thresholds("slept_s"),
            sleeps=sleeps,
            slept_s=round(state.slept_s, 1),
        )

    def near(self, state: FruitlessWaitsState) -> float:
        """The similar slow calls, relative to the first count that is a finding."""
        if not state.rows:
            return 0.0
        newest = state.rows[-1]
        alike = sum(r[_SUBJECT] == newest[_SUBJECT] and r[_ANSWER] in {newest[_ANSWER], _NOTHING} for r in state.rows)
        return min(1.0, alike / self.calls[0])


def _was_ended(act: Observation) -> bool:
    """Return whether a timeout ended the call without output and with an unknown duration."""
    event = act.event
    if event.duration_ms is not None or (event.output_head or "").strip():
        return False
    return event.outcome is Outcome.TIMEOUT or (act.failed and is_timeout(event.error or ""))


def _took_s(act: Observation) -> float:
    """The duration of the call in seconds; 0 if unknown."""
    duration_ms = act.event.duration_ms
    if duration_ms is not None:
        return duration_ms / 1000
    if act.call is None or act.event.call_id is None:
        return 0.0  # matched by order: a lost or late result would make the next calls look slow
    return (act.time_ms - act.call.time_ms) / 1000


def _answer(act: Observation, changes: int) -> str:
    """A digest that is equal for equal results; empty if the call returned nothing."""
    event = act.event
    head, error = (event.output_head or "")[:_READ_CHARS], (event.error or "")[:_READ_CHARS]
    size = event.output_bytes if event.output_bytes is not None else len(head.encode())
    timed_out = event.outcome is Outcome.TIMEOUT or (act.failed and _TIMED_OUT.search(f"{error}\n{head}") is not None)
    if timed_out:
        head, error = _LINE_OF_TIMEOUT.sub("", head), _LINE_OF_TIMEOUT.sub("", error)
        if not head.strip() and not error.strip():
            return _NOTHING
    is_cut = size > len((event.output_head or "").encode())
    error = _masked(error) if act.failed else ""
    is_reported = act.failed and (timed_out or _SAYS_NOTHING.fullmatch(error) is None)
    if not act.failed and not head.strip() and size == 0:
        outcome = f"silent {act.head}"
    elif is_cut and not is_reported:
        outcome = f"digest {event.output_digest}" if event.output_digest else f"size {size} {head}"
    else:
        outcome = f"{_masked(head)} {size.bit_length() if is_cut else 0} {error}"
    since = 0 if act.failed else changes  # a repeated failure is fruitless even after a change
    return digest(f"{since} {outcome}".encode())


def _masked(text: str) -> str:
    """Mask all numbers; if they count something, mask only what varies by itself."""
    return clean_result(text) if _COUNTS.search(text) else _NUMBERS.sub("#", text)
