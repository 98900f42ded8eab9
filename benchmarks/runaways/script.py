"""Generates the events of one agent, on a simulated clock; the same seed gives the same events."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from haltline.schemas.control import Batch, Command, CommandKind
from haltline.schemas.events import ActionEvent, Kind, Novelty, Outcome, Usage

START_MS = 1_750_000_000_000
_HEAD_CHARS = 300
_WORDS = (
    "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "harbor", "inlet", "juniper", "kelp", "lagoon",
    "meadow", "north", "orchard", "prairie", "quarry", "ridge", "summit", "tundra", "upland", "valley", "willow",
)  # fmt: skip
_SUFFIXES = (".py", ".ts", ".go", ".sql", ".md", ".yaml")


class Pace(NamedTuple):
    """How long an agent thinks before a call, in seconds."""

    name: str
    least_s: float
    most_s: float
    clock: bool = True
    """False: one fixed step for each action, as intake times a source without timestamps."""


PACES = (
    Pace("fast", 0.2, 2),
    Pace("usual", 2, 15),
    Pace("slow", 5, 40),
    Pace("without a clock", 5, 5, clock=False),
)


@dataclass(frozen=True)
class Call:
    """One call and its result."""

    action: str
    args: Mapping[str, Any] = field(default_factory=dict)
    output: str | None = None
    """None: a new text."""
    error: str | None = None
    targets: Sequence[str] = ()
    outcome: Outcome | None = None
    usage: Usage | None = None
    took_s: float | None = None
    output_bytes: int | None = None
    new_words: int | None = None
    """New words in the whole result, as the agent's side counts them; None: not reported."""


@dataclass
class Log:
    """The events of all sessions of one case, and where the runaway began."""

    events: list[ActionEvent] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    """Operators' commands, given before the first event."""
    began: str | None = None
    """Id of the first event that is part of the runaway."""
    marked: bool = False
    """The next step is that event."""


