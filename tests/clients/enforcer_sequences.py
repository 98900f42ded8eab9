"""The results of Python's enforcer, step by step, for random sequences of records and requests with fixed seeds."""

import random
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, Unpack
from unittest import mock

from haltline.interventions.agent.call import Call
from haltline.interventions.agent.enforcement import awaited_verdicts, enforcer
from haltline.interventions.agent.enforcement.enforcer import About, Enforcer
from haltline.interventions.agent.enforcement.refusal_cause import Cause
from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.levels.default_levels import HELD_CODE
from haltline.schemas.control import ControlRecord, ControlState, Stage
from haltline.schemas.decisions import WHOLE_SESSION, Approval, ApprovalState, Decision, Level, Mode, ScopeKind
from haltline.schemas.events import Effect

NOW_MS: Final = 1_800_000_000_000
_SEQUENCES: Final = 30
_STEPS: Final = 45
_ACTIONS: Final = ("delete_asset", "get_asset", "run", "task_done")


def sequences() -> list[list[dict[str, Any]]]:
    return [*(_sequence(random.Random(seed)) for seed in range(_SEQUENCES)), *(_told(steps) for steps in _STORIES)]


class _Recorder:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock_s = 1000.0
        self.said: list[list[Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.sent: list[Decision] = []
        self.verdicts: dict[str, Future[Decision | None]] = {}
        self.persons: dict[str, Future[Decision | None]] = {}
        self.events = 0
        self.running: list[str] = []
        settings = GuardSettings(
            session_id="s1", agent_id="a1", mission_id="m1", parent_session_id="s0", bootstrap="kafka:9092"
        )
        self.enforcer = Enforcer(settings, acknowledge=self._acknowledge, now_ms=self.now_ms)

    def now_ms(self) -> int:
        return NOW_MS + round((self.clock_s - 1000) * 1000)

    def _acknowledge(
        self,
        stage: Stage,
        decision_id: str,
        decided_at_ms: int | None,
        **about: Unpack[About],
    ) -> None:
        said = about.get("call_id"), about.get("action", ""), about.get("detail", "")
        self.said.append([stage, decision_id, decided_at_ms, *said])

    def step(self, name: str, *given: Any) -> Any:
        """One step, and what is known after it."""
        self.said.clear()
        enforcer = self.enforcer
        answer = (getattr(self, f"_{name}", None) or getattr(enforcer, name))(*given)
        known = {
            "answer": answer,
            "said": list(self.said),
            "killed": None if enforcer.killed is None else enforcer.killed.decision_id,
            "silent": enforcer.is_silent,
            "degraded": enforcer.degraded(link_up=True),
        }
        self.steps.append({"do": [name, *given]} | {key: value for key, value in known.items() if value})
        return answer

    def _pass(self, seconds: float) -> None:
        self.clock_s += seconds

    def _control(self, key: str, record: dict[str, Any] | None) -> None:
        self.enforcer.control(key, None if record is None else ControlRecord(**record))

    def _decision(self, fields: dict[str, Any]) -> None:
        self.enforcer.decision(Decision(**fields))

    def _await_verdict(self, event_id: str) -> float:
        self.verdicts[event_id] = self.enforcer.await_verdict(event_id)
        return round(self.enforcer.verdict_wait_s(1.0), 6)

    def _give_up(self, event_id: str, refused: bool) -> str | None:
        return self._taken(self.enforcer.give_up(event_id, self.verdicts[event_id], refused=refused))

    def _await_approval(self, event_id: str) -> bool:
        self.persons[event_id] = self.enforcer.await_approval(event_id)
        return self.persons[event_id].done()

    def _take_verdict(self, event_id: str) -> str | None:
        return self._taken(self.enforcer.take_verdict(event_id, self.persons[event_id]))

    def _taken(self, verdict: Decision | None) -> str | None:
        self.last = verdict
        return None if verdict is None else verdict.decision_id

    def _admit_with(self, *given: Any) -> Any:
        return self._admit_without(*given, verdict=self.last)

    def _admit_without(self, *given: Any, verdict: Decision | None = None) -> Any:
        call_id, action, targets, effect, parameters = given
        call = Call(action, {}, targets, None, "blocking", call_id)
        call.effect = Effect(effect)
        admitted = self.enforcer.admit(call, verdict, lambda: parameters)
        self.last = None
        if admitted.cause is None:
            self.running.append(call_id)
        return {
            "cause": _cause(admitted.cause),
            "advice": [one.decision.decision_id for one in admitted.advice],
            "rollbacks": [one.decision_id for one in admitted.rollbacks],
        }

    def _against(self, action: str, targets: list[str], effect: str) -> Any:
        return _cause(self.enforcer.against(action, targets, Effect(effect)))

    def _against_turn(self) -> Any:
        return _cause(self.enforcer.against_turn())

    last: Decision | None = None


def _cause(cause: Cause | None) -> Any:
    return None if cause is None else [cause.decision_id, cause.code, cause.message, cause.decided_at_ms]


@contextmanager
def _clock_of(recorder: _Recorder) -> Iterator[None]:
    clock = SimpleNamespace(monotonic=lambda: recorder.clock_s)
    with mock.patch.object(enforcer, "time", clock), mock.patch.object(awaited_verdicts, "time", clock):
        yield


def _sequence(rng: random.Random) -> list[dict[str, Any]]:
    recorder = _Recorder(rng)
    with _clock_of(recorder):
        if rng.random() < 0.3:
            recorder.step("control", *_entry(recorder))
        recorder.step("loaded")
        while len(recorder.steps) < _STEPS:
            rng.choices((_a_call, _something_arrives, _an_entry, _time_passes), (6, 4, 2, 2))[0](recorder)
    return recorder.steps


def _a_call(recorder: _Recorder) -> None:
    """Proposed, answered in time or not, perhaps by a person, admitted, and perhaps ended."""
    rng = recorder.rng
    recorder.events += 1
    event_id, call_id = f"e{recorder.events}", f"c{recorder.events}"
    action, targets = rng.choice(_ACTIONS), rng.sample(["t=1", "t=2"], rng.randint(0, 1))
    effect, parameters = rng.choice(list(Effect)), rng.choice(("p1", "p2", "p3"))
    if rng.random() < 0.3:
        recorder.step("against", action, targets, effect)
    if rng.random() < 0.3:
        recorder.step("against_turn")
    waits = rng.random() < 0.8
    if waits:
        recorder.step("await_verdict", event_id)
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            recorder.step("decision", _decision(recorder, event_id, parameters))
        if rng.random() < 0.2:
            _time_passes(recorder)
        recorder.step("give_up", event_id, rng.random() < 0.5)
        verdict = recorder.last
        if verdict is not None and verdict.approval is not None and verdict.level is Level.PAUSE:
            recorder.step("await_approval", event_id)
            for _ in range(rng.randint(0, 2)):
                recorder.step("decision", _decision(recorder, event_id, parameters))
            recorder.step("take_verdict", event_id)
            if recorder.last is None:
                recorder.last = verdict
                recorder.steps[-1]["keeps"] = True
        elif rng.random() < 0.3:
            recorder.step("decision", _decision(recorder, event_id, parameters))
    recorder.step("admit_with" if waits else "admit_without", call_id, action, targets, effect, parameters)
    if recorder.running and rng.random() < 0.7:
        recorder.step("done", recorder.running.pop(rng.randrange(len(recorder.running))))


def _something_arrives(recorder: _Recorder) -> None:
    event_id = f"e{recorder.rng.randint(1, recorder.events + 2)}"
    recorder.step("decision", _decision(recorder, event_id, recorder.rng.choice(("p1", "p2"))))


def _an_entry(recorder: _Recorder) -> None:
    if recorder.rng.random() < 0.15:
        recorder.step("unloaded")
        for _ in range(recorder.rng.randint(0, 2)):
            recorder.step("control", *_entry(recorder))
        recorder.step("loaded")
    else:
        recorder.step("control", *_entry(recorder))


def _time_passes(recorder: _Recorder) -> None:
    recorder.step("pass", recorder.rng.choice((0.2, 1.5, 6.0, 40.0)))


def _entry(recorder: _Recorder) -> tuple[str, dict[str, Any] | None]:
    rng = recorder.rng
    scope, scope_id = rng.choice(
        [("session", "s1"), ("session", "s0"), ("session", "s9"), ("agent", "a1"), ("mission", "m1"), ("fleet", "*")]
        + [("tool", one) for one in _ACTIONS] + [("target", "t=1")] * 2
    )  # fmt: skip
    if rng.random() < 0.35:
        return f"{scope}:{scope_id}", None
    weights = (1, 6, 4, 1) if scope not in {"tool", "target"} else (3, 3, 3, 1)
    state = rng.choices(list(ControlState), weights)[0]
    record: dict[str, Any] = {
        "scope": scope,
        "id": scope_id,
        "state": state,
        "code": HELD_CODE if state is ControlState.FROZEN and rng.random() < 0.5 else f"{scope}_{state}_x",
        "reason": "why",
        "decision_id": rng.choice([f"k{rng.randint(1, 40)}", *(one.decision_id for one in recorder.sent[-3:])]),
        "by": rng.choice(("haltline", "ada")),
        "since": recorder.now_ms(),
    }
    if rng.random() < 0.5:
        record["decided_at"] = recorder.now_ms()
    if rng.random() < 0.2:
        record["stopped_at"] = recorder.now_ms()
    if rng.random() < 0.1:
        record["spared"] = ["s1"]
    return f"{scope}:{scope_id}", record


def _decision(recorder: _Recorder, event_id: str, parameters: str) -> dict[str, Any]:
    rng = recorder.rng
    if recorder.sent and rng.random() < 0.12:  # once more, as after a restart of the worker
        again = rng.choice(recorder.sent)
        return again.model_copy(update={"values": {"issued": 2}} if rng.random() < 0.5 else {}).model_dump(
            mode="json", exclude_none=True, exclude_defaults=True
        )
    level = rng.choices(list(Level), (6, 4, 1, 2, 6, 4, 1, 1))[0]
    fields: dict[str, Any] = {
        "decision_id": f"d{len(recorder.sent)}",
        "session_id": "s1",
        "event_id": event_id,
        "time": recorder.now_ms() - rng.choice((0, 0, 0, 0, 0, 45_000)),
        "level": level,
        "code": f"code_{level.lower()}",
        "reason": "why",
        "message": rng.choice(("", f"{level}: for the model")),
        "mode": rng.choice((Mode.ENFORCE,) * 6 + (Mode.SHADOW,)),
        "scope": rng.choice((ScopeKind.SESSION,) * 4 + (ScopeKind.TOOL,)),
    }
    if rng.random() < 0.5:
        fields["decided_at"] = recorder.now_ms()
    if rng.random() < 0.5:
        fields["call_id"] = event_id.replace("e", "c")
    if rng.random() < 0.15:
        fields["scope_id"] = "x"
    if rng.random() < 0.1:
        fields["expires"] = recorder.now_ms() + rng.choice((-1, 60_000))
    if level is Level.PAUSE or rng.random() < 0.25:
        fields["approval"] = Approval(
            request_id=rng.choice(("r1", "r2")),
            nonce="n",
            parameters=parameters,
            state=rng.choices(list(ApprovalState), (8, 2, 3, 1, 2, 2, 1))[0],
            action=rng.choice(("run", "run", WHOLE_SESSION)),
            also=rng.choice((None, None, ["p3"])),
            since=recorder.now_ms(),
            expires=recorder.now_ms() + rng.choice((1_000, 600_000)),
        ).model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    decision = Decision(**fields)
    recorder.sent.append(decision)
    return decision.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


_KILL: Final = {"scope": "session", "id": "s1", "state": "killed", "code": "c", "reason": "r", "decision_id": "d1",
                "since": NOW_MS}  # fmt: skip
_FREEZE: Final = _KILL | {"state": "frozen"}
_KILLED: Final = {"decision_id": "d1", "session_id": "s1", "event_id": "e1", "time": NOW_MS, "level": "KILL",
                  "code": "c", "reason": "r", "message": "for the model"}  # fmt: skip
_REQUEST: Final = {"request_id": "r1", "nonce": "n", "parameters": "p1", "action": WHOLE_SESSION, "since": NOW_MS,
                   "expires": NOW_MS + 60_000}  # fmt: skip
_APPROVED: Final = _KILLED | {"decision_id": "d2", "level": "ALLOW", "approval": _REQUEST | {"state": "approved"}}
_REJECTED: Final = _KILLED | {"decision_id": "d2", "level": "BLOCK", "approval": _REQUEST | {"state": "rejected"}}
_AGAINST: Final[tuple[Any, ...]] = ("against", "run", [], "read")
_STORIES: Final[list[list[tuple[Any, ...]]]] = [
    [("control", "session:s1", _KILL | {"stopped_at": NOW_MS}), ("loaded",)],  # a restart: it is acknowledged already
    [("control", "session:s0", _KILL | {"id": "s0", "stopped_at": NOW_MS}), ("loaded",)],
    *(
        [("loaded",), ("control", "session:s1", _FREEZE | {"by": by}), ("decision", answer), _AGAINST]
        for by in ("haltline", "ada")
        for answer in (_APPROVED, _REJECTED)
    ),
    [("loaded",), ("control", "session:s1", _KILL), ("decision", _KILLED), _AGAINST],
    [("loaded",), ("control", "session:s1", _KILL | {"decision_id": "d9"}), ("decision", _KILLED), _AGAINST],
    [
        ("loaded",), ("await_verdict", "e1"), ("control", "session:s1", _FREEZE),
        ("decision", _KILLED | {"level": "PAUSE", "approval": _REQUEST}), ("give_up", "e1", True),
        ("await_approval", "e1"), ("decision", _APPROVED), ("take_verdict", "e1"),
        ("admit_with", "c1", "run", [], "exec", "p1"),
    ],
]  # fmt: skip


def _told(steps: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    recorder = _Recorder(random.Random(0))
    with _clock_of(recorder):
        for name, *given in steps:
            recorder.step(name, *given)
    return recorder.steps
