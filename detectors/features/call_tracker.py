"""The calls of a session: which are open, which are done, and who owns the things that they touched."""

from zlib import crc32

from msgspec import field

from haltline.detectors.commands.model import MADE_AGAIN, as_row, holds_one
from haltline.detectors.commands.rows import expression_of
from haltline.detectors.commands.shell import choices
from haltline.detectors.features import call_changes, command_effects, tool_classifier
from haltline.detectors.features.call import OpenCall, Phase
from haltline.detectors.features.call_history import CallHistory
from haltline.detectors.features.context_compaction import ContextCompaction
from haltline.detectors.features.infrastructure_outage import InfrastructureOutage
from haltline.detectors.features.novelty import Novelty
from haltline.detectors.features.observation_protocol import Observed
from haltline.detectors.features.ownership import UNDO, Ownership
from haltline.detectors.features.steps import Step
from haltline.schemas import expressions as re
from haltline.schemas.events import ActionEvent, Effect, Kind, Task
from haltline.schemas.policy import Reading
from haltline.schemas.stored import Stored

UNKNOWN = "unknown"
_READ_CHARS = 2048
_EXISTS = expression_of("it was there before", re.IGNORECASE)
_EXISTS_CUES = ("exist", "already", "unchanged")
_MADE_BEFORE_IT_FAILED = ("path=", "branch=", "tag=", "stash=")
"""What a program that fails at the end may have made: files, and what git keeps here."""

MAX_OPEN_CALLS = 64
"""Maximum number of calls stored until their result arrives; the oldest is dropped first."""
MAX_THINGS = 64
"""Maximum number of losses, and of created things, stored per open call."""
MAX_FILES = 32
"""Maximum number of stored files that the session wrote and that would destroy something if run."""
MAX_DONE_CALLS = 16
"""Maximum number of stored results, by which attempts that arrive after their result are recognized."""


# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_ATTEMPT, _RESULT, _BOTH, _NONE = Phase.ATTEMPT, Phase.RESULT, Phase.BOTH, Phase.NONE
_PROPOSED, _COMPLETED, _MODEL_TURN = Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN
_SHELL, _PLAIN = Reading.SHELL, Reading.PLAIN
_SESSION_STARTED = Kind.SESSION_STARTED


