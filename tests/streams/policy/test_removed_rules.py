"""Policies of earlier releases name rules that are gone."""

from haltline.streams.engine.core import Core
from haltline.streams.policy.loader import in_vain, parse_policy
from tests.builders import bash
from tests.cases import cases


@cases(
    "document, places",
    {
        "a rule with settings": ("rules: {retry_storm: {settings: {medium: 3}}}", ["rules.retry_storm"]),
        "one that was switched off": ("rules: {context_thrash: {enabled: false}}", ["rules.context_thrash"]),
        "in an override": ("overrides: [{rules: {verify_mismatch: {}}}]", ["overrides.0.rules.verify_mismatch"]),
        "on probation": (
            "operations: {probation: {rules: {verify_mismatch: {}}}}",
            ["operations.probation.rules.verify_mismatch"],
        ),
        "for a second opinion": ("opinion: {rules: [retry_storm, cycle]}", ["opinion.rules.retry_storm"]),
        "none": ("rules: {cycle: {enabled: false}}", []),
    },
)
def test_a_policy_that_names_a_rule_that_is_gone_is_used_and_says_so(document: str, places: list[str]) -> None:
    policy = parse_policy(document)
    lines = in_vain(policy)
    assert [line.partition(": ")[0] for line in lines] == places
    assert all(": the rule is gone and has no effect: " in line for line in lines)
    assert Core(policy).on_event(None, bash(0, "ls")).applied
