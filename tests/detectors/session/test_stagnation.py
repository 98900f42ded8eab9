from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from pydantic import ValidationError

from haltline.detectors.features.additive_model import Feature, Model
from haltline.detectors.features.novelty import VALUES
from haltline.detectors.session.stagnation import SHIPPED, Stagnation
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Severity
from tests.builders import bash, cases, each, event, findings, fires_at, when

Step: TypeAlias = Callable[[int], ActionEvent]
ANIMALS = ("badger", "cormorant", "dormouse", "eagle", "ferret", "goshawk", "heron", "ibex", "jackdaw", "kestrel")


def model(**points: tuple[tuple[float, ...], tuple[float, ...]]) -> Model:
    """A model of which only these features give points: edges and points by name."""
    features = tuple(Feature(value.name, *points.get(value.name, ((), (0.0,)))) for value in VALUES)
    return Model("test", 1, 0.0, features)


ROUND = model(results_seen_12=((0.5, 2.5, 4.5), (-3.0, 0.0, 1.0, 2.0)))
"""One point for every second repetition, more or less: what a test can count."""
LADDER = Stagnation(model=ROUND, hint_at=0.0, firm_at=1.0, pause_at=2.0, pause_steps=2, least_steps=1)


def look(second: float, what: str) -> ActionEvent:
    return event(second, "read_file", f"path={what}", args={"path": what}, output_head=f"all of {what}")


def edit_and_test(rounds: int) -> list[ActionEvent]:
    """Each edit is another one, and each run says something else."""
    events = []
    for number in range(rounds):
        animal = ANIMALS[number % len(ANIMALS)]
        events.append(bash(4 * number, f"sed -i s/x/{animal}{number * 'o'}/ src/app.py", output_head=""))
        failing = f"FAILED test_{animal}_{number * 'o'} - expected {animal}, {rounds - number} failed"
        events.append(bash(4 * number + 2, "pytest -q", output_head=failing, output_bytes=len(failing)))
    return events


def test_the_ladder_counts_scores_in_a_row_which_a_low_one_breaks() -> None:
    events = each(8, look, "a")
    # The last of the high ones is the first of the two steps that pause it.
    assert when(LADDER, events) == "1m 2m 3h 4h 5h 6c 7c"
    assert {code for _, code, _ in fires_at(LADDER, events)} == {"stagnation"}
    scored = model(negative_20=((), (0.0,)), aligned_run=((0.5,), (-5.0, 3.0)))
    homes = ["badger's burrow"] * 2 + ["ferret's hutch"] * 3
    order = [event(s, "read_file", args={"path": home}, output_head=f"the {home}") for s, home in enumerate(homes)]
    assert when(Stagnation(model=scored, least_steps=1, pause_steps=2), order) == "1h 3h 4c"


@cases(
    "events, expected",
    {
        "one command that fails alike": (
            [bash(4 * s, "python app.py", "KeyError: 'name'", output_head="", output_bytes=0) for s in range(24)],
            "critical"),
        "three files in turn": (
            [look(4 * s, ("a", "b", "c")[s % 3]) for s in range(36)], "critical"),
        "edit and test with other results": (edit_and_test(15), None),
        "many files read once": ([look(4 * s, f"{a}/{b}") for s, (a, b) in enumerate(
            (a, b) for a in ANIMALS[:5] for b in ANIMALS[5:])], None),
        "one message to each of forty people": (
            [event(4 * s, "send_mail", args={"to": f"{s}@example.org"}, output_head="sent") for s in range(40)],
            None),
        "one look more at the same": ([look(0, "a"), look(4, "a")], None),
    },
)  # fmt: skip
def test_the_shipped_model(events: list[ActionEvent], expected: str | None) -> None:
    severities = [severity for _, _, severity in fires_at(Stagnation(), events)]
    assert (severities[-1] if severities else None) == expected


SURE = Stagnation(model=model(negative_20=((), (3.0,))), least_steps=1, known_stop=4)
"""Every step has a high score."""


def step(number: int, action: str, result: str, **args: object) -> ActionEvent:
    """A call of which the guard says that its result has one new word."""
    novelty = {"new_words": 1, "words": 9, "results": number}
    return event(4 * number, action, args=args, output_head=result, output_novelty=novelty)


@cases(
    "makes, warned",
    {
        "one form after another": (
            (
                lambda n: step(n, "browser_navigate", "a form", url="https://club.example/new"),
                lambda n: step(n, "browser_fill", "filled", value=f"member {n}"),
                lambda n: step(n, "browser_click", f"saved as {n}", element="Save"),
            ),
            False,
        ),
        "one file after another": (
            (
                lambda n: step(n, "read_file", f"package p{n}", path=f"p{n}.go"),
                lambda n: step(n, "edit_file", "done", path=f"p{n}.go", old="a", new="b"),
            ),
            False,
        ),
        "the same edit and the same test": (
            (
                lambda n: step(n, "edit_file", "done", path="a.py", old="a", new="b"),
                lambda n: step(n, "run_tests", "1 failed", script="a"),
            ),
            True,
        ),
    },
)
def test_work_that_gets_on_is_not_warned_whatever_its_score(makes: Sequence[Step], warned: bool) -> None:
    events = [makes[n % len(makes)](n) for n in range(24)]
    assert bool(fires_at(SURE, events)[12:]) is warned


def test_a_finding_names_what_repeats_and_the_points_of_each_feature_and_the_shipped_model_says_where_it_is_from() -> (
    None
):
    ((_, finding),) = findings(LADDER, [look(0, "a"), look(1, "a")])
    assert finding.severity is Severity.MEDIUM
    assert "1 of the last 12 results begin as earlier ones" in finding.reason
    assert finding.values["score"] == 0.0
    assert finding.values["results_seen_12"] == 0.0
    assert set(finding.values) == {"score", "base", *(value.name for value in VALUES)}
    assert finding.thresholds["model"] == "test 1"
    assert [e.event_id for e in finding.evidence] == ["s1@1 read_file path=a"]
    assert SHIPPED.trained["seed"] == 1
    assert int(SHIPPED.trained["runaways"]) > 300
    assert SHIPPED.quality["task left out: judged, stop: held"] == "85 of 159"


@cases(
    "settings, expected",
    {
        "steps in disorder": ({"hint_at": 3.0, "pause_at": 2.0}, "hint_at <= firm_at <= pause_at"),
        "other features": ({"model": Model("x", 1, 0.0, (Feature("a", (), (0.0,)),))}, "a model of stale_balance"),
    },
)
def test_settings_that_cannot_be_used(settings: dict[str, object], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        Stagnation(**settings)  # type: ignore[arg-type]  # what a policy may hold
