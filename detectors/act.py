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
from haltline.schemas.events import ActionEvent, Effect, Kind, Outcome, Usage
from haltline.schemas.findings import Evidence, Finding
from haltline.schemas.record import JsonObject

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
    BEGUN = 64
    """An attempt that was not refused."""
    DONE = 128
    """A result of a call that was not refused."""
    USAGE = 256
    """It tells what was used."""
    START = 512
    """The session's start."""
    TASK = 1024
    """The session's start, with what it is to do."""
    TURN = 2048
    """A turn of the model."""
    MORE = 4096
    """It has fields that the schema does not know."""
    ANYTHING = 8191


_ATTEMPT, _RESULT, _FAILURE, _AGAIN, _LOSS, _OTHER, _BEGUN, _DONE, _USAGE, _START, _TASK, _TURN, _MORE = (
    int(s) for s in Sight if s is not Sight.ANYTHING
)
# Members of an enumeration are looked up at every event: from their class, that takes ten times as long.
_STARTED, _MODEL_TURN = Kind.SESSION_STARTED, Kind.MODEL_TURN
_IS_ATTEMPT, _IS_RESULT, _IS_BOTH = Phase.ATTEMPT, Phase.RESULT, Phase.BOTH
_READ, _EXEC, _DESTRUCTIVE = Effect.READ, Effect.EXEC, Effect.DESTRUCTIVE
_OK, _ERROR, _TIMEOUT, _REFUSED = Outcome.OK, Outcome.ERROR, Outcome.TIMEOUT, Outcome.REFUSED


