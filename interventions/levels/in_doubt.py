"""Which findings are in doubt, as the policy says, and what is left of their levels. Pure."""

from typing import Final

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.opinions import OpinionRules, WithoutAnswer
from haltline.schemas.policy import Policy

CODE: Final = "second_opinion"
"""Of the finding that a verdict leads to."""

OF_JUDGEMENT: Final = frozenset(
    {
        "agreement", "cycle", "environment_gone", "error_repetition", "exploration_wandering", "fruitless_search",
        "fruitless_waits", "goal_drift", "hallucination", "invented_data", "monologue", "polling", "repetition",
        "stagnation",
    }
)  # fmt: skip
"""Rules that judge whether a session gets on. Harm, budgets and what was refused are for nobody to have opinions on."""


def level_in_doubt(policy: Policy, finding: Finding, mode: Mode, level: Level) -> Level:
    """What is left of a rule's level on a finding that only a verdict may raise."""
    rules = policy.opinion
    if rules is None or rules.without_answer is not WithoutAnswer.HINT or mode is not Mode.ENFORCE:
        return level
    return min(level, Level.NUDGE) if is_in_doubt(finding, rules) else level


def is_in_doubt(finding: Finding, rules: OpinionRules) -> bool:
    """Whether a finding is one of judgement between the thresholds."""
    return finding.code != CODE and is_eligible(rules, finding.detector, finding.severity)


def is_eligible(rules: OpinionRules, detector: str, severity: Severity) -> bool:
    """Whether a second opinion is requested on what a rule finds with this severity."""
    return detector in (rules.rules or OF_JUDGEMENT) and rules.is_in_doubt(severity)


def level_of_verdict(finding: Finding, level: Level) -> Level:
    """What is left of a rule's level on the finding that a verdict leads to: it asks a person, and does no more."""
    return min(level, Level.PAUSE) if finding.code == CODE else level
