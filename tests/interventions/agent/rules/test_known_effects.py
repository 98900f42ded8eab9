import pytest

from haltline.detectors.features.tool_classifier import BUILT_IN, Classifier
from haltline.interventions.agent.rules.known_effects import known_effect
from haltline.schemas import tools
from haltline.schemas.events import Effect
from haltline.schemas.policy import Policy


@pytest.mark.parametrize("glob", [*tools.certain(Effect.DESTRUCTIVE), *tools.certain(Effect.READ)])
def test_the_agents_side_and_the_classifier_agree_on(glob: str) -> None:
    for prefix in ("", "mcp__warehouse__", "catalog."):
        action = prefix + glob.replace("*", "asset")
        assert known_effect(action, None) is Classifier(Policy()).tool(action).effect


def test_whatever_the_classifier_calls_destructive_is_so_without_it_in_any_spelling() -> None:
    actions = [tool.match.replace("*", "asset") for tool in BUILT_IN if tool.effect is Effect.DESTRUCTIVE]
    spelled = ["deleteAsset", "delete-asset", "catalog.dropTable", "mcp__db__Purge-All"]
    assert {known_effect(action, None) for action in actions + spelled} == {Effect.DESTRUCTIVE}
    assert {Classifier(Policy()).tool(action).effect for action in spelled} == {Effect.DESTRUCTIVE}
