"""Observations: an event with the policy's classification of its tool and the session's history of its call."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from haltline.detectors.commands.model import LOSSES, Badness, Destruction, lost, of_row
from haltline.detectors.commands.shell import choices
from haltline.detectors.commands.shell.interpreter import exports
from haltline.detectors.commands.surroundings import is_own_server, where_of_tool
from haltline.detectors.features import call_changes, call_destructions, command_effects, file_access, tool_classifier
from haltline.detectors.features.call import Again, OpenCall, Phase
from haltline.detectors.features.call_history import is_pending
from haltline.detectors.features.call_tracker import CallTracker
from haltline.detectors.features.file_access import Access
from haltline.detectors.features.fingerprint import fingerprint
from haltline.detectors.features.in_passing import made_in_passing
from haltline.detectors.features.lazy import lay_out, lazy
from haltline.detectors.features.observed.failure import FailedCall
from haltline.detectors.features.observed.trait import (
    AGAIN,
    ATTEMPT,
    BEGUN,
    DONE,
    FAILURE,
    LOSS,
    MORE,
    OTHER,
    REFUSAL,
    RESULT,
    START,
    TASK,
    TURN,
    USAGE,
    Trait,
)
from haltline.detectors.features.placeholders import is_placeholder
from haltline.detectors.features.tool_classifier import Classifier, cwd_of
from haltline.schemas import tools
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome
from haltline.schemas.findings import Finding
from haltline.schemas.policy import Reading
from haltline.schemas.tool_names import words

__all__ = ["CallTracker", "Observation", "OpenCall", "Phase", "Trait"]

_HEAD_CHARS = 240
"""Characters of a command line or program that are stored until its result arrives."""
# Module constants, as they are read at every event: looking up enum members is ten times as slow.
_STARTED, _MODEL_TURN = Kind.SESSION_STARTED, Kind.MODEL_TURN
_SHELL, _PLAIN = Reading.SHELL, Reading.PLAIN
_OPENS_PAGE = frozenset(("navigate", "goto", "open", "visit"))
_TURNS_TO_PAGE = frozenset(("tab", "tabs", "back", "forward"))
_SLEEPS = frozenset(("sleep", "wait", "wait_seconds", "sleep_seconds"))
_IS_ATTEMPT, _IS_RESULT, _IS_BOTH = Phase.ATTEMPT, Phase.RESULT, Phase.BOTH
_READ, _POLL, _WRITE = Effect.READ, Effect.POLL, Effect.WRITE
_EXEC, _DESTRUCTIVE = Effect.EXEC, Effect.DESTRUCTIVE
_OK, _ERROR, _TIMEOUT, _REFUSED = Outcome.OK, Outcome.ERROR, Outcome.TIMEOUT, Outcome.REFUSED


class Observation(FailedCall):
    """An event of a session, classified by the policy. Features are computed on first access."""

    found: Sequence[Finding] = ()
    """Findings of earlier detectors on this event; set by the engine."""
    enforced: Sequence[Finding] = ()
    """Those in `found` whose rules are not in shadow mode."""
    batch: Batch | None = None
    """The declared batch that covers this act, or None; set by the engine before detectors run."""

    def __init__(  # noqa: PLR0917 - created for every event: keyword arguments are slower
        self,
        event: ActionEvent,
        classifier: Classifier,
        phase: Phase,
        calls: CallTracker,
        call: OpenCall | None = None,
        recalled: bool = True,
        measured: bool = True,
        *,
        topic: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.event = event
        self.kind = event.kind
        self.time_ms = event.time
        self.args = event.args
        self.usage = event.usage
        self.hint = event.effect
        self.call = call
        self.calls = calls
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.is_attempt = phase is _IS_ATTEMPT or phase is _IS_BOTH
        self.is_result = phase is _IS_RESULT or phase is _IS_BOTH
        self.recalled = recalled
        self.measured = measured
        self._classifier = classifier
        # Features that nearly every event needs are computed at once: a lazy one costs another call.
        if call is None:
            self._of_attempt(event.action)
        else:
            self._of_result(event.action or call.action, call)
        outcome = event.outcome
        self.refused = outcome is _REFUSED
        if outcome is _OK or self.refused:
            self.failed = False
        elif outcome is _ERROR or outcome is _TIMEOUT:
            self.failed = True
        else:
            self.failed = self.is_result and bool(event.error)

    def _of_attempt(self, action: str) -> None:
        """Read an attempt, or a result without a known attempt."""
        self.action = action
        self.index = self.calls.actions + self.is_attempt
        self.tool = tool = self._classifier.tool_of(action, self.args)
        if tool.use is not None and self.args:
            self.args = tool.use.used(self.args)
        self.runs = tool.effect is _EXEC
        self.text = tool_classifier.text_of(self.args, tool) if self.runs else ""
        if self.text:
            if self.is_attempt and not call_destructions.runs_into_loss(self, self._classifier):
                self.acts = self.irreversible = self.losses = ()
        elif not call_destructions.may_destroy(action, tool, self.hint, self.args):
            self.irreversible = self.losses = ()
            if self.is_attempt:  # `CallTracker` needs it in any case
                self.targets = self._classifier.targets(self.event, tool.use)
        self.step = self.index
        if self.is_attempt:  # `CallTracker` needs both in any case
            self.fingerprint = fingerprint(self.event, self.args, action, tool)
            self.step = self.calls.step.of(self)

    def _of_result(self, action: str, call: OpenCall) -> None:
        """Read a result, using the stored attempt."""
        self.action = action
        self.index = call.index
        self.step = call.step or call.index
        self.runs = call.reading != ""
        self.tool = tool_classifier.RUNS[call.reading] if self.runs else self._classifier.tool_of(action, self.args)
        if self.tool.use is not None and self.args:
            self.args = self.tool.use.used(self.args)
        self.text = call.head if self.runs else ""
        if not call.losses:
            self.irreversible = self.losses = ()
        if self.recalled:
            self.fingerprint = call.fingerprint

    @property
    def line(self) -> str:
        """The text that it runs; a command line with what the session chose before (see `commands.shell.choices`)."""
        chosen = self.calls.chosen
        if not chosen or self.tool.reading is not _SHELL or chosen.get(choices.BY) != self._by:
            return self.text
        return f"{choices.as_line(chosen)}{self.text}"

    @property
    def _by(self) -> str:
        """The tool that runs a command line, with where its arguments say that it does."""
        return f"{self.action} {where_of_tool(self.args or {})}"

    @property
    def chooses(self) -> Sequence[str]:
        """What an attempt chooses for later calls, as `NAME=value`: by a command line, or as the page of a browser."""
        if choices.PAGE in self.calls.chosen and not _TURNS_TO_PAGE.isdisjoint(words(self.action)):
            return (f"{choices.PAGE}=",)  # which one is unknown
        if self.tool.reading is not _SHELL:
            url = self.args.get("url") if self.args else None
            opens = isinstance(url, str) and not _OPENS_PAGE.isdisjoint(words(self.action))
            return (f"{choices.PAGE}={str(url).partition('?')[0]}",) if opens else ()
        if not self.text:
            return ()
        found, chosen = exports(self.text, cwd=self.cwd), self.calls.chosen
        if chosen and self.cwd is None and chosen.get(choices.BY) == self._by and choices.moves(self.text):
            found = (f"{choices.MOVED}=", *found)
        return (f"{choices.BY}={self._by}", *found) if found else ()

    @property
    def written(self) -> Mapping[str, list[list[str]]]:
        """By path of a file that the session wrote: what it destroys if run."""
        return self.calls.written

    def may_have_changed_since(self, index: int) -> bool:
        """Return whether a call after the action `index` whose result is unknown may have changed something."""
        return self.calls.may_have_changed(self, index)

    def was_condensed_between(self, first: int, last: int) -> bool:
        """Return whether the model's context was condensed between two actions, shortly before the later one."""
        return self.calls.compaction.lies_between(first, last)

    @property
    def sights(self) -> int:
        """All traits of the event, as the bits of `Trait`."""
        sights = USAGE if self.usage is not None else 0
        if self.refused and (self.is_attempt or self.is_result or self.kind is _MODEL_TURN):
            return sights | REFUSAL  # neither the agent's failure nor a step of its work
        if self.event.model_extra:
            sights |= MORE
        if self.is_attempt:
            sights |= ATTEMPT | BEGUN
        if self.is_result:
            sights |= RESULT | DONE
        elif not self.is_attempt:
            if self.kind is _STARTED:
                sights |= START if self.event.task is None else START | TASK
            elif self.kind is _MODEL_TURN:
                sights |= TURN
            return sights | OTHER | (FAILURE if self.failed else 0)
        if self.failed:
            sights |= FAILURE
        if self.irreversible:
            sights |= LOSS
        if self.recalled and (self.is_result or not self.calls.recall.resulted) and self.again is not None:
            sights |= AGAIN
        return sights

    @lazy
    def targets(self) -> tuple[str, ...]:
        """The targets that the event itself names, in canonical form; `unknown` if none."""
        return self._classifier.targets(self.event, self.tool.use)

    @property
    def effect(self) -> Effect:
        """The action's effect: the policy's classification, raised by the producer's hint and by destruction."""
        if self.call is not None:
            return self.call.effect
        effect, hint = self.tool.effect or _READ, self.hint
        if hint is not None and hint.rank > effect.rank:
            effect = hint
        return _DESTRUCTIVE if effect is _EXEC and self.destroys else effect

    @property
    def destroys(self) -> tuple[Destruction, ...]:
        """What the action would destroy, with scratch and the session's own things; for a result, only `losses`."""
        return lost(self.acts)

    @lazy
    def losses(self) -> tuple[Destruction, ...]:
        """What the action would destroy, without scratch and the session's own things."""
        return lost(self.irreversible)

    @lazy
    def acts(self) -> tuple[Destruction, ...]:
        """The irreversible acts: `destroys`, and what is exposed, spent, sent or handed over."""
        if self.call is not None:
            return self.irreversible
        found = call_destructions.destroys(self, self._classifier)
        if self.calls.written and self.runs:
            found += call_destructions.destroyed_by_files(self)
        if not found:
            return found
        page = self.calls.chosen.get(choices.PAGE)
        if page is not None and is_own_server(page):
            found = tuple(replace(one, badness=Badness.SCRATCH) if one.verb == "click" else one for one in found)
        found = self._classifier.without_scratch(found)
        renamed = self.calls.belongings.renamed
        if not renamed:
            return found
        moved_in = [other for one in found for other in call_destructions.held(one, renamed)]
        return (*(call_destructions.known_as(one, renamed) for one in found), *moved_in)

    @lazy
    def irreversible(self) -> tuple[Destruction, ...]:
        """Like `acts`, without scratch, the session's own things, and what is lost nowhere (`kept` of the event).

        SEVERE for local work of which nothing has a copy.
        """
        if self.call is not None:
            known = self.call.losses
            return tuple(map(of_row, known)) if known else ()
        acts = self.acts
        if not acts:
            return ()
        kept = self.event.kept
        losses = self.calls.belongings.losses(acts, kept.lost if kept is not None else ())
        if losses and kept is not None and kept.targets:  # a commit or a snapshot has it
            losses = tuple(loss for loss in losses if loss.target not in kept.targets or loss.effect not in LOSSES)
        passing = made_in_passing(self) if losses else ()
        return tuple(loss for loss in losses if loss.placed not in passing) if passing else losses

    @lazy
    def cwd(self) -> str | None:
        """The working directory that the event's arguments name."""
        return cwd_of(self.event)

    @lazy
    def creates(self) -> Sequence[str]:
        """The targets that the action creates."""
        return self.call.creates if self.call is not None else call_changes.creates(self)

    @property
    def renames(self) -> Sequence[tuple[str, str]]:
        """The targets that the action renames: each new one with the old one; for attempts only."""
        return call_changes.renames(self)

    @property
    def head(self) -> str:
        """The beginning of the command line or program, or the first target."""
        if self.call is not None:
            return self.call.head
        return self.text[:_HEAD_CHARS] or self.targets[0]

    @lazy
    def subject(self) -> str:
        """The subject of the call: its tool with the program and its argument, or with its first target."""
        return f"{self.action} {command_effects.subject(self.head) if self.runs else self.head}"

    @lazy
    def changes(self) -> bool:
        """Return whether it changes anything that a later call could see."""
        return call_changes.changes(self._hint, self.tool, self.text)

    @lazy
    def changed(self) -> bool:
        """Return whether a result is of a call that changed something, or may have.

        Failed calls changed nothing, except programs that may have written before they failed. An edit with the same
        answer as before changed nothing either.
        """
        if self.refused or not self.changes:
            return False
        if self.failed:
            return self.runs and call_changes.may_have_changed(self.tool, self.text)
        head = self.event.output_head
        if not head:
            return True
        if self.runs:  # a program's output can be about anything, unless it is short
            return len(head) > _HEAD_CHARS or not command_effects.says_unchanged(head)
        if command_effects.says_unchanged(head):
            return False
        return not (self.recalled and self.is_result and (again := self.again) is not None and again.is_known)

    @property
    def files(self) -> Sequence[tuple[str, list[list[str]]]]:
        """The files that an attempt writes, with what each would destroy if run; only those that may."""
        return call_changes.files_of(self)

    @property
    def does_more_than_look(self) -> bool:
        """Return whether it may change anything, or reaches something outside."""
        effect = self.tool.effect
        if effect is _READ or effect is _POLL:
            return bool(self.losses)
        return effect is not _EXEC or self.changes or bool(self.losses)

    @property
    def produces(self) -> bool:
        """Return whether it runs a program or writes, and so may create files that the event does not name."""
        if self.runs:
            reading = self.tool.reading
            return reading is _PLAIN or (reading is _SHELL and command_effects.produces(self.text))
        return self.tool.effect is _WRITE

    @property
    def places(self) -> Sequence[str]:
        """Where it runs programs after everything that it removes, or where it writes; empty text: unknown."""
        return call_changes.places(self)

    @lazy
    def waits(self) -> bool:
        """Return whether it looks at something that is expected to change by itself."""
        if self.tool.effect is _POLL or self._hint is _POLL:
            return True
        return self.text != "" and command_effects.waits(self.text)

    @property
    def _hint(self) -> Effect | None:
        """The producer's hint, which may be missing in a result."""
        if self.hint is not None or self.call is None:
            return self.hint
        return self.call.effect if self.call.effect is not _READ else None

    @lazy
    def fingerprint(self) -> str:
        """Equal for the same call with the same arguments, except for what varies by itself."""
        if self.call is not None:
            self._require_recalled("the fingerprint of a result")
        return fingerprint(self.event, self.args, self.action, self.tool)

    @lazy
    def again(self) -> Again | None:
        """The history of the same call, once this one's result is known; None: it is new."""
        self._require_recalled("whether a call was made before")
        return self.calls.recall.look(self)

    def _require_recalled(self, what: str) -> None:
        if not self.recalled:
            raise RuntimeError(f"{what}: expected a detector that says `recalls = True`, got one that does not")

    @lazy
    def novelty(self) -> tuple[float, ...] | None:
        """The session's progress including this result, as `novelty.VALUES`; None: it is not a step.

        A step is the result of a call with a known outcome that was not refused, does not wait and does not only talk.
        A placeholder, as of an image, is no known result.
        """
        if not self.is_result or self.refused or not self.recalled or self.waits:
            return None
        if tools.thinks(self.action):
            return None
        if (again := self.again) is not None and again.waits and is_pending(self):
            return None
        if self.failed and (self.unread or self.cancelled):  # not a call, or one that was not executed
            return None
        event = self.event
        if self.call is None and event.args is None and not event.targets:  # its attempt is late, or lost
            return None
        if event.output_head is None and event.output_bytes is None and event.output_digest is None and not event.error:
            return None
        if self.shows_placeholder:
            return None
        return self.calls.novelty.take(self)

    @lazy
    def shows_placeholder(self) -> bool:
        """Return whether its result says only that an image, or other data, was left out."""
        return is_placeholder(self.event)

    @property
    def does_nothing(self) -> bool:
        """Return whether it runs a command line that does nothing, such as `:`."""
        return self.text != "" and self.tool.reading is _SHELL and command_effects.does_nothing(self.text)

    @lazy
    def only_sleeps(self) -> bool:
        """Return whether it only lets time pass, without a look at anything."""
        if self.runs:
            return self.tool.reading is _SHELL and command_effects.only_sleeps(self.text)
        return self.action.lower() in _SLEEPS

    @lazy
    def steps_through(self) -> bool:
        """Return whether it steps through something, so that its answers may differ in numbers only."""
        return not self.failed and call_changes.steps_through(self.action, self.text)

    @lazy
    def accesses(self) -> tuple[Access, ...]:
        """The files that an attempt reads, and those that it changes."""
        return file_access.accesses(self)


lay_out(Observation)
