"""The session does again what others have seen it do: one more mail, ticket, order or server.

Fires: `same_act` by `same_acts` within `last_actions` of one act that others see, whatever is answered: a message, a
    ticket, an order, a subagent, a program in the background, a machine in the cloud. A new id in the answer is the
    next duplicate, not progress.
    `reworded_act` by `reworded` messages to the same recipient in the same thread, or with the same subject, in other
    words, if between each and the next the session only looked again at what it knew.
    `ordered_again` by `orders` clicks on one button that orders or pays, if nothing was done on the page between them
    that had not been done before the first. Critical only beyond the number that the task names.
    `started_again` by `launches` starts of machines or services elsewhere that differ in numbers only, such as the next
    name in a row, if other work was done between each and the next. Critical only beyond the number that the task
    names, and if it is known.
Quiet: acts that failed or were refused; a program in the background that is started again after a change; messages
    after something new was read; another order on the same site; machines that are started in one go, or after others
    were taken down.
Misses: the same in other words to another recipient; orders by an API under different arguments; the same resources
    under other words.
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.model import ActEffect
from haltline.detectors.commands.rows import words_of
from haltline.detectors.features.call_history import ONCE, STALE, WAIT
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.features.outward import (
    act_key,
    addressed_key,
    answers,
    inserts,
    is_of_page,
    is_outward,
    launches,
    numberless_key,
    spends_by_button,
)
from haltline.detectors.framework.base import Detector, settings, worst_of
from haltline.detectors.framework.severity_counts import ManyCounts
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import EVENT_ID, INDEX, Entry, entry, evidence, seconds
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

_KEY, _ALIKE, _RUN = range(4, 7)
"""Positions in an entry: a digest of the act, of what stays the same in other words or numbers, and of how many such
acts in a row it is the last."""

_MAX_ROWS = 32
_MAX_SEEN = 32
_WORK = 2
"""Calls between two starts that are more than a look at what the first one made."""
_SEVERAL = words_of("words that ask for several")
_WORD = re.compile(r"\w+")
_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12,
    "dozen": 12,
}  # fmt: skip
_ANY_NUMBER = 1_000_000
_GOAL_CHARS = 2000
_DIGITS = 6


class DuplicateActsState(Stored):
    """The last acts that others see."""

    acts: list[Entry] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """Digests of what was done on pages."""
    fresh: int = 0
    """Index of the last action on a page that had not been made before."""
    since: int = 0
    """Number of actions before the last task was given."""
    task_count: int = 0
    """How many of one kind the last task may ask for; 0: no task is known."""


@settings
class DuplicateActs(Detector[DuplicateActsState]):
    """The same act that others see, again."""

    id: ClassVar[str] = "duplicate_acts"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.SESSION_STARTED, Kind.PROPOSED, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.BEGUN | Trait.REFUSED | Trait.FAILURE | Trait.TASK
    wakes_at: ClassVar[Trait] = Trait.BEGUN | Trait.TASK
    recalls: ClassVar[bool] = True

    same_acts: ManyCounts = (3, 4, 5)
    """Thresholds of medium, high and critical findings: identical acts."""
    reworded: ManyCounts = (3, 4, 4)
    """The same: messages in other words, with nothing new between them."""
    orders: ManyCounts = (2, 3, 3)
    """The same: clicks that order or pay, with nothing new done between them."""
    launches: ManyCounts = (3, 4, 4)
    """The same: starts of machines or services that differ in numbers."""
    last_actions: Annotated[int, Field(ge=2, le=10_000), Stricter.HIGHER] = 20
    """Actions. Identical acts within this many of the session's last actions count together."""
    launched_within: Annotated[int, Field(ge=2, le=10_000), Stricter.HIGHER] = 60
    """Actions. Starts within this many of the session's last actions count together."""

    def concerns(self, act: Observation) -> bool:
        """Acts that others see, what is done on pages, and acts that were not made."""
        if act.is_attempt:
            return is_outward(act) or is_of_page(act) or _takes_down(act)
        return act.call is not None or act.event.task is not None

    def observe(self, state: DuplicateActsState, act: Observation) -> Finding | None:
        """Count an act, or remove one that was not made."""
        if act.event.task is not None and not act.is_attempt:
            state.since = act.calls.actions
            state.task_count = _count_in(act.event.task.goal[:_GOAL_CHARS])
            return None
        if act.call is not None and (act.refused or act.failed):
            state.acts = [one for one in state.acts if one[EVENT_ID] != act.call.event_id]
        if not act.is_attempt or act.refused:
            return None
        if _takes_down(act):
            state.since = act.index
        buys = spends_by_button(act)
        found = self._acted(state, act, buys=buys) if buys or is_outward(act) else None
        if is_of_page(act) and (key := act_key(act)) not in state.seen:
            state.seen = [*state.seen, key][-_MAX_SEEN:]
            if not buys:
                state.fresh = act.index
        return found

    def _acted(self, state: DuplicateActsState, act: Observation, *, buys: bool) -> Finding | None:
        oldest = act.index - max(self.last_actions, self.launched_within)
        known = [one for one in state.acts if int(one[INDEX]) > oldest]
        starts = launches(act)
        key = act_key(act)
        alike = numberless_key(act) if starts else key if buys else addressed_key(act)
        row = entry(act, key, alike, 1)
        state.acts = [*known, row][-_MAX_ROWS:]
        same = self._same(act, [one for one in state.acts if one[_KEY] == key])
        found = [_softened(same) if buys else same]  # one button orders whatever is in the cart
        rows = [one for one in known if alike and one[_ALIKE] == alike and int(one[INDEX]) > state.since]
        if not rows:
            return found[0]
        last, run = int(rows[-1][INDEX]), int(rows[-1][_RUN])
        if buys:
            rows = [one for one in rows if int(one[INDEX]) >= state.fresh]
            again = self._again(act, "ordered_again", [*rows, row], self.orders, "clicks that order the same")
            found.append(_softened(again) if len(rows) < state.task_count else again)
        elif starts:
            started = sum(int(one[INDEX]) > last for one in known)
            if act.index - last - 1 - started < _WORK:
                row[_RUN] = run  # of one go
            else:
                row[_RUN] = run + 1
                firsts = {int(one[_RUN]): one for one in reversed(rows)}
                rows = [*firsts.values(), row]
                what = "starts of the same elsewhere, which differ in numbers only"
                again = self._again(act, "started_again", rows, self.launches, what)
                found.append(again if 0 < state.task_count < len(rows) else _softened(again))
        elif not tools.says(act.action) and _only_looked_again(act, last):
            row[_RUN] = run + 1
            what = "messages to the same recipient with nothing new between them"
            found.append(self._again(act, "reworded_act", [*rows[-run:], row], self.reworded, what))
        return worst_of(found)

    def _same(self, act: Observation, same: list[Entry]) -> Finding | None:
        oldest = act.index - self.last_actions
        if act.runs and not inserts(act) and not launches(act):  # what was changed may require another start
            oldest = max(oldest, act.calls.recall.changed - 1)
        same = [one for one in same if int(one[INDEX]) > oldest]
        return self._again(act, "same_act", same, self.same_acts, "times the same act, whatever was answered")

    def _again(
        self, act: Observation, code: str, rows: list[Entry], counts: tuple[int, int, int], what: str
    ) -> Finding | None:
        acts = len(rows)
        if acts < counts[0]:
            return None
        reason = f"{acts} {what}, in {seconds(rows)}s: {act.subject:.200}"
        also = self.thresholds("last_actions", "launched_within")
        return self.counted(code, acts, counts, reason, evidence(act, rows), also=also, acts=acts)


