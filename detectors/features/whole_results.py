"""The number of steps in which a session got next to nothing new and edited nothing, counted in whole results.

For each result, the agent's side reports how many of its words are new in the session (`output_novelty`). `FRESH` new
words offset one step, and a result with more subtracts one step; an edit or an external act resets the count. So steps
without progress count even if each is a different call with a long answer, such as repeated looks at a finished patch
or a file.

Without that field, only a result that occurred before has nothing new; any other counts as fresh. For a tool that does
not run programs, a short result counts only if the call was made before too: "ok" is new about another item. After the
agent's side has restarted, nothing counts until it has seen `UNSURE` results again.
"""

from haltline.detectors.commands.model import holds_one
from haltline.detectors.commands.rows import expression_of, texts_of
from haltline.detectors.features.observation_protocol import Observed
from haltline.schemas import expressions as re
from haltline.schemas import tools
from haltline.schemas.events import ActionEvent, Effect
from haltline.schemas.policy import Reading
from haltline.schemas.stored import Stored

_NETWORK, _MUTATE = Effect.NETWORK, Effect.MUTATE
FRESH = 10
"""New words that offset one step: the unit of `balance`."""
_MOST_FRESH = 2 * FRESH
_LEAST_OF_ONE = 1
"""New words that make an answer about the next object of a series informative."""
_WORDS_OF_ONE = 30
"""The most words of an answer about one object."""
_SAYS = 4
"""The number of words that makes a result informative, even if the call is a new one of the same tool."""
MAX_STEPS = 99
UNSURE = 20
_LATE = 8
"""Results of one session may be published out of order by this many."""
_READ_CHARS = 4096
_REPORTS = re.compile(r"[\w)}-]\.(?:md|txt|log|rst|diff|patch)\b")
"""Files that report on work."""
_WRITTEN = re.compile(r">>?\s*[\"']?([\w./~${}()-]+)")
_EDITS = expression_of("a command line edits")
_OUTSIDE = expression_of("a command line acts outside")
_EDIT_CUES = ("sed", "perl", "patch", "tee", ".write")
_OUTSIDE_CUES = texts_of("signs of an act outside")
"""Every match of these patterns contains one of these: to look for them takes a tenth of a pattern's time."""
_TELLS = re.compile(r"(?:^|[_.\W])(?:send|post|publish|reply|respond|notify|comment)(?:$|[_.\W])")
"""Tools that send something to others; the same effect also covers tools that only fetch."""


def writes_or_acts_outside(act: Observed) -> bool:
    """Return whether an attempt writes something of its own, or acts outside, by its words.

    Moving existing things does not count (other commits, copies, a patch of what was committed), nor do reports.
    """
    name = act.action.lower()
    if not act.changes:
        return not act.runs and act.tool.effect is _NETWORK and _TELLS.search(name) is not None
    if _declares(act.action):
        return False
    if not act.runs:
        return _replaces(act) or not any(_REPORTS.search(target) for target in act.targets)
    text = act.text[:_READ_CHARS]
    if act.tool.reading is not Reading.SHELL:
        return True
    if "<<" in text:
        written = _WRITTEN.search(text)
        if written is not None:
            return _REPORTS.search(written[1]) is None
        return "write" in text or "patch" in text
    if holds_one(text, _EDIT_CUES) and _EDITS.search(text) is not None:
        return True
    return holds_one(text, _OUTSIDE_CUES) and _OUTSIDE.search(text) is not None


def acts_outside(act: Observed) -> bool:
    """Return whether an attempt for which `writes_or_acts_outside` holds acts outside: what it creates stays there."""
    if not act.runs:
        return act.tool.effect is _NETWORK or act.tool.effect is _MUTATE
    text = act.text[:_READ_CHARS]
    return holds_one(text, _OUTSIDE_CUES) and _OUTSIDE.search(text) is not None


def _replaces(act: Observed) -> bool:
    """Return whether it names a text to replace: then it edits an existing file, whatever its name."""
    if act.tool.use is not None and act.tool.use.old:
        return True
    return any(name.lower().startswith("old") for name in act.args or ())


def _declares(action: str) -> bool:
    """Return whether an agent reports with it what it has done or will do: neither a read nor a change."""
    return tools.says(action) in ("reports", "plans")


class WholeResults(Stored):
    """The count of one session. Plain JSON values: part of its state."""

    balance: int = 0
    """Steps with nothing new since the last edit, times `FRESH`."""
    results: int = 0
    """Number of results that the agent's side had counted before the last reported one."""
    unsure: int = 0
    """Results until the reported novelty is reliable again."""

    @property
    def steps(self) -> float:
        """Steps with nothing new since the last edit, minus those with new results."""
        return self.balance / FRESH

    def for_other_task(self) -> "WholeResults":
        """The count for another task: it restarts, while the state of the agent's side is kept."""
        return WholeResults(results=self.results, unsure=self.unsure)

    def take(
        self,
        act: Observed,
        *,
        edited: bool,
        together: bool,
        same_call: bool,
        was_seen: bool,
        listed: bool,
        given: bool,
    ) -> None:
        """Add a result.

        Args:
            act: the result of a call.
            edited: it wrote something, or acted outside.
            together: it belongs to the same step as the one before, which counts once.
            same_call: the same call was made before.
            was_seen: the same result occurred before.
            listed: it works off a list or a series: the next call of one shape, about another object.
            given: that object was given by an earlier result or a prompt.

        """
        new = self._new_words(act.event, counts=same_call or act.runs, was_seen=was_seen)
        if edited:
            self.balance = 0
            return
        if new is None or _declares(act.action):
            return
        if given:
            new = _MOST_FRESH
        elif listed and _is_of_one(act.event) and (new >= _LEAST_OF_ONE or not _counts_up(act.event)):
            new = max(new, FRESH)  # a short answer about another object says what there is to say
        by = FRESH - min(_MOST_FRESH, new)
        if by < 0 or not together:
            self.balance = min(MAX_STEPS * FRESH, max(0, self.balance + by))

    def _new_words(self, event: ActionEvent, *, counts: bool, was_seen: bool) -> int | None:
        """The number of words that are new in the session; None: unknown.

        Args:
            event: the result of the call.
            counts: whether a short answer to this call is informative.
            was_seen: the same result occurred before.

        """
        novelty = event.output_novelty
        if novelty is None:
            return (0 if counts else None) if was_seen else _MOST_FRESH
        if novelty.results < self.results - _LATE or (novelty.results == 0 and self.results):
            self.unsure = UNSURE
        self.results = novelty.results
        if self.unsure:
            self.unsure -= 1
            return None
        return novelty.new_words if counts or novelty.words >= _SAYS else None


def _is_of_one(event: ActionEvent) -> bool:
    """Return whether an answer is short, as about one object; long ones are judged by their words."""
    novelty = event.output_novelty
    return novelty is not None and novelty.words <= _WORDS_OF_ONE


def _counts_up(event: ActionEvent) -> bool:
    """Return whether the call names an object that the agent may have counted up."""
    novelty = event.output_novelty
    return novelty is None or novelty.counted is None or novelty.counted > 0
