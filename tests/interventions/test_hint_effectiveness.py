from haltline.interventions.hint_effectiveness import HintOutcome, by_rule
from haltline.interventions.state.intervention_history import HELPED_ACTIONS
from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind, Outcome
from haltline.schemas.findings import Detection, Severity
from tests.builders import cases
from tests.interventions.cases import found

RULE = "repetition"


def event(number: int, kind: Kind = Kind.PROPOSED, call: int | None = None) -> ActionEvent:
    named = None if kind is Kind.SESSION_ENDED else f"c{number if call is None else call}"
    return ActionEvent(
        event_id=f"e{number}", kind=kind, session_id="s", time=1_790_000_000_000 + number, call_id=named, action="look",
        outcome=Outcome.OK if kind is Kind.COMPLETED else None,
    )  # fmt: skip


def decided(number: int, level: Level, rule: str = RULE, *, would: Level | None = None) -> Decision:
    return Decision(
        decision_id=f"d{number}-{rule}", session_id="s", event_id=f"e{number}", call_id=f"c{number}",
        time=1_790_000_000_000 + number, level=level, would=would, code="x", reason="x", message="Think.",
        detector=rule,
    )  # fmt: skip


def detected(number: int, rule: str = RULE) -> Detection:
    about = {"detection_id": f"f{number}", "session_id": "s", "event_id": f"e{number}", "time": 1_790_000_000_000}
    return Detection(finding=found(Severity.LOW, rule), **about)


def acts(count: int) -> list[ActionEvent]:
    """The call with the hint, its end, and so many calls behind it."""
    return [event(0), event(1000, Kind.COMPLETED, 0), *(event(number) for number in range(1, count + 1))]


HINT = decided(0, Level.NUDGE)


@cases(
    "decisions, detections, events, became",
    {
        "nothing more in the next ten actions": ([], [], acts(HELPED_ACTIONS), HintOutcome.HELPED),
        "nothing more in nine, and no end": ([], [], acts(HELPED_ACTIONS - 1), HintOutcome.UNKNOWN),
        "an end in order before that": ([], [], [*acts(2), event(9, Kind.SESSION_ENDED)], HintOutcome.HELPED),
        "the same rule finds it again": ([], [detected(3)], acts(20), HintOutcome.WENT_ON),
        "another rule finds something": ([], [detected(3, "cycle")], acts(20), HintOutcome.HELPED),
        "it comes again later than that": ([], [detected(11)], acts(20), HintOutcome.HELPED),
        "the rule stops it": ([decided(4, Level.PAUSE)], [detected(3)], acts(20), HintOutcome.STOPPED),
        "the rule would have": ([decided(4, Level.ALLOW, would=Level.KILL)], [], acts(20), HintOutcome.STOPPED),
        "the session's events are not there": ([], [], [], HintOutcome.UNKNOWN),
    },
)
def test_what_became_of_a_hint(
    decisions: list[Decision], detections: list[Detection], events: list[ActionEvent], became: HintOutcome
) -> None:
    (rule,) = [one for one in by_rule([HINT, *decisions], detections, {"s": events}) if one.rule == RULE]
    assert rule.counts == {became: 1}
    assert rule.share == {HintOutcome.HELPED: 1.0, HintOutcome.UNKNOWN: None}.get(became, 0.0)
