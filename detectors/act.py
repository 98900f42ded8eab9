"""An event as detectors see it: with what the policy knows of the tool and what the session knows of the call."""

from haltline.detectors import classify, progress
from haltline.detectors.calls import Call, Calls, Phase
from haltline.detectors.classify import Classifier
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.errors import Normalization, error_key
from haltline.detectors.fingerprint import fingerprint
from haltline.detectors.recall import Again
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Effect, Outcome
from haltline.schemas.findings import Evidence
from haltline.schemas.policy import Tool

__all__ = ["Act", "Call", "Calls", "Phase"]

_HEAD_CHARS = 240
"""Of a command line or program, what is remembered until its result comes."""
_SHORT_NAME = 3
"""Names of tools no longer than this are words of their own in a message."""


class Act:
    """One event of a session, read by the policy. Features are worked out when first asked for."""

    __slots__ = (
        "_again",
        "_changes",
        "_classifier",
        "_destroys",
        "_fingerprint",
        "_losses",
        "_text",
        "_tool",
        "action",
        "batch",
        "call",
        "calls",
        "event",
        "index",
        "is_attempt",
        "is_result",
        "offset",
        "partition",
        "phase",
        "time_ms",
        "topic",
    )

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
        self.action = event.action or (call.action if call else "")
        self.index = call.index if call is not None else calls.actions + (phase is Phase.ATTEMPT or phase is Phase.BOTH)
        """Which action of the session it is, from 1; of a result, that of its attempt."""
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.is_attempt = phase is Phase.ATTEMPT or phase is Phase.BOTH
        """True once for each call: at its proposal, or at its result when it was never proposed."""
        self.is_result = phase is Phase.RESULT or phase is Phase.BOTH
        """True once for each call: when what came of it is known."""
        self._classifier = classifier
        self._tool: Tool | None = None
        self._text: str | None = None
        self._changes: bool | None = None
        self._destroys: tuple[Destruction, ...] | None = None
        self._losses: tuple[Destruction, ...] | None = None
        self._fingerprint: str | None = None
        self._again: Again | bool | None = False

    @property
    def failed(self) -> bool:
        """The call was executed and did not succeed."""
        outcome = self.event.outcome
        if outcome is None or outcome is Outcome.UNKNOWN:
            return bool(self.event.error) and self.is_result
        return outcome is Outcome.ERROR or outcome is Outcome.TIMEOUT

    @property
    def refused(self) -> bool:
        """The call was never executed."""
        return self.event.outcome is Outcome.REFUSED

    @property
    def tool(self) -> Tool:
        """What is known of the tool."""
        if self._tool is None:
            if self.call is not None and self.call.reading:
                self._tool = classify.RUNS[self.call.reading]
            else:
                self._tool = self._classifier.tool_of(self.event, self.action)
        return self._tool

    @property
    def text(self) -> str:
        """The command line, statement or program that it runs, empty when it runs none; of a result its beginning."""
        if self._text is None:
            if self.call is not None:
                self._text = self.call.head if self.runs else ""
            else:
                self._text = classify.text_of(self.event, self.tool)
        return self._text

    @property
    def runs(self) -> bool:
        """Whether the tool runs a program, a command line or a statement."""
        return self.tool.effect is Effect.EXEC

    @property
    def effect(self) -> Effect:
        """What the action does: the policy's reading, raised by the producer's hint and by what it would destroy."""
        if self.call is not None:
            return Effect(self.call.effect)
        effect = classify.effect_of(self.event, self.tool)
        return Effect.DESTRUCTIVE if effect is Effect.EXEC and self.destroys else effect

    @property
    def destroys(self) -> tuple[Destruction, ...]:
        """What the action would take away, scratch and the session's own things too; of a result, `losses` only."""
        if self.call is not None:
            return self.losses
        if self._destroys is None:
            self._destroys = classify.destroys(self._classifier, self.event, self.tool, self.action, self.text)
        return self._destroys

    @property
    def losses(self) -> tuple[Destruction, ...]:
        """What somebody would miss: neither scratch nor the session's own."""
        if self._losses is None:
            if self.call is not None:
                known = self.call.losses
                self._losses = (
                    tuple(Destruction(verb, what, Badness[how]) for verb, what, how in known) if known else ()
                )
            else:
                destroys = self.destroys
                self._losses = tuple(filter(self.calls.belongings.is_loss, destroys)) if destroys else ()
        return self._losses

    @property
    def creates(self) -> tuple[str, ...]:
        """What the action makes, as targets."""
        if self.call is not None:
            return tuple(self.call.creates)
        return classify.creates(self._classifier, self.event, self.tool, self.text)

    @property
    def head(self) -> str:
        """The beginning of the command line or program, or the first target."""
        if self.call is not None:
            return self.call.head
        return self.text[:_HEAD_CHARS] or self._classifier.targets(self.event)[0]

    @property
    def subject(self) -> str:
        """What the call is about: its tool with the program and its argument, or with its first target."""
        return f"{self.action} {progress.subject(self.head) if self.runs else self.head}"

    @property
    def changes(self) -> bool:
        """Whether it changes anything that a later call could see."""
        if self._changes is None:
            self._changes = classify.changes(self._hint, self.tool, self.text)
        return self._changes

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
        if self.event.effect is not None or self.call is None:
            return self.event.effect
        return Effect(self.call.effect) if self.call.effect != Effect.READ.value else None

    @property
    def fingerprint(self) -> str:
        """Equal for the same call with the same arguments, but for what varies by itself."""
        if self.call is not None:
            return self.call.fingerprint
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.event, self.action, self.tool)
        return self._fingerprint

    @property
    def again(self) -> Again | None:
        """What is known of the same call made before, once what came of this one is known; None: it is new."""
        if self._again is False:
            self._again = self.calls.recall.look(self)
        return self._again  # type: ignore[return-value]  # False stands only for what was not looked up yet

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
