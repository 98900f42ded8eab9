"""Detectors of other packages in the pure core: what they may do, and the handling of their errors."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar

import pydantic
import pytest
from pydantic import Field

from haltline.detectors import ALL, catalogue
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.detectors.framework.plugins import MAX_STATE_BYTES, Plugins, Source, Stopwatch
from haltline.detectors.framework.strictness import Stricter, direction_of, stricter
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.policy import Override, Policy, Rule
from haltline.streams.engine.core import Core, Effects, SessionState
from haltline.streams.sessions import state_codec
from tests.builders import cases, delete, event


@dataclass(slots=True)
class Count:
    count: int = 0
    kept: list[Any] = field(default_factory=list)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class TooManyCalls(Detector[Count]):
    id: ClassVar[str] = "too_many_calls"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.PROPOSED, Kind.COMPLETED})
    limit: Annotated[int, Field(ge=1), Stricter.LOWER] = 3

    def start(self) -> Count:
        return Count()

    def observe(self, state: Count, act: Observation) -> Finding | None:
        state.count += 1
        if state.count <= self.limit:
            return None
        return self.finding("too_many_calls", Severity.HIGH, f"{state.count} calls", (act.evidence,))

    def near(self, state: Count) -> float:
        return state.count / self.limit


NAMED = Policy(rules={"too_many_calls": Rule()})
CALLS = [event(s, "look", f"x={s}") for s in range(6)]


def plugins(found: object = TooManyCalls, stopwatch: Stopwatch | None = None) -> Plugins:
    return Plugins({"too_many_calls": Source(lambda: found, "calls:TooManyCalls of calls 1.0")}, stopwatch)


def run(core: Core, *, restart_at: int | None = None) -> list[Effects]:
    state: SessionState | None = None
    outcomes = []
    for number, call in enumerate(CALLS):
        if number == restart_at and state is not None:
            state = state_codec.decode(state_codec.encode(state))
        outcomes.append(core.on_event(state, call))
        state = outcomes[-1].state
    return outcomes


def reasons(outcomes: list[Effects]) -> list[str]:
    return [d.finding.reason for o in outcomes for d in o.detections]


def failures(outcomes: list[Effects]) -> list[str]:
    return [f"{f.detector}: {f.error}" for o in outcomes for f in o.failures]


def test_it_runs_where_the_policy_names_it_and_is_not_even_imported_elsewhere() -> None:
    outcomes = run(Core(NAMED, plugins()))
    assert reasons(outcomes) == ["4 calls", "5 calls", "6 calls"]
    decision = outcomes[3].decision
    assert decision is not None
    assert (decision.detector, decision.level, decision.mode) == ("too_many_calls", Level.REINFORCE, Mode.ENFORCE)
    assert decision.near["too_many_calls"] == 1

    def load() -> object:
        raise AssertionError("imported")

    assert reasons(run(Core(Policy(), Plugins({"too_many_calls": Source(load, "calls:X")})))) == []


@cases(
    "policy, found",
    {
        "its settings": (Policy(rules={"too_many_calls": Rule(settings={"limit": 5})}), ["6 calls"]),
        "for this session only": (
            Policy(overrides=(Override(session="s1", rules={"too_many_calls": Rule(enabled=True)}),)),
            ["4 calls", "5 calls", "6 calls"],
        ),
        "the stricter setting counts": (
            Policy(rules=NAMED.rules, overrides=(Override(rules={"too_many_calls": Rule(settings={"limit": 1})}),)),
            ["2 calls", "3 calls", "4 calls", "5 calls", "6 calls"],
        ),
    },
)
def test_a_policy_sets_it_like_a_built_in_one(policy: Policy, found: list[str]) -> None:
    assert reasons(run(Core(policy, plugins()))) == found


def derived(**members: object) -> type:
    """The detector with other members."""
    return type("Derived", (TooManyCalls,), members)


def test_a_restart_in_the_middle_changes_nothing() -> None:
    core = Core(NAMED, plugins())
    expected = run(core)
    for restart_at in range(1, len(CALLS)):
        result = run(core, restart_at=restart_at)
        assert [o.detections for o in result] == [o.detections for o in expected]
        assert state_codec.encode(result[-1].state) == state_codec.encode(expected[-1].state)


def broken_import() -> object:
    raise ImportError("No module named 'numpy'")


@cases(
    "load, message",
    {
        "an import error": (broken_import, "expected a detector that can be imported, got ImportError: No module"),
        "another class": (lambda: Count, "expected a class derived from .*, got <class .*Count'>"),
        "methods are missing": (
            lambda: type("Half", (Detector,), {"id": "too_many_calls"}),
            "expected every method of a detector, got a class without observe",
        ),
        "another id": (lambda: derived(id="other"), "expected the id 'too_many_calls', got 'other'"),
        "kinds that are none": (
            lambda: derived(reads=("action.proposed",)),
            r"expected reads, a frozenset of Kind, got \('action.proposed',\)",
        ),
        "a state that is no JSON": (
            lambda: derived(start=lambda _: object()),
            "expected a state that survives JSON, got ",
        ),
    },
)
def test_what_cannot_be_used_is_refused_with_where_and_why(load: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^rules\.too_many_calls: .*{message}"):
        Core(NAMED, Plugins({"too_many_calls": Source(load, "calls:TooManyCalls of calls 1.0")}))


def test_a_name_that_is_taken_a_wrong_setting_and_one_that_is_not_installed_are_refused() -> None:
    evil = Plugins({"cycle": Source(lambda: TooManyCalls, "evil:Cycle of evil 1.0")})
    with pytest.raises(ValueError, match=r"^entry points haltline\.detectors: expected another .* 'cycle' from evil"):
        catalogue(Policy(), evil)
    policy = Policy(rules={"too_many_calls": Rule(settings={"limit": 0})})
    with pytest.raises(ValueError, match=r"^rules\.too_many_calls\.settings\.limit: expected greater than or equal"):
        Core(policy, plugins())
    with pytest.raises(ValueError, match=r"^rules\.too_many_calls: expected one of .*, got 'too_many_calls'"):
        Core(NAMED)


def raises(self: object, state: Count, act: Observation) -> None:
    raise ZeroDivisionError("no calls")


def exits(self: object, state: Count, act: Observation) -> None:
    raise SystemExit(1)


def keeps_an_object(self: object, state: Count, act: Observation) -> None:
    state.kept.append(object())


def grows(self: object, state: Count, act: Observation) -> None:
    state.kept.append("x" * (MAX_STATE_BYTES // 2))


def in_anothers_name(self: Any, state: Count, act: Observation) -> Finding:
    finding: Finding = self.finding("x", Severity.CRITICAL, "x", (act.evidence,))
    return finding.model_copy(update={"detector": "cycle"})


def without_evidence(self: Any, state: Count, act: Observation) -> Finding:
    finding: Finding = self.finding("x", Severity.CRITICAL, "x", ())
    return finding


@cases(
    "observe, text, times",
    {
        "raises": (raises, "no calls", 6),
        "exits": (exits, "expected it to return, got SystemExit: 1", 6),
        "keeps what is no JSON": (keeps_an_object, "expected a state of plain JSON values", 6),
        "keeps too much": (grows, f"expected a state of at most {MAX_STATE_BYTES} bytes, got", 3),
        "returns something else": (lambda *_: "found", "expected a Finding or None, got 'found'", 6),
        "in another's name": (in_anothers_name, "a finding in its own name, got one of 'cycle'", 6),
        "no evidence": (without_evidence, r"expected evidence that ends with the event, got \(\)", 6),
    },
)
def test_one_that_does_harm_is_contained_counted_and_named(observe: object, text: str, times: int) -> None:
    core = Core(NAMED, plugins(derived(observe=observe)))
    outcomes = run(core)
    assert [f.detector for o in outcomes for f in o.failures] == ["too_many_calls"] * times
    assert all(re.search(text, failure) for failure in failures(outcomes))
    assert state_codec.decode(state_codec.encode(outcomes[-1].state)).events == len(CALLS)
    deletes = [core.on_event(outcomes[-1].state, delete(s)) for s in (10, 11, 12)]
    assert {"loop_suspected", "loop_detected"} <= {d.finding.code for o in deletes for d in o.detections}


def test_a_near_that_raises_says_nothing_and_a_state_of_another_shape_is_forgotten_and_reported_once() -> None:
    def near(self: object, state: Count) -> float:
        raise ZeroDivisionError

    outcomes = run(Core(NAMED, plugins(derived(near=near))))
    assert reasons(outcomes) == ["4 calls", "5 calls", "6 calls"]
    assert outcomes[3].decision is not None
    assert "too_many_calls" not in outcomes[3].decision.near
    core = Core(NAMED, plugins())
    state = SessionState("s1", detectors={"too_many_calls": {"state": {"count": "many"}}})
    outcomes = [core.on_event(state, call) for call in CALLS]
    assert [len(o.failures) for o in outcomes] == [1, 0, 0, 0, 0, 0]
    assert reasons(outcomes) == ["4 calls", "5 calls"]


class Clock:
    """Steps by the next of the given milliseconds at each second look: once for each call."""

    def __init__(self, *took_ms: float) -> None:
        self.now_ns = 0
        self.took_ms = list(took_ms)
        self.looks = 0

    def __call__(self) -> int:
        self.looks += 1
        if self.looks % 2 == 0:
            self.now_ns += int((self.took_ms.pop(0) if self.took_ms else 0) * 1e6)
        return self.now_ns


def stopwatch(*took_ms: float, overruns: int = 1) -> tuple[Stopwatch, list[tuple[str, float]]]:
    received: list[tuple[str, float]] = []
    tell = lambda detector, ms: received.append((detector, ms))  # noqa: E731 - shorter than what it is given to
    return Stopwatch(Clock(*took_ms), budget_ms=5, overruns=overruns, tell=tell), received


def test_one_that_is_slow_too_often_is_counted_named_and_switched_off() -> None:
    # Each event calls it twice: whether it is concerned, and what it finds.
    watch, received = stopwatch(0, 1, 0, 1, 0, 6, 0, 1, 0, 7)
    outcomes = run(Core(NAMED, plugins(stopwatch=watch)))
    assert received == [("too_many_calls", 6.0), ("too_many_calls", 7.0)]
    (reported,) = failures(outcomes)
    assert reported == (
        "too_many_calls: switched off until the process restarts: expected at most 1 of 100 calls"
        " above 5 ms, got one more, of 7.0 ms"
    )
    assert [len(o.failures) for o in outcomes] == [0, 0, 0, 0, 1, 0]
    assert reasons(outcomes) == ["4 calls"]
    assert watch.off == {"too_many_calls"}


def test_overruns_long_back_do_not_count_and_one_that_is_fast_enough_finds_the_same() -> None:
    watch, received = stopwatch(6, *[1] * 99, 6, *[1] * 99, 6)
    for _ in range(201):
        watch.timed("x", lambda: None)
    assert len(received) == 3
    assert watch.off == set()
    watch, received = stopwatch(*[4] * 20)
    timed, untimed = run(Core(NAMED, plugins(stopwatch=watch))), run(Core(NAMED, plugins()))
    assert [(o.detections, o.decision) for o in timed] == [(o.detections, o.decision) for o in untimed]
    assert received == []


@pytest.mark.parametrize("settings", [{"budget_ms": 0}, {"overruns": -1}, {"overruns": 100}])
def test_a_stopwatch_needs_sensible_limits(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected budget_ms above 0 and 0 to 99 overruns"):
        Stopwatch(lambda: 0, **settings)


def test_every_setting_declares_which_way_it_is_stricter() -> None:
    for detector in ALL:
        for setting in fields(detector):
            declared = direction_of(setting.type)
            assert isinstance(declared, Stricter), (
                f"{detector.id}.{setting.name}: expected Stricter.X in its annotation"
            )
            default = getattr(detector(), setting.name)
            assert stricter(declared, default, default) == default


@cases(
    "direction, one, other, expected",
    {
        "the lower count": (Stricter.LOWER, 3, 5, 3),
        "steps one by one, still in order": (Stricter.LOWER, (3, 4, 9), (2, 6, 7), (2, 4, 7)),
        "limits key by key, and a limit is stricter than none": (
            Stricter.LOWER,
            {"tokens": 100.0, "calls": 9.0},
            {"tokens": 500.0, "cost_usd": 2.0},
            {"tokens": 100.0, "calls": 9.0, "cost_usd": 2.0},
        ),
        "a limit where there was none": (Stricter.LOWER, None, 10.0, 10.0),
        "a limit is not taken away": (Stricter.LOWER, 10.0, None, 10.0),
        "both lists, each item once": (Stricter.MORE, ("a", "b"), ("b", "c"), ("a", "b", "c")),
        "no direction: the last word": (Stricter.NEITHER, "overlap", "jaccard", "jaccard"),
    },
)
def test_the_stricter_of_two_values(direction: Stricter, one: object, other: object, expected: object) -> None:
    assert stricter(direction, one, other) == expected
