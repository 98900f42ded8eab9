from haltline.detectors import PATTERNS
from haltline.detectors.combining.agreement import PARTS
from haltline.interventions.control.rule_causes import _CAUSES, cause_of_rule


def test_a_rules_decisions_are_counted_under_its_cause() -> None:
    causes = {"repetition": "no_progress", "destructive_volume": "destruction", "spend_velocity": "spending"}
    assert {rule: cause_of_rule(rule) for rule in causes} == causes
    assert {cause_of_rule(rule) for rule in (*PARTS, "agreement")} == {"no_progress"}, "what agrees has one cause"
    assert [cause_of_rule(rule) for rule in ("scope_creep", "somebodys_rule")] == ["scope_creep", "somebodys_rule"]
    assert _CAUSES.keys() <= PATTERNS.keys(), "every rule that is named exists"