class CallTracker(Stored):
    """The calls of a session, joined by call id, or by order for producers without ids."""

    actions: int = 0
    """Attempts so far: the clock of all windows that count actions."""
    deeds: int = 0
    """Attempts that did more than read, since the first thing was created or destroyed."""
    open: dict[str, OpenCall] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    """By call id: event time of the result, epoch milliseconds."""
    proposes: bool = False
    """Whether the session publishes attempts; then a result without details is not an attempt of its own."""
    failed: int = 0
    """Index of the last action that failed or was refused."""
    written: dict[str, list[list[str]]] = field(default_factory=dict)
    """By path of a file that the session wrote: `[verb, target, badness]` of what it destroys if run. The verb `unread`
    means that its content is not completely known."""
    belongings: Ownership = field(default_factory=Ownership)
    recall: CallHistory = field(default_factory=CallHistory)
    novelty: Novelty = field(default_factory=Novelty)
    step: Step = field(default_factory=Step)
    compaction: ContextCompaction = field(default_factory=ContextCompaction)
    outage: InfrastructureOutage = field(default_factory=InfrastructureOutage)
    task: int = 0
    """Checksum of the session's last task; 0: unknown."""
    chosen: dict[str, str] = field(default_factory=dict)
    """What the session chose for its later command lines, by variable (see `commands.shell.choices`)."""
    timed_out: str = ""
    """The output of the last call that was stopped by a timeout."""

    def phase(self, event: ActionEvent) -> tuple[Phase, OpenCall | None]:
        """The phase of an event, and the attempt that it is the result of.

        A call id may be reused: only an event that is not newer than the known call belongs to the same call.
        """
        kind, call_id = event.kind, event.call_id
        if kind is _PROPOSED:
            if call_id is None or (call_id not in self.open and call_id not in self.done):
                return _ATTEMPT, None
            known = self.open.get(call_id)
            repeated = known is not None and known.time_ms == event.time and known.action == event.action
            return (_NONE if repeated or self._was_done(call_id, event.time) else _ATTEMPT), None
        if kind is not _COMPLETED:
            return _NONE, None
        known = self.open.get(call_id) if call_id is not None else self._first_open(event.action)
        if known is not None:
            return _RESULT, known
        if call_id is not None:
            if self._was_done(call_id, event.time):
                return _NONE, None
            if self.proposes and event.args is None and not event.targets:
                return _RESULT, None  # its proposal is late or lost: nothing is known of it yet
        return _BOTH, None

    def _was_done(self, call_id: str, time_ms: int) -> bool:
        done_ms = self.done.get(call_id)
        return done_ms is not None and time_ms <= done_ms

    def _first_open(self, action: str) -> OpenCall | None:
        """The earliest open call of this tool without an id: results are assumed to arrive in order."""
        if not self.open:
            return None
        return next((call for key, call in self.open.items() if key == _anonymous(action, call.index)), None)

    def may_have_changed(self, act: Observed, since: int) -> bool:
        """Return whether another call, attempted between the action `since` and this one, may have changed something.

        Considers only calls without a result, which may be late or lost.
        """
        for call in self.open.values():
            if since < call.index < act.index and call.fingerprint != act.fingerprint and _may_change(call):
                return True
        return False

    def note(self, act: Observed) -> None:
        """Record an event after the detectors saw it. All stored data is bounded."""
        if act.usage is not None:
            self.compaction.note(act.usage, act.step - 1 if act.is_result else self.actions)
        if not (act.is_attempt or act.is_result):
            if act.kind is _MODEL_TURN:
                self.step.note_turn()
            elif act.kind is _SESSION_STARTED:
                self._note_task(act.event)
            return
        if act.is_attempt:
            self.actions += 1
            self.step.note_attempt(act)
            if act.losses:
                for loss in act.losses:
                    self.belongings.lost(loss)
            if not act.refused:
                self._note_deed(act)
        self._remember(act)
        if act.is_result:
            self.step.note_result(act)
            self._note_result(act)
        else:
            self._note_attempt(act)

    def is_other_task(self, event: ActionEvent) -> bool:
        """Return whether an event gives a working session another task: another goal or another prompt."""
        return self.actions > 0 and event.task is not None and _checksum_of(event.task) not in {0, self.task}

    def _note_task(self, event: ActionEvent) -> None:
        """Record a task. At another task, the measure of progress restarts, but keeps the known words.

        A call that is repeated for another task is not a repetition.
        """
        if event.task is None:
            return
        if self.is_other_task(event):
            self.judge_anew()
        self.task = _checksum_of(event.task) or self.task

    def judge_anew(self) -> None:
        """Restart the measure of progress, but keep the known words."""
        self.novelty, self.recall = self.novelty.for_other_task(), CallHistory()

    def _remember(self, act: Observed) -> None:
        """Record a call and its result, as far as a rule needs it."""
        if not act.recalled:
            if self.recall.trail:
                self.recall = CallHistory()  # a gap in the records would make an old call look repeated
        elif act.refused:
            self.recall.note_refused()
        else:
            if not act.measured:
                if self.novelty.steps:
                    self.novelty = Novelty()  # a gap in the records would make everything after it look new
            elif act.is_result:
                act.novelty  # noqa: B018 - processes the result, unless a detector has done so
            self.recall.note(act, self.actions)

    def _note_deed(self, act: Observed) -> None:
        """Record the effects of an attempt that was not refused."""
        if not self.belongings.wrote:
            self.belongings.wrote = _may_write(act)
        if act.runs and "kill" not in act.text:
            self.belongings.starts(act.text)
        if self.belongings.own and act.does_more_than_look:
            self.deeds += 1
        for path, losses in act.files:  # what it destroys if run
            self.written.pop(path, None)
            if losses:
                self.written[path] = losses
                if len(self.written) > MAX_FILES:
                    del self.written[next(iter(self.written))]

    def _note_attempt(self, act: Observed) -> None:
        self.proposes = True
        event = act.event
        key = event.call_id
        if key is None:
            key = _anonymous(act.action, act.index)
        acts, creates = act.irreversible, act.creates
        self.open.pop(key, None)
        self.open[key] = OpenCall(
            key,
            act.time_ms,
            act.index,
            event.event_id,
            act.offset,
            act.action,
            act.effect,
            [as_row(one) for one in acts[:MAX_THINGS]] if acts else [],
            list(creates[:MAX_THINGS]) if creates else [],
            act.head,
            act.tool.reading if act.runs else "",
            act.fingerprint if act.recalled else "",
            act.step,
            self.novelty.call_of(act) if act.recalled and act.measured else None,
            self._places(act),
            [list(pair) for pair in act.renames[:MAX_THINGS]],
            list(act.chooses),
        )
        if len(self.open) > MAX_OPEN_CALLS:
            del self.open[next(iter(self.open))]

    def _note_result(self, act: Observed) -> None:  # noqa: PLR0912 - one case after another
        call, event = act.call, act.event
        call_id = event.call_id
        if call is not None:
            self.open.pop(call.key, None)
        if call_id is not None and (call is not None or act.args is not None or event.targets):
            self.done.pop(call_id, None)
            self.done[call_id] = act.time_ms
            if len(self.done) > MAX_DONE_CALLS:
                del self.done[next(iter(self.done))]
        if act.failed and act.step > self.outage.index and act.infrastructure:
            self.outage.note(act.began_ms, act.time_ms, act.index)
        if act.failed and act.timed_out:
            self.timed_out = act.timed_out
        # A failed program may have changed something before it failed.
        if act.refused or (act.failed and not act.runs):
            self.failed = max(self.failed, act.index)
            return
        belongings = self.belongings
        if not act.failed:
            for loss in act.losses:
                belongings.took_away(loss, act.index)
        creates, renames = (act.creates, act.renames) if call is None else (call.creates, call.renames)
        chosen = act.chooses if call is None else call.chosen
        if chosen:
            is_made = not act.failed and not (act.runs and choices.says_failed(act.event.output_head or ""))
            self.chosen = choices.kept(self.chosen, chosen if is_made else choices.unsure(chosen))
        made = () if act.failed and not act.runs else call_changes.made_by_answer(act)
        if (creates or made) and not _was_there(act):
            changed = {f"{MADE_AGAIN}{loss.placed}" for loss in act.losses}
            for target in (*creates, *made):
                if target in changed:
                    continue
                if not act.failed or target.startswith(_MADE_BEFORE_IT_FAILED):
                    belongings.made(target)
        elif not act.runs and not act.failed and act.head != UNKNOWN and act.effect is not Effect.DESTRUCTIVE:
            belongings.was_there(act.head)
        for new, old in renames:
            belongings.calls_it(new, old)
        if act.failed:
            self.failed = max(self.failed, act.index)
        # Computed only if it can matter: each look at a command line costs some microseconds.
        if belongings.changed <= self.failed and act.changes:
            if not act.runs and act.head.startswith("path="):
                belongings.edit(act.head)
            elif not act.runs or command_effects.changes_existing(act.head):
                belongings.changed = max(belongings.changed, act.index)
        if act.runs and not act.failed and "git " in act.head:
            uncommitted = command_effects.uncommitted(act.head, act.event.output_head or "")
            if uncommitted is not None:
                belongings.note_uncommitted(uncommitted, command_effects.untracked(act.event.output_head or ""))
        if belongings.removed:
            if act.changes and (act.produces or not any(one.verb in UNDO for one in act.irreversible)):
                belongings.worked = max(belongings.worked, act.index)
            places = self._places(act) if call is None else call.places
            if places:
                belongings.ran_in(places, act.index)

    def _places(self, act: Observed) -> list[str] | None:
        """Where it runs programs after what it removes; computed only if something was, or is being, removed."""
        if not (self.belongings.removed or act.losses) or not act.produces:
            return None
        return list(act.places[:MAX_THINGS])


def _checksum_of(task: Task) -> int:
    told = f"{task.prompts} {task.goal}" if task.prompts else task.goal
    return crc32(told.encode(errors="replace")) if told else 0


def _was_there(act: Observed) -> bool:
    """Return whether the result says that what the call was to create already existed."""
    event = act.event
    text = f"{event.error or ''}\n{event.output_head or ''}"[:_READ_CHARS]
    return holds_one(text.lower(), _EXISTS_CUES) and _EXISTS.search(text) is not None


def _may_write(act: Observed) -> bool:
    """Return whether an attempt may change a file that was there before."""
    if not act.runs:
        return act.changes
    return command_effects.may_write(act.text) if act.tool.reading is _SHELL else act.tool.reading is _PLAIN


def _may_change(call: OpenCall) -> bool:
    if call.reading:
        return call_changes.changes(None, tool_classifier.RUNS[call.reading], call.head)
    return call.effect in call_changes.CHANGING


def _anonymous(action: str, index: int) -> str:
    """The key of a call without an id."""
    return f"\0{action}\0{index}"
