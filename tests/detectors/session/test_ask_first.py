"""The first irreversible act on a target: by itself, and through the core with approvals and presets."""

from collections.abc import Sequence
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.commands.model import ActEffect
from haltline.detectors.session.ask_first import AskFirst, Effect
from haltline.schemas.control import CommandKind
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.policy import Policy, Rule
from haltline.streams.engine.core import Core
from haltline.streams.policy.loader import parse_policy
from haltline.streams.runtime.metrics import Metrics
from haltline.streams.sessions.session_metrics import SessionMetrics
from tests.builders import bash, call, cases, delete, event, fires_at
from tests.docs.pages import DOCS, between, fences_of
from tests.interventions.agent.test_page import scenario, without_its_case
from tests.interventions.control.test_approvals import Session

CAREFUL = AskFirst(effects=("destroys", "spends", "exposes"))
A = "asset_id=a"


def removed(seconds: float, target: str, outcome: Outcome = Outcome.OK) -> tuple[ActionEvent, ActionEvent]:
    return call(seconds, "delete_asset", target, outcome=outcome)


def shell(seconds: float, command: str) -> Sequence[ActionEvent]:
    return call(seconds, "bash", args={"command": command})


@cases(
    "events, at",
    {
        "the first act on a target": ([delete(0, A)], [0]),
        "the same target again": ([delete(0, A), delete(1, A)], [0]),
        "a call that waits for its result, and the same after it": ([removed(0, A), removed(1, A)], [0]),
        "refused, and made again": ([removed(0, A, Outcome.REFUSED), removed(1, A)], [0, 1]),
        "approved, but it failed": ([removed(0, A, Outcome.ERROR), removed(1, A)], [0]),
        "refused before": ([delete(0, A, outcome=Outcome.REFUSED)], []),
        "two at the same time": ([removed(0, A)[0], removed(0.1, A)[0]], [0, 0.1]),
        "money": ([event(0, "transfer_funds", args={"to": "ACME", "amount": 10})], [0]),
        "made public": ([bash(0, "aws s3api put-bucket-acl --bucket b --acl public-read")], [0]),
        "exposed after it was destroyed": (
            [bash(0, "aws s3 rb s3://b --force"), bash(1, "aws s3api put-bucket-acl --bucket b --acl public-read")],
            [0, 1],
        ),
        "the session's own file": ([shell(0, "echo a > report.txt"), shell(2, "rm report.txt")], []),
        "a mail is none of these effects": ([event(0, "send_email", args={"to": "a@example.com"})], []),
    },
)
def test_fires(events: list[ActionEvent | Sequence[ActionEvent]], at: list[float]) -> None:
    assert fires_at(CAREFUL, events) == [(second, "ask_first", "high") for second in at]


def test_by_default_it_asks_about_nothing_allowed_targets_are_free_and_effects_are_those_of_acts() -> None:
    assert AskFirst().idle
    assert fires_at(AskFirst(), [delete(0, A)]) == []
    detector = AskFirst(effects=("destroys",), allowed=("path=/srv/staging/*",))
    assert fires_at(detector, [bash(0, "rm /srv/staging/a")]) == []
    assert fires_at(detector, [bash(0, "rm /srv/staging/a /srv/live/b")]) == [(0, "ask_first", "high")]
    assert set(get_args(Effect)) == {effect.value for effect in ActEffect}
    with pytest.raises(ValueError, match="destroys"):
        AskFirst(effects=("breaks",))  # type: ignore[arg-type]  # what a policy could have


@given(st.lists(st.tuples(st.integers(0, 400), st.sampled_from([Outcome.OK, Outcome.REFUSED])), max_size=60))
def test_a_target_is_asked_about_until_it_was_carried_out(made: list[tuple[int, Outcome]]) -> None:
    events = [removed(at, f"asset_id={target}", outcome) for at, (target, outcome) in enumerate(made)]
    done: set[int] = set()
    expected = []
    for at, (target, outcome) in enumerate(made):
        if target not in done:
            expected.append((at, "ask_first", "high"))
        if outcome is Outcome.OK:
            done.add(target)
    assert fires_at(CAREFUL, events) == expected


def test_its_state_is_bounded() -> None:
    core = Core(Policy(rules={"ask_first": Rule(settings={"effects": ["destroys"]}, levels={}, mode="shadow")}))
    state = None
    for number in range(100):
        proposed, completed = shell(number, " ".join(["rm", *(f"/data/{number}/{file}" for file in range(40))]))
        for one in (proposed, completed) if number % 2 else (proposed,):
            state = core.on_event(state, one).state
    assert state is not None
    assert 0 < len(msgspec.json.encode(state.detectors["ask_first"])) < 32 * 1024


class Careful(Session):
    """Deletes assets under a preset."""

    def __init__(self, document: str = "{preset: careful}") -> None:
        super().__init__()
        self.core = Core(parse_policy(document))

    def delete(self, second: float, target: str) -> str:
        decision = self.propose(second, target)
        refused = decision is not None and decision.level >= Level.PAUSE
        self.completed(second + 0.5, Outcome.REFUSED if refused else Outcome.OK)
        return said(decision)

    def says_of(self, command: str) -> str:
        """The decision on a command line."""
        event = bash(60, command, kind=Kind.PROPOSED, outcome=None, await_verdict=True)
        return said(self.core.on_event(None, event).decision)


def said(decision: Decision | None) -> str:
    return "-" if decision is None else f"{decision.level.value} {decision.code}"


def test_an_approved_call_passes_and_the_same_effect_on_its_target_is_not_asked_about_again() -> None:
    session = Careful()
    request = session.request(session.propose(0, "a"))
    (answer,) = session.says(CommandKind.APPROVE, request)
    assert (answer.level, answer.code) == (Level.ALLOW, "approved")
    session.completed(21, Outcome.OK)
    assert session.delete(500, "a") != "PAUSE ask_first"
    assert session.delete(900, "b") == "PAUSE ask_first"


def test_the_pages_have_a_policy_and_the_words_that_the_model_reads() -> None:
    ((_, document),) = fences_of(between(DOCS / "policy.md", "ask first"))
    session = Careful(document)
    assert session.delete(0, "a") == "PAUSE ask_first"
    assert session.says_of("rm /srv/staging/a") == "ALLOW allowed"
    session = Careful()
    asked = session.propose(0, "a")
    assert asked is not None
    assert without_its_case(asked.message).startswith(scenario()["approval_pending"])
    (rejected,) = session.says(CommandKind.REJECT, session.request(asked))
    assert without_its_case(rejected.message).startswith(scenario()["approval_rejected"])


def test_irreversible_acts_are_counted_by_default_and_on_the_worker_s_metrics_also_where_nothing_else_follows() -> None:
    outcome = Core().on_event(None, bash(0, "rm /srv/data/a && systemctl stop web"))
    assert [(act.effect.value, act.target) for act in outcome.irreversible] == [("destroys", "path=/srv/data/a")]
    assert Core().on_event(None, bash(0, "rm -rf build/")).irreversible == ()
    assert Core().on_event(None, bash(0, "rm /srv/data/a", outcome=Outcome.REFUSED)).irreversible == ()
    metrics = Metrics()
    meter = SessionMetrics(metrics)
    outcome = Core().on_event(None, bash(0, "rm /srv/data/a"))
    assert outcome.follows
    for act in outcome.irreversible:
        meter.irreversible(act.effect.value)
    counted = [metrics.registry.get_sample_value("haltline_irreversible_acts_total", {"effect": e}) for e in ActEffect]
    assert counted == [1, 0, 0, 0, 0, 0]
