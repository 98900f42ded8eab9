from haltline.detectors.features.novelty import VALUES
from haltline.detectors.session.stagnation import SHIPPED, Stagnation
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.policy import Policy
from haltline.streams.learning.steps import steps_of
from haltline.streams.replay.backtest import Recorded
from haltline.streams.replay.label_precision import recorded
from tests.builders import call, event, findings
from tests.streams.learning.recorded import checks, digs, loops


def test_a_step_is_a_call_whose_result_is_known() -> None:
    begins = event(0, "", kind=Kind.SESSION_STARTED, outcome=None)
    waiting = call(3, "query", "table=a")[0]
    (steps,) = steps_of(
        [
            recorded(
                "s1",
                [
                    begins,
                    *call(1, "query", "table=a", output_head="x"),
                    *call(2, "query", "table=b", output_head="y"),
                    waiting,
                ],
            )
        ]
    )
    assert steps.session_id == "s1"
    assert steps.numbers == (2, 4)
    assert all(len(row) == len(VALUES) for row in steps.values)


def test_numbers_are_those_of_the_source() -> None:
    pair = call(1, "query", "table=a", output_head="x")
    (steps,) = steps_of([Recorded("s1", [(7, one) for one in pair])])
    assert steps.numbers == (7,)


def test_sessions_are_measured_by_themselves() -> None:
    sessions = [recorded("a", loops("a", 1)), recorded("b", checks("b", 1)), recorded("c", [])]
    assert steps_of(sessions) == [steps_of([one])[0] for one in sessions]
    assert steps_of(sessions)[2].numbers == ()


def test_values_are_those_that_the_detector_scores() -> None:
    events = loops("a", 3)
    (steps,) = steps_of([recorded("a", events)])
    scores = {n: round(SHIPPED.score(row), 3) for n, row in zip(steps.numbers, steps.values, strict=True)}
    place = {one.event_id: number for number, one in enumerate(events)}
    found = [(place[one.event_id], finding.values["score"]) for one, finding in findings(Stagnation(), events)]
    assert found
    assert [(number, scores[number]) for number, _ in found] == found


def test_the_policy_says_what_a_tool_does() -> None:
    def changing(effect: str) -> Policy:
        return Policy.model_validate({"tools": [{"match": "query", "effect": effect}]})

    session = recorded("a", digs("a", 12))
    reads, writes = (steps_of([session], changing(effect))[0].values[-1] for effect in ("read", "write"))
    since_edit = [value.name for value in VALUES].index("since_edit")
    assert (reads[since_edit], writes[since_edit]) == (12, 0)


def test_no_sessions_have_no_steps() -> None:
    none: list[ActionEvent] = []
    assert steps_of([recorded("s", none)])[0].values == ()
    assert steps_of([]) == []
