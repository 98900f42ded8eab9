import pytest

from haltline.detectors import ALL, PATTERNS, act, base, build
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import SETTINGS, Detector, Pattern
from haltline.detectors.session.ask_first import AskFirst
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.schemas.policy import Policy, Rule
from tests.builders import cases

KNOWN = ", ".join(PATTERNS)
IDLE = (AskFirst, StagnationCandidate)
RUNNING = [detector for detector in ALL if detector not in IDLE and not detector.optional]
"""Without a word of the policy: a candidate runs only with a model, what asks first only with effects to ask about,
and what is optional where it is named."""


def test_without_a_word_every_detector_runs_with_its_defaults_but_those_that_are_disabled() -> None:
    assert build({}) == tuple(detector() for detector in RUNNING)
    rules = {"resource_growth": Rule(enabled=False)}
    assert [d.id for d in build(rules)] == [d.id for d in RUNNING if d.id != "resource_growth"]


VOLUME = "rules.destructive_volume.settings"
SETTINGS_OF_VOLUME = "max_deletes, window_s, max_deletes_in_actions, last_actions"
RESOURCES = "'tokens', 'cost_usd', 'memory_bytes', 'output_bytes', 'duration_ms', 'file_ops' or 'calls'"
AT_LEAST_1 = "expected greater than or equal to 1"


def volume(**settings: object) -> dict[str, object]:
    return {"destructive_volume": {"settings": settings}}


@cases(
    "rules, message",
    {
        "out of bounds": (volume(max_deletes=0), f"{VOLUME}.max_deletes: {AT_LEAST_1}, got 0"),
        "misspelt": (
            volume(max_delets=3),
            f"{VOLUME}.max_delets: expected one of {SETTINGS_OF_VOLUME}, got 'max_delets'",
        ),
        "an unknown key inside a setting": (
            {"resource_growth": {"settings": {"floors": {"wishes": 1}}}},
            f"rules.resource_growth.settings.floors.wishes: expected {RESOURCES}, got 'wishes'",
        ),
        "settings that contradict each other": (
            {"error_repetition": {"settings": {"medium": 9}}},
            "rules.error_repetition.settings: expected medium <= high <= critical, got {'medium': 9}",
        ),
        "no such detector": ({"volume": {}}, f"rules.volume: expected one of {KNOWN}, got 'volume'"),
    },
)
def test_a_wrong_rule_says_where_what_was_expected_and_what_was_found(rules: dict[str, object], message: str) -> None:
    policy = Policy.model_validate({"rules": rules})
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        build(policy.rules)
    assert str(raised.value) == message


def test_former_names_are_the_same_classes() -> None:
    """Packages with detectors of their own go on importing what they imported before, for one release."""
    assert (base.Detector, base.Pattern, base.SETTINGS) == (Detector, Pattern, SETTINGS)
    assert (act.Act, act.Sight) == (Observation, Trait)
