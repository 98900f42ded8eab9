import pytest

from haltline.detectors import PATTERNS
from haltline.detectors.combining.agreement import PARTS
from haltline.interventions.control.rule_causes import _CAUSES, cause_of_rule


@pytest.mark.parametrize(
    ("rule", "cause"),
    [
        pytest.param("repetition", "no_progress", id="a loop"),
        pytest.param("agreement", "no_progress", id="several rules that see it"),
        pytest.param("destructive_volume", "destruction", id="deletes"),
        pytest.param("spend_velocity", "spending", id="money"),
        pytest.param("scope_creep", "scope_creep", id="a rule that is like no other"),
        pytest.param("somebodys_rule", "somebodys_rule", id="another package's rule"),
    ],
)
def test_a_rule_s_decisions_are_counted_under_its_cause(rule: str, cause: str) -> None:
    assert cause_of_rule(rule) == cause


def test_every_rule_that_is_named_exists() -> None:
    assert _CAUSES.keys() <= PATTERNS.keys()


def test_what_agrees_has_one_cause() -> None:
    assert {cause_of_rule(rule) for rule in (*PARTS, "agreement")} == {"no_progress"}
