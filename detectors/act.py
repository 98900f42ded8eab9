"""An event as detectors see it: with what the policy knows of the tool and what the session knows of the call."""

from collections.abc import Sequence
from enum import IntFlag

from haltline.detectors import classify, file_access, progress
from haltline.detectors.calls import Call, Calls, Phase
from haltline.detectors.classify import Classifier
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.errors import Normalization, error_key, is_unread
from haltline.detectors.file_access import Access
from haltline.detectors.fingerprint import fingerprint
from haltline.detectors.lazy import lazy
from haltline.detectors.recall import Again
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Effect, Outcome
from haltline.schemas.findings import Evidence, Finding

__all__ = ["Act", "Call", "Calls", "Phase", "Sight"]

_HEAD_CHARS = 240
"""Of a command line or program, what is remembered until its result comes."""
_SHORT_NAME = 3
"""Names of tools no longer than this are words of their own in a message."""


class Sight(IntFlag):
    """What an event can be to a detector, for tables of whom it matters to."""

    ATTEMPT = 1
    RESULT = 2
    FAILURE = 4
    """The call failed or was refused."""
    AGAIN = 8
    """The call was made before."""
    LOSS = 16
    """Somebody would miss something."""
    OTHER = 32
    """Not about a call: the session's start and end, a model turn, or a call that was counted already."""
    ANYTHING = 63


_ATTEMPT, _RESULT, _FAILURE, _AGAIN, _LOSS, _OTHER = (int(s) for s in Sight if s is not Sight.ANYTHING)


