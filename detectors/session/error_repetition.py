"""The session gets the same error again and again.

Fires: `repetitive_errors` on every error that raises the count of one normalised error to `medium`, `high` or
    `critical`, among the last `window` errors, and within `window_s` or `last_actions`. A repetition counts in full if
    nothing succeeded since the last time, and half if something did. After a change the count restarts, but
    it is at least half of all repetitions: an agent that edits and retries is working, but not without limit. One
    missing program after another is not the same error, since finding an installed one takes some guesses. Two or three
    errors that alternate count half each together. Identical calls with the same error count together over
    `same_call_actions`, such as a test that fails in the same way after each edit. It is `service_down` if the service
    that was called is at fault: overloaded, rate-limited or not reachable.
    `nothing_works` at the numbers in `in_a_row` of steps in a row that failed or were refused, whatever the calls and
    the errors were. `same_call_fails` at the numbers in `same_failing` of them in a row that are the same call,
    with errors that are worded differently: with nothing changed in between, the next try fails as well.
    `unread_turns` at the numbers in `unread` of model turns in a row that could not be parsed, so that no tool was
    called: the harness reports it to the model, and most models recover after a few.
Quiet: errors of a call that has succeeded since; a test run with fewer failures than ever before; an error that moved
    after a change: in another file, or with other facts printed; failures without information, such as a search without
    results; errors of calls that wait for something, for the first `poll_wait_s` since they last changed; waiting for a
    service with increasing pauses (see `infrastructure_outage`); calls of one model turn that fail alike, which are one
    failure, or that were cancelled because another one failed; the same call a minute or more later; unparsable turns
    with others between them.
Misses: errors that are worded differently each time, with successes between them; loops in which every call succeeds;
    errors of different calls that are more than `last_actions` actions apart.
"""

from collections import Counter
from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.features.error_normalization import Normalization, failing
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Graded, settings, worst_of
from haltline.detectors.framework.severity_counts import ManyCounts
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, TIME_MS, Entry, entry, evidence, is_near, seconds
from haltline.schemas import tools
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding
from haltline.schemas.stored import Stored

_KEY, _SUBJECT, _QUARTERS, _QUARTERS_OF_ANY, _FAILING, _DETAIL = range(4, 10)
"""Positions in an entry: the normalised error, the subject of the call, the weight of the repetition, its weight after
any other error (both in quarters), the number of failing tests, and a digest of all that was reported. Entries of
earlier releases lack the last."""

_FULL, _AFTER_SUCCESS, _AFTER_CHANGE, _MOVED = 4, 2, 0, -1
"""The weights of a repetition, in quarters; `_MOVED`: an error of this kind, but another one than before a change."""
_NO_PROGRAM = "command not found"
_MAX_IN_TURN = 3
"""More kinds of errors than this do not count as alternating."""
_MAX_POLLS = 16
_INTERRUPTED = "interrupted"
"""Start of the error that the agent's side reports for a call cancelled before it started, which is not a refusal."""
_MAX_UNREAD = 16
_MAX_ROW = 16
_CALL, _ERROR = 4, 5
"""Positions in an entry of the steps in a row: the fingerprint of the call that failed, and its normalised error.
Entries of earlier releases lack them."""
_SPACING_MS = 60_000
"""A call that is tried again so much later waits for something."""
_Count = Annotated[int, Field(ge=2, le=1000), Stricter.LOWER]


class ErrorRepetitionState(Stored):
    """The last errors, and what happened between them."""

    errors: list[Entry] = field(default_factory=list)
    succeeded: int = 0
    """Index of the last action that succeeded."""
    changed: int = 0
    """Index of the first action since the last error that changed something, or of an earlier one."""
    polls: dict[str, int] = field(default_factory=dict)
    """By subject of the wait: event time of its first failure, epoch milliseconds."""
    unread: list[Entry] = field(default_factory=list)
    """The last turns in a row that could not be parsed."""
    unread_count: int = 0
    row: list[Entry] = field(default_factory=list)
    """The last steps in a row that failed."""
    row_count: int = 0