def _only_looked_again(act: Observation, last: int) -> bool:
    """Return whether nothing new was learned since an action, though something known was looked at again."""
    recall, calls = act.calls.recall, act.index - last - 1
    if recall.news > last or not recall.resulted or calls < 1:
        return False
    looks = (STALE, ONCE, WAIT) if answers(act) else (STALE, ONCE)  # who only waits may report that it does
    return any(call[-1] in looks for call in recall.trail[-calls:])


def _count_in(goal: str) -> int:
    """Return the largest number in a task; a large one if it asks for several without a number."""
    if not goal:
        return 0
    words = set(_WORD.findall(goal.lower()))
    if not words.isdisjoint(_SEVERAL):
        return _ANY_NUMBER
    numbers = (int(word) if word.isdecimal() and len(word) <= _DIGITS else _WORDS.get(word, 1) for word in words)
    return max(numbers, default=1)


def _softened(found: Finding | None) -> Finding | None:
    """Return the finding, at most high: the task may ask for it."""
    return found and found.model_copy(update={"severity": min(found.severity, Severity.HIGH)})


def _takes_down(act: Observation) -> bool:
    """Return whether it destroys something, also of its own."""
    acts = act.acts if act.runs else act.irreversible
    return bool(acts) and any(one.effect is ActEffect.DESTROYS for one in acts)
