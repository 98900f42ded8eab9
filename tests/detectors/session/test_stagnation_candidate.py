from dataclasses import replace

from haltline.detectors import build
from haltline.detectors.features.additive_model import Model
from haltline.detectors.session.stagnation import SHIPPED, Stagnation
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Rule
from tests.builders import Watched, call, cases

LEARNED = replace(SHIPPED, name="learned", version=2)
STRICTER = replace(LEARNED, base=5.0)


def repeats(count: int) -> list[ActionEvent]:
    """One query with the same answer, again and again."""
    return [
        one
        for n in range(count)
        for one in call(n, "query", "table=t", args={"sql": "SELECT 1"}, output_head="0 rows", output_bytes=6)
    ]


@cases(
    "rules, runs",
    {
        "without a word": ({}, False),
        "named without a model": ({"stagnation_candidate": Rule()}, False),
        "with a threshold only": ({"stagnation_candidate": Rule(settings={"pause_at": 2.5})}, False),
        "with the shipped model": ({"stagnation_candidate": Rule(settings={"model": SHIPPED})}, False),
        "with a learned model": ({"stagnation_candidate": Rule(settings={"model": LEARNED})}, True),
        "switched off": ({"stagnation_candidate": Rule(enabled=False, settings={"model": LEARNED})}, False),
    },
)
def test_it_runs_only_with_a_model_of_its_own(rules: dict[str, Rule], runs: bool) -> None:
    assert any(isinstance(detector, StagnationCandidate) for detector in build(rules)) is runs


@cases("model", {"equal points": LEARNED, "more points": STRICTER})
def test_it_finds_what_stagnation_would_with_its_model(model: Model) -> None:
    one, other = Watched(StagnationCandidate(model=model)), Watched(Stagnation(model=model))
    found = [(one(event), other(event)) for event in repeats(15)]
    assert any(finding is not None for finding, _ in found)
    for finding, beside in found:
        if finding is None or beside is None:
            assert finding is beside
        else:
            assert finding.detector == "stagnation_candidate"
            assert finding.model_copy(update={"detector": "stagnation"}) == beside