@settings
class ErrorRepetition(Graded[ErrorRepetitionState]):
    """One normalised error at least `medium` times among the last `window` errors."""

    id: ClassVar[str] = "error_repetition"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.RESULT | Trait.REFUSED
    wakes_at: ClassVar[Trait] = Trait.FAILURE | Trait.REFUSED
    recalls: ClassVar[bool] = True

    medium: _Count = 3
    high: _Count = 4
    critical: _Count = 6
    window: Annotated[int, Field(ge=2, le=1000), Stricter.HIGHER] = 12
    """The last errors, of any kind, that are compared."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 60.0
    """Seconds. Errors within this time count together."""
    last_actions: Annotated[int, Field(ge=2, le=10_000), Stricter.HIGHER] = 20
    """Actions. Errors within this many of the session's last actions count together."""
    same_call_actions: Annotated[int, Field(ge=2, le=10_000), Stricter.HIGHER] = 60
    """Actions. Errors of the same call within this many of the session's last actions count together."""
    unread: ManyCounts = (3, 6, 10)
    """Thresholds of medium, high and critical findings: unparsable turns in a row."""
    in_a_row: ManyCounts = (8, 9, 10)
    """Thresholds of medium, high and critical findings: steps in a row that failed or were refused."""
    same_failing: ManyCounts = (3, 4, 4)
    """Thresholds of medium, high and critical findings: failures of the same call in a row, whatever the errors."""
    poll_wait_s: Annotated[float, Field(ge=0, le=86_400), Stricter.LOWER] = 600.0
    """Seconds that a call that waits for something may fail."""
    normalization: Annotated[Normalization, Stricter.NEITHER] = Normalization.MEDIUM
    """How much of an error is masked before it is compared."""

    def observe(self, state: ErrorRepetitionState, act: Observation) -> Finding | None:
        """Count an error or a refusal, or record what happened between errors."""
        if act.refused:
            interrupted = (act.event.error or "").startswith(_INTERRUPTED)
            return None if interrupted else self._in_a_row(state, act)
        if act.failed and act.unread:
            return self._unread(state, act)
        if state.unread_count:
            state.unread, state.unread_count = [], 0
        key = act.error_key(self.normalization) if act.failed else ""
        if not key:
            if not act.failed:
                self._succeeded(state, act)
            return None
        if key.endswith(_NO_PROGRAM):
            key = f"{_program(act.subject)}: {_NO_PROGRAM}"
        if act.backs_off or (act.waits and self._may_wait(state, act)):
            return None
        moved = self._moved(state, act, key)
        in_a_row = self._in_a_row(state, act, key, moved=moved)
        again = self._again(state, act, key, moved=moved)
        return again if in_a_row is None or (again and again.severity >= in_a_row.severity) else in_a_row

    def _again(self, state: ErrorRepetitionState, act: Observation, key: str, *, moved: bool) -> Finding | None:
        """Count an error."""
        if any(e[_KEY] == key and int(e[INDEX]) >= act.step for e in state.errors):
            return None  # calls of one model turn that fail alike are one failure
        changes = act.changed  # an edit and a retry in one command
        subject, failed = act.subject, _failing(act)
        if failed >= 0 and all(failed < int(e[_FAILING]) for e in state.errors if e[_KEY] == key):
            state.errors = [e for e in state.errors if e[_KEY] != key]  # fewer tests fail
        near = self._near(state.errors, act)
        same = self._same(state.errors, act, key, subject)
        quarters, of_any = _weight(state, same, changes=changes), _weight(state, near, changes=changes)
        if moved:
            quarters = _MOVED
        if changes:
            state.changed = max(state.changed, act.index)
        state.errors.append(entry(act, key, subject, quarters, of_any, failed, act.error_detail))
        del state.errors[: -self.window]
        near = self._near(state.errors, act)
        same = _since_moved(self._same(state.errors, act, key, subject))
        count, in_turn = _count(same), _in_turn(near)
        if _run(in_turn, _QUARTERS_OF_ANY) / 2 > count:
            count, same = _run(in_turn, _QUARTERS_OF_ANY) / 2, in_turn
        return self._found(act, same, count) if count >= self.medium else None

    def near(self, state: ErrorRepetitionState) -> float:
        """The count of the last error, relative to the first that is a finding."""
        if not state.errors:
            return 0.0
        last = state.errors[-1]
        time_ms, index = int(last[TIME_MS]), int(last[INDEX])
        near = _since_moved([e for e in state.errors if e[_KEY] == last[_KEY] and is_near(e, time_ms, index, self)])
        count = max(_count(near) / self.medium, state.unread_count / self.unread[0], state.row_count / self.in_a_row[0])
        return min(1.0, count)

    def _near(self, errors: list[Entry], act: Observation) -> list[Entry]:
        return [e for e in errors if is_near(e, act.time_ms, act.index, self)]

    def _same(self, errors: list[Entry], act: Observation, key: str, subject: str) -> list[Entry]:
        """Recent entries with this error, and older ones of the same call within its larger window."""
        time_ms, index = act.time_ms, act.index
        oldest, equal = index - self.same_call_actions, (e for e in errors if e[_KEY] == key)
        return [e for e in equal if is_near(e, time_ms, index, self) or _is_of(e, subject, oldest)]

    def _succeeded(self, state: ErrorRepetitionState, act: Observation) -> None:
        errors, index = state.errors, act.index
        if not errors and not state.polls and not state.row:
            return
        if tools.says(act.action):
            return  # a thought, a plan or a report is no success, and changes nothing
        if act.runs and act.event.output_head and failing(act.event.output_head) > 0:
            return  # the tests failed, though the last program of the command line did not
        state.row, state.row_count = [], 0
        state.succeeded = max(state.succeeded, index)
        if (not errors or state.changed <= int(errors[-1][INDEX])) and act.changed:
            state.changed = max(state.changed, index)
        if errors and index - int(errors[-1][INDEX]) >= max(self.last_actions, self.same_call_actions):
            errors.clear()  # too old to count again
        for error in errors:
            subject = str(error[_SUBJECT])
            if _may_be_of(subject, act) and subject == act.subject:
                state.errors = [e for e in errors if e[_SUBJECT] != act.subject]
                break
        if state.polls:
            state.polls.pop(act.subject, None)

    def _unread(self, state: ErrorRepetitionState, act: Observation) -> Finding | None:
        """Count a turn that could not be parsed."""
        state.unread.append(entry(act))
        del state.unread[:-_MAX_UNREAD]
        state.unread_count += 1
        turns = state.unread_count
        if turns < self.unread[0]:
            return None
        reason = f"{turns} turns in a row could not be read, so that nothing was done"
        return self.counted("unread_turns", turns, self.unread, reason, evidence(act, state.unread), turns=turns)

    def _in_a_row(
        self, state: ErrorRepetitionState, act: Observation, key: str = "", *, moved: bool = False
    ) -> Finding | None:
        """Count a step that failed, whatever it was."""
        if moved:
            state.row, state.row_count = [], 0
        if state.row and act.step <= int(state.row[-1][INDEX]):
            return None
        state.row = [*state.row[1 - _MAX_ROW :], entry(act, *((act.fingerprint, key) if key else ()))]
        state.row_count += 1
        steps = state.row_count
        same_call = self._same_call(state, act) if key else None
        if steps < self.in_a_row[0]:
            return same_call
        ended = "were refused" if act.refused else "failed"
        reason = f"{steps} steps in a row failed or were refused; the last {ended}: {act.subject:.120}"
        any_call = self.counted("nothing_works", steps, self.in_a_row, reason, evidence(act, state.row), steps=steps)
        return worst_of((any_call, same_call))

    def _same_call(self, state: ErrorRepetitionState, act: Observation) -> Finding | None:
        """Count the last failures in a row that are of this call, if their errors differ."""
        same: list[Entry] = []
        for one in reversed(state.row):
            if one[_CALL:_ERROR] != [act.fingerprint] or (
                same and int(same[-1][TIME_MS]) - int(one[TIME_MS]) >= _SPACING_MS
            ):
                break
            same.append(one)
        tries = len(same)
        if tries < self.same_failing[0] or len({one[_ERROR] for one in same}) == 1:
            return None  # too few, or the same error as well
        reason = f"{tries} times in a row the same call failed in {seconds(same[::-1])}s: {act.subject:.120}"
        return self.counted("same_call_fails", tries, self.same_failing, reason, evidence(act, same[::-1]), tries=tries)

    @staticmethod
    def _moved(state: ErrorRepetitionState, act: Observation, key: str) -> bool:
        """Return whether an error is another one of its kind than before, so that what was changed had an effect."""
        before = [e for e in state.errors if e[_KEY] == key]
        if not before:
            return False
        failed = _failing(act)
        if failed >= 0 and all(failed < int(e[_FAILING]) for e in before):
            return True  # fewer tests fail
        if not act.changed and state.changed <= int(before[-1][INDEX]):
            return False
        return all(len(e) > _DETAIL and e[_DETAIL] != act.error_detail for e in before)

    def _may_wait(self, state: ErrorRepetitionState, act: Observation) -> bool:
        """Return whether the call has waited for less than `poll_wait_s`, or since its result last changed."""
        if act.again is not None and not act.again.stale:
            state.polls.pop(act.subject, None)
        first_ms = state.polls.setdefault(act.subject, act.time_ms)
        if len(state.polls) > _MAX_POLLS:
            del state.polls[next(iter(state.polls))]
        return act.time_ms - first_ms < self.poll_wait_s * 1000

    def _found(self, act: Observation, same: list[Entry], count: float) -> Finding | None:
        keys = list(dict.fromkeys(str(e[_KEY]) for e in same))
        summary = f"{len(same)} times the error {keys[0]!r}"
        if len(keys) > 1:
            summary = f"{len(same)} errors, {len(keys)} different ones: {', '.join(map(repr, keys))},"
        weighed = "" if count == len(same) else f", counted as {count:g} because of other work in between"
        down = act.infrastructure
        return self.counted(
            "service_down" if down else "repetitive_errors",
            count,
            self.counts,
            f"{'a service is down or refuses calls: ' if down else ''}{summary} in {seconds(same)}s{weighed}",
            evidence(act, same),
            also=self.thresholds("window", "window_s", "last_actions"),
            repetition_count=len(same),
            counted=count,
            repeated_error=str(same[-1][_KEY]),
        )