class Act:
    """One event of a session, read by the policy. Features are worked out when first asked for."""

    found: Sequence[Finding] = ()
    """What the detectors that looked before found on this event; set by the engine."""

    def __init__(
        self,
        event: ActionEvent,
        *,
        classifier: Classifier,
        phase: Phase,
        call: Call | None = None,
        calls: Calls,
        topic: str = "",
        partition: int = 0,
        offset: int = 0,
        recalled: bool = True,
    ) -> None:
        self.event = event
        self.time_ms = event.time
        """Event time, epoch milliseconds."""
        self.phase = phase
        self.call = call
        """The attempt that this is the result of."""
        self.calls = calls
        """What the session remembers, as it was before this event."""
        self.batch: Batch | None = None
        """The declared batch that covers this act, if any; set by the engine before detectors look."""
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.is_attempt = phase is Phase.ATTEMPT or phase is Phase.BOTH
        """True once for each call: at its proposal, or at its result when it was never proposed."""
        self.is_result = phase is Phase.RESULT or phase is Phase.BOTH
        """True once for each call: when what came of it is known."""
        self._classifier = classifier
        # What nearly every event is asked for is worked out here: a feature that waits costs a call more.
        if call is None:
            self.action = event.action
            self.index = calls.actions + self.is_attempt
            """Which action of the session it is, from 1; of a result, that of its attempt."""
            self.tool = tool = classifier.tool_of(event, event.action)
            """What is known of the tool."""
            self.runs = tool.effect is Effect.EXEC
            """Whether the tool runs a program, a command line or a statement."""
            self.text = classify.text_of(event, tool) if self.runs else ""
            """The command line, statement or program that it runs, empty if it runs none; of a result its beginning."""
        else:
            self.action = event.action or call.action
            self.index = call.index
            self.runs = bool(call.reading)
            self.tool = classify.RUNS[call.reading] if self.runs else classifier.tool_of(event, self.action)
            self.text = call.head if self.runs else ""
        outcome = event.outcome
        self.refused = outcome is Outcome.REFUSED
        """The call was never executed."""
        self.failed = outcome is not Outcome.OK and self._is_failure(outcome)
        """The call was executed and did not succeed."""
        self.recalled = recalled
        """Whether the session's calls are remembered by their fingerprints: some rule asks for `again`."""

    def _is_failure(self, outcome: Outcome | None) -> bool:
        if outcome is None or outcome is Outcome.UNKNOWN:
            return bool(self.event.error) and self.is_result
        return outcome is Outcome.ERROR or outcome is Outcome.TIMEOUT

    @lazy
    def sights(self) -> int:
        """All of `Sight` that hold."""
        if self.is_attempt:
            sights = _ATTEMPT | _RESULT if self.is_result else _ATTEMPT
        elif self.is_result:
            sights = _RESULT
        else:
            return _OTHER | (_FAILURE if self.failed or self.refused else 0)
        if self.failed or self.refused:
            sights |= _FAILURE
        if self.losses:
            sights |= _LOSS
        if self.recalled and self.again is not None:
            sights |= _AGAIN
        return sights

    @lazy
    def targets(self) -> tuple[str, ...]:
        """What the event itself says that it is about, in canonical form; `unknown` when it does not say."""
        return self._classifier.targets(self.event)

    @property
    def effect(self) -> Effect:
        """What the action does: the policy's reading, raised by the producer's hint and by what it would destroy."""
        if self.call is not None:
            return self.call.effect
        effect = classify.effect_of(self.event, self.tool)
        return Effect.DESTRUCTIVE if effect is Effect.EXEC and self.destroys else effect

    @lazy
    def destroys(self) -> tuple[Destruction, ...]:
        """What the action would take away, scratch and the session's own things too; of a result, `losses` only."""
        return self.losses if self.call is not None else classify.destroys(self)

    @lazy
    def losses(self) -> tuple[Destruction, ...]:
        """What somebody would miss: neither scratch nor the session's own."""
        if self.call is not None:
            known = self.call.losses
            return tuple(Destruction(verb, what, Badness[how]) for verb, what, how in known) if known else ()
        destroys = self.destroys
        return tuple(filter(self.calls.belongings.is_loss, destroys)) if destroys else ()

    @property
    def creates(self) -> Sequence[str]:
        """What the action makes, as targets."""
        return self.call.creates if self.call is not None else classify.creates(self)

    @property
    def head(self) -> str:
        """The beginning of the command line or program, or the first target."""
        if self.call is not None:
            return self.call.head
        return self.text[:_HEAD_CHARS] or self.targets[0]

    @lazy
    def subject(self) -> str:
        """What the call is about: its tool with the program and its argument, or with its first target."""
        return f"{self.action} {progress.subject(self.head) if self.runs else self.head}"

    @lazy
    def changes(self) -> bool:
        """Whether it changes anything that a later call could see."""
        return classify.changes(self._hint, self.tool, self.text)

    @property
    def produces(self) -> bool:
        """Whether it runs a program or writes: it may leave files that nobody named."""
        return classify.produces(self.tool, self.text)

    @lazy
    def waits(self) -> bool:
        """Whether it looks at something that is expected to change by itself."""
        return classify.waits(self._hint, self.tool, self.text)

    @property
    def _hint(self) -> Effect | None:
        """The producer's hint, which a result may leave out."""
        if self.event.effect is not None or self.call is None:
            return self.event.effect
        return self.call.effect if self.call.effect is not Effect.READ else None

    @lazy
    def fingerprint(self) -> str:
        """Equal for the same call with the same arguments, but for what varies by itself."""
        if self.call is None:
            return fingerprint(self.event, self.action, self.tool)
        self._require_recalled("the fingerprint of a result")
        return self.call.fingerprint

    @lazy
    def again(self) -> Again | None:
        """What is known of the same call made before, once what came of this one is known; None: it is new."""
        self._require_recalled("whether a call was made before")
        return self.calls.recall.look(self)

    def _require_recalled(self, what: str) -> None:
        if not self.recalled:
            raise RuntimeError(f"{what}: wanted a detector that says `recalls = True`, came one that does not")

    @lazy
    def unread(self) -> bool:
        """Whether the harness could not read what the model wrote: no tool was called, and nothing was done."""
        if not self.failed:
            return False
        text = self.event.error or self.event.output_head or ""
        return is_unread(self.action, text, known=self.tool.effect is not None)

    @lazy
    def accesses(self) -> tuple[Access, ...]:
        """Which files an attempt looks at and which it changes."""
        return file_access.accesses(self)

    def error_key(self, level: Normalization) -> str:
        """The error in its normal form; empty when the call did not fail, or said nothing of why."""
        event = self.event
        if not (self.failed or self.refused):
            return ""
        text = event.error or event.output_head or ""
        if len(self.action) > _SHORT_NAME and self.action in text:
            text = text.replace(self.action, "<tool>")  # `unknown tool: x`: one guessed name after another
        key = error_key(text, level)
        if key or self.runs:
            return key  # a program that fails without a word, such as a search that finds nothing, gives an answer
        return "timeout" if event.outcome is Outcome.TIMEOUT else f"{self.action} failed"

    @property
    def evidence(self) -> Evidence:
        """The event itself as evidence."""
        return self.evidence_of(self.event.event_id, self.offset)

    def evidence_of(self, event_id: str, offset: int) -> Evidence:
        """An earlier event of the same session as evidence: all are on the same topic partition."""
        if not self.topic:
            return Evidence(event_id=event_id)
        return Evidence(event_id=event_id, topic=self.topic, partition=self.partition, offset=offset)