class Script:
    """One session. How it reports is drawn once: whether calls are proposed, have ids, and come in model turns."""

    def __init__(self, rng: random.Random, log: Log, session_id: str, pace: Pace) -> None:
        self.rng = rng
        self.log = log
        self.session_id = session_id
        self.agent_id = "agent-7"
        self.pace = pace
        self.now_ms = START_MS + rng.randrange(3_600_000)
        self.parent: Script | None = None
        self.actions = 0
        self.proposes = rng.random() < 0.85
        self._has_ids = rng.random() < 0.9
        self._turns = rng.random() < 0.3
        self._tells_usage = rng.random() < 0.7
        self._seq = 0

    def child(self) -> "Script":
        """A session that this one starts; it reports in the same way."""
        number = sum(event.kind is Kind.SESSION_STARTED for event in self.log.events)
        child = Script(self.rng, self.log, f"{self.root.session_id}/sub-{number}", self.pace)
        child.parent, child.now_ms = self, self.now_ms + 100
        child.proposes, child._has_ids, child._turns = self.proposes, self._has_ids, self._turns
        child._tells_usage = self._tells_usage
        child.started()
        return child

    @property
    def root(self) -> "Script":
        return self if self.parent is None else self.parent.root

    def begins(self) -> None:
        """The runaway begins with the next step."""
        if self.log.began is None:
            self.log.marked = True

    def started(self, **task: Any) -> None:
        """Reports the start of the session and its task."""
        self._tell(Kind.SESSION_STARTED, **({"task": task} if task else {}))

    def wait(self, seconds: float) -> None:
        """Nothing happens for this time; a session without a clock ignores it."""
        if self.pace.clock:
            self.now_ms += round(seconds * 1000)

    def call(self, action: str, args: Mapping[str, Any] | None = None, **result: Any) -> None:
        """One call after some thinking time; fields of `Call` by name."""
        self.together([Call(action, args or {}, **result)])

    def together(self, calls: Sequence[Call]) -> None:
        """The parallel calls of one model turn."""
        self._think()
        if self._turns:
            self._tell(Kind.MODEL_TURN, action="model", usage=self._usage())
        ids = []
        for call in calls:
            self.actions += 1
            ids.append(f"call-{self.actions}" if self._has_ids else None)
            if self.proposes:
                self._tell(Kind.PROPOSED, call_id=ids[-1], **_said(call))
        for call_id, call in zip(ids, calls, strict=True):
            if self.pace.clock:
                took_s = self.rng.uniform(0.05, 1.5) if call.took_s is None else call.took_s
                self.now_ms += round(took_s * 1000)
            usage = call.usage or (None if self._turns else self._usage())
            result = {"action": call.action} if self.proposes else _said(call)
            self._tell(Kind.COMPLETED, call_id=call_id, usage=usage, **result, **self._came(call))

    def clean_up(self, deletes: int, most: int) -> None:
        """Deletes assets of staging, each once; an operator has declared beforehand that it may delete `most`."""
        batch = Batch(
            actions="delete_*", targets=["asset_id=stg_*"], max_deletes=most, expires=self.now_ms + 6 * 3_600_000
        )
        command = Command(
            command_id=f"batch-{self.session_id}",
            kind=CommandKind.BATCH,
            id=self.session_id,
            by="ada",
            reason="staging is cleaned up",
            time=self.now_ms,
            batch=batch,
        )
        self.log.commands.append(command)
        for _ in range(deletes):
            self.call("delete_asset", {"asset_id": f"stg_{self.name()}"}, output="deleted")

    def turn(self, text: str, usage: Usage | None = None) -> None:
        """A model turn with text and no calls."""
        self._think()
        self._tell(Kind.MODEL_TURN, action="model", usage=usage, **_output(text, None))

    def work(self, actions: int) -> None:
        """Ordinary work: nothing in it repeats."""
        for _ in range(actions):
            kind = self.rng.randrange(6)
            if kind == 0:
                self.call("search_code", {"query": self.words(3)})
            elif kind == 1:
                self.call("bash", {"command": f"grep -rn '{self.name()}' src/{self.word()}"})
            elif kind == 2:
                self.call("edit_file", {"path": self.path(), "old": self.words(2), "new": self.words(3)}, output="ok")
            elif kind == 3:
                self.call("bash", {"command": f"python -m pytest -q tests/test_{self.name()}.py"})
            else:
                self.call("read_file", {"path": self.path()})

    def word(self) -> str:
        return self.rng.choice(_WORDS)

    def words(self, count: int) -> str:
        return " ".join(self.rng.choice(_WORDS) for _ in range(count))

    def name(self) -> str:
        """A name that is unique for practical purposes."""
        return f"{self.word()}_{self.rng.randrange(100_000)}"

    def path(self) -> str:
        return f"/srv/app/src/{self.word()}/{self.name()}{self.rng.choice(_SUFFIXES)}"

    def text(self, words: int = 30) -> str:
        """A unique result."""
        return f"{self.rng.getrandbits(32):08x} {self.words(words)}"

    def _think(self) -> None:
        self.now_ms += round(self.rng.uniform(self.pace.least_s, self.pace.most_s) * 1000)

    def _usage(self) -> Usage | None:
        """The usage of a context that grows with every call, as usual."""
        if not self._tells_usage:
            return None
        tokens = round((4000 + 250 * self.actions) * self.rng.uniform(0.9, 1.1))
        out = self.rng.randrange(30, 400)
        return Usage(input_tokens=tokens, output_tokens=out, cost_usd=round((tokens + 5 * out) * 2e-6, 6))

    def _came(self, call: Call) -> dict[str, Any]:
        outcome = call.outcome or (Outcome.OK if call.error is None else Outcome.ERROR)
        output = call.output if call.output is not None else ("" if call.error else self.text())
        fields = {"outcome": outcome, "error": call.error} | _output(output, call.output_bytes)
        if call.new_words is not None:
            fields["output_novelty"] = Novelty(new_words=call.new_words, words=200, results=self.actions)
        return fields

    def _tell(self, kind: Kind, **fields: Any) -> None:
        event = ActionEvent(
            event_id=f"{self.session_id}#{self._seq}",
            kind=kind,
            session_id=self.session_id,
            agent_id=self.agent_id,
            parent_session_id=self.parent.session_id if self.parent else None,
            root_session_id=self.root.session_id if self.parent else None,
            seq=self._seq,
            time=self.now_ms,
            **fields,
        )
        self._seq += 1
        self.log.events.append(event)
        if self.log.marked and (kind is not Kind.MODEL_TURN or event.output_bytes is not None):
            self.log.began, self.log.marked = event.event_id, False


def _said(call: Call) -> dict[str, Any]:
    return {"action": call.action, "args": dict(call.args), "targets": list(call.targets)}


def _output(text: str, size: int | None) -> dict[str, Any]:
    return {
        "output_head": text[:_HEAD_CHARS],
        "output_bytes": len(text) if size is None else size,
        "output_digest": blake2b(text.encode(), digest_size=8).hexdigest(),
    }
