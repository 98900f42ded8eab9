import pytest

from haltline.detectors import ALL, PATTERNS, build
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.schemas.policy import Policy, Rule

KNOWN = ", ".join(PATTERNS)
RUNNING = [detector for detector in ALL if detector is not StagnationCandidate and not detector.optional]
"""Without a word of the policy: a candidate runs only with a model, and what is optional where it is named."""


def test_without_a_word_every_detector_runs_with_its_defaults() -> None:
    assert build({}) == tuple(detector() for detector in RUNNING)


def test_a_disabled_detector_does_not_run() -> None:
    rules = {"resource_growth": Rule(enabled=False)}
    assert [d.id for d in build(rules)] == [d.id for d in RUNNING if d.id != "resource_growth"]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        pytest.param(
            {"destructive_volume": {"settings": {"max_deletes": 0}}},
            "rules.destructive_volume.settings.max_deletes: expected greater than or equal to 1, got 0",
            id="out of bounds",
        ),
        pytest.param(
            {"destructive_volume": {"settings": {"max_deletes": "many"}}},
            "rules.destructive_volume.settings.max_deletes: expected a valid integer, unable to parse string as an"
            " integer, got 'many'",
            id="of the wrong type",
        ),
        pytest.param(
            {"destructive_volume": {"settings": {"max_delets": 3}}},
            "rules.destructive_volume.settings.max_delets: "
            "expected one of max_deletes, window_s, max_deletes_in_actions,"
            " last_actions, got 'max_delets'",
            id="misspelt",
        ),
        pytest.param(
            {"destructive_volume": {"settings": {"max_deletes": 0, "window_s": -1}}},
            "rules.destructive_volume.settings.max_deletes: expected greater than or equal to 1, got 0; "
            "rules.destructive_volume.settings.window_s: expected greater than 0, got -1",
            id="two at once",
        ),
        pytest.param(
            {"resource_growth": {"settings": {"floors": {"wishes": 1}}}},
            "rules.resource_growth.settings.floors.wishes: "
            "expected 'tokens', 'cost_usd', 'memory_bytes', 'output_bytes',"
            " 'duration_ms', 'file_ops' or 'calls', got 'wishes'",
            id="an unknown key inside a setting",
        ),
        pytest.param(
            {"error_repetition": {"settings": {"medium": 9}}},
            "rules.error_repetition.settings: expected medium <= high <= critical, got {'medium': 9}",
            id="settings that contradict each other",
        ),
        pytest.param({"volume": {}}, f"rules.volume: expected one of {KNOWN}, got 'volume'", id="no such detector"),
    ],
)
def test_a_wrong_rule_says_where_what_was_expected_and_what_was_found(rules: dict[str, object], message: str) -> None:
    policy = Policy.model_validate({"rules": rules})
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the whole message is compared
        build(policy.rules)
    assert str(raised.value) == message