class Act:
    """One event of a session, read by the policy. Features are worked out when first asked for.

    Python keeps up to 29 attributes of an object in a form that is fast: what seldom differs stands in the class,
    and what is quickly worked out is a property.
    """

    found: Sequence[Finding] = ()
    """What the detectors that looked before found on this event; set by the engine."""
    batch: Batch | None = None
    """The declared batch that covers this act, if any; set by the engine before detectors look."""
    topic: str = ""
    """Where the event stands in the log; empty: nowhere."""
    partition: int = 0
    offset: int = 0

    def __init__(  # noqa: PLR0917 - made for every event: given by name, they take twice as long
        self,
        event: ActionEvent,
        classifier: Classifier,
        phase: Phase,
        calls: Calls,
        call: Call | None = None,
        recalled: bool = True,
        *,
        topic: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.event = event
        said = vars(event)  # an attribute of a pydantic model takes ten times as long as one of this object
        self.kind: Kind = said["kind"]
        self.time_ms: int = said["time"]
        """Event time, epoch milliseconds."""
        self.args: JsonObject | None = said["args"]
        self.usage: Usage | None = said["usage"]
        self.hint: Effect | None = said["effect"]
        """The producer's own word for what the action does."""
        self.call = call
        """The attempt that this is the result of."""
        self.calls = calls
        """What the session remembers, as it was before this event."""
        if topic:
            self.topic, self.partition, self.offset = topic, partition, offset
        self.is_attempt = phase is _IS_ATTEMPT or phase is _IS_BOTH
        """True once for each call: at its proposal, or at its result when it was never proposed."""
        self.is_result = phase is _IS_RESULT or phase is _IS_BOTH
        """True once for each call: when what came of it is known."""
        self.recalled = recalled
        """Whether the session's calls are remembered by their fingerprints: some rule asks for `again`."""
        self._classifier = classifier
        # What nearly every event is asked for is worked out at once: a feature that waits costs a call more.
        if call is None:
            self._of_attempt(said["action"])
        else:
            self._of_result(said["action"] or call.action, call)
        outcome = said["outcome"]
        self.refused = outcome is _REFUSED
        """The call was never executed."""
        if outcome is _OK or self.refused:
            self.failed = False
            """The call was executed and did not succeed."""
        elif outcome is _ERROR or outcome is _TIMEOUT:
            self.failed = True
        else:
            self.failed = self.is_result and bool(said["error"])

    def _of_attempt(self, action: str) -> None:
        """Reads an attempt, or a result of which no attempt is known."""
        self.action = action
        self.index = self.calls.actions + self.is_attempt
        """Which action of the session it is, from 1; of a result, that of its attempt."""
        self.tool = tool = self._classifier.tool_of(self.event, action)
        """What is known of the tool."""
        self.runs = tool.effect is _EXEC
        """Whether the tool runs a program, a command line or a statement."""
        self.text = classify.text_of(self.event, tool) if self.runs else ""
        """The command line, statement or program that it runs, empty if it runs none; of a result its beginning."""
        if not self.text and not classify.may_destroy(tool, self.hint, self.args):
            self.losses = ()
            if self.is_attempt:  # `Calls` remembers it in any case
                self.targets = self._classifier.targets(self.event)
        if self.recalled and self.is_attempt:
            self.fingerprint = fingerprint(self.event, action, tool)

    def _of_result(self, action: str, call: Call) -> None:
        """Reads a result by what is remembered of its attempt."""
        self.action = action
        self.index = call.index
        self.runs = call.reading != ""
        self.tool = classify.RUNS[call.reading] if self.runs else self._classifier.tool_of(self.event, action)
        self.text = call.head if self.runs else ""
        if not call.losses:
            self.losses = ()
        if self.recalled:
            self.fingerprint = call.fingerprint

    @property
    def phase(self) -> Phase:
        """Where in the life of its call it stands."""
        if self.is_attempt:
            return _IS_BOTH if self.is_result else _IS_ATTEMPT
        return _IS_RESULT if self.is_result else Phase.NONE

    @property
    def sights(self) -> int:
        """All of `Sight` that hold."""
        sights = _USAGE if self.usage is not None else 0
        if self.event.__pydantic_extra__:
            sights |= _MORE
        if self.is_attempt:
            sights |= _ATTEMPT if self.refused else _ATTEMPT | _BEGUN
        if self.is_result:
            sights |= _RESULT if self.refused else _RESULT | _DONE
        elif not self.is_attempt:
            if self.kind is _STARTED:
                sights |= _START if self.event.task is None else _START | _TASK
            elif self.kind is _MODEL_TURN:
                sights |= _TURN
            return sights | _OTHER | (_FAILURE if self.failed or self.refused else 0)
        if self.failed or self.refused:
            sights |= _FAILURE
        if self.losses:
            sights |= _LOSS
        if self.recalled and (self.is_result or not self.calls.recall.resulted) and self.again is not None:
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
        effect, hint = self.tool.effect or _READ, self.hint
        if hint is not None and hint.rank > effect.rank:
            effect = hint
        return _DESTRUCTIVE if effect is _EXEC and self.destroys else effect

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

    @property
    def waits(self) -> bool:
        """Whether it looks at something that is expected to change by itself."""
        return classify.waits(self._hint, self.tool, self.text)

    @property
    def _hint(self) -> Effect | None:
        """The producer's hint, which a result may leave out."""
        if self.hint is not None or self.call is None:
            return self.hint
        return self.call.effect if self.call.effect is not _READ else None

    @lazy
    def fingerprint(self) -> str:
        """Equal for the same call with the same arguments, but for what varies by itself."""
        if self.call is not None:
            self._require_recalled("the fingerprint of a result")
        return fingerprint(self.event, self.action, self.tool)

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
        return "timeout" if event.outcome is _TIMEOUT else f"{self.action} failed"

    @property
    def evidence(self) -> Evidence:
        """The event itself as evidence."""
        return self.evidence_of(self.event.event_id, self.offset)

    def evidence_of(self, event_id: str, offset: int) -> Evidence:
        """An earlier event of the same session as evidence: all are on the same topic partition."""
        if not self.topic:
            return Evidence(event_id=event_id)
        return Evidence(event_id=event_id, topic=self.topic, partition=self.partition, offset=offset)
