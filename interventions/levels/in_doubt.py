"""Findings in doubt, according to the policy, and their limited levels. Pure."""

from typing import Final

from haltline.interventions.levels.default_levels import JUDGEMENT
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.opinions import OpinionRules, WithoutAnswer
from haltline.schemas.policy import Policy

CODE: Final = "second_opinion"
"""The code of the finding that a verdict causes."""


def level_in_doubt(policy: Policy, finding: Finding, mode: Mode, level: Level) -> Level:
    """Return a rule's level on a finding, limited if only a verdict may raise it."""
    rules = policy.opinion
    if rules is None or rules.without_answer is not WithoutAnswer.HINT or mode is not Mode.ENFORCE:
        return level
    return min(level, Level.NUDGE) if is_in_doubt(finding, rules) else level


def is_in_doubt(finding: Finding, rules: OpinionRules) -> bool:
    """Return whether a finding is one of judgement between the thresholds."""
    return finding.code != CODE and is_eligible(rules, finding.detector, finding.severity)


def is_eligible(rules: OpinionRules, detector: str, severity: Severity) -> bool:
    """Return whether a second opinion is requested on a rule's finding of this severity."""
    return detector in (rules.rules or JUDGEMENT) and rules.is_in_doubt(severity)


def level_of_verdict(finding: Finding, level: Level) -> Level:
    """Return a rule's level on the finding that a verdict causes: it asks a person, at most."""
    return min(level, Level.PAUSE) if finding.code == CODE else level
