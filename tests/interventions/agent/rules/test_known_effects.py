import pytest

from haltline.detectors.features.tool_classifier import BUILT_IN, Classifier
from haltline.interventions.agent.rules.known_effects import DESTRUCTIVE, READS, known_effect
from haltline.schemas.events import Effect
from haltline.schemas.policy import Policy


@pytest.mark.parametrize("glob", [*DESTRUCTIVE, *READS])
@pytest.mark.parametrize("prefix", ["", "mcp__warehouse__", "catalog."])
def test_the_agents_side_and_the_classifier_agree_on(glob: str, prefix: str) -> None:
    action = prefix + glob.replace("*", "asset")
    assert known_effect(action, None) is Classifier(Policy()).tool(action).effect


@pytest.mark.parametrize("glob", [tool.match for tool in BUILT_IN if tool.effect is Effect.DESTRUCTIVE])
def test_whatever_the_classifier_calls_destructive_is_so_without_it(glob: str) -> None:
    assert known_effect(glob.replace("*", "asset"), None) is Effect.DESTRUCTIVE


@pytest.mark.parametrize("action", ["deleteAsset", "delete-asset", "catalog.dropTable", "mcp__db__Purge-All"])
def test_names_in_other_spellings_are_read_as_the_classifier_reads_them(action: str) -> None:
    assert known_effect(action, None) is Classifier(Policy()).tool(action).effect is Effect.DESTRUCTIVE


@pytest.mark.parametrize(
    ("action", "hint", "expected"),
    [
        pytest.param("delete_asset", None, Effect.DESTRUCTIVE, id="a destructive name"),
        pytest.param("DELETE_ASSET", None, Effect.DESTRUCTIVE, id="in capitals too"),
        pytest.param("delete_asset", Effect.READ, Effect.DESTRUCTIVE, id="a hint does not lower it"),
        pytest.param("get_asset", Effect.DESTRUCTIVE, Effect.DESTRUCTIVE, id="a hint raises it"),
        pytest.param("frobnicate", None, Effect.EXEC, id="an unknown name may do anything"),
        pytest.param("frobnicate", Effect.READ, Effect.READ, id="unless its producer says what it does"),
        pytest.param("undelete_asset", None, Effect.EXEC, id="a name that only contains one"),
    ],
)
def test_the_effect_of(action: str, hint: Effect | None, expected: Effect) -> None:
    assert known_effect(action, hint) is expected