def _failing(act: Observation) -> int:
    """The number of failed tests; -1 if the error does not report it."""
    failed = failing(act.event.error or "")
    return failing(act.event.output_head) if failed < 0 and act.event.output_head else failed


def _is_of(error: Entry, subject: str, oldest: int) -> bool:
    """Return whether the error is of this call, and later than the action `oldest`."""
    return error[_SUBJECT] == subject and int(error[INDEX]) > oldest


def _may_be_of(subject: str, act: Observation) -> bool:
    """Return whether the act's subject may equal this one: a cheap check of its tool and first word."""
    tool = act.action
    return subject.startswith(tool) and subject[len(tool) + 1 :].partition(" ")[0] in act.head


def _weight(state: ErrorRepetitionState, before: list[Entry], *, changes: bool) -> int:
    """The weight of an error after earlier ones, from what was done since the last of them."""
    if not before:
        return _FULL
    last = int(before[-1][INDEX])
    if changes or state.changed > last:
        return _AFTER_CHANGE
    return _AFTER_SUCCESS if state.succeeded > last else _FULL


def _program(subject: str) -> str:
    """The tool and the program in the subject of a call."""
    return " ".join(subject.split(" ", 2)[:2])


def _run(errors: list[Entry], weight: int) -> float:
    """The weighted number of errors in a row; a change starts a new row."""
    quarters = 0
    for error in errors:
        more = int(error[weight])
        quarters = quarters + more if quarters and more > _AFTER_CHANGE else _FULL
    return quarters / _FULL


def _count(same: list[Entry]) -> float:
    """The weighted number in a row; at least half of all, since edits must not continue without limit either."""
    return max(_run(same, _QUARTERS), (len(same) + 1) / 2) if same else 0.0


def _since_moved(same: list[Entry]) -> list[Entry]:
    """The last errors since one that was another one than before."""
    return same[max((place for place, e in enumerate(same) if e[_QUARTERS] == _MOVED), default=0) :]


def _in_turn(near: list[Entry]) -> list[Entry]:
    """The last errors since a change, if they are two or three kinds in turn, each more than once; else empty."""
    start = max((i for i, e in enumerate(near) if e[_QUARTERS_OF_ANY] == _AFTER_CHANGE), default=0)
    row = near[start:]
    kinds = Counter(str(e[_KEY]) for e in row)
    return row if 1 < len(kinds) <= _MAX_IN_TURN and min(kinds.values()) > 1 else []
