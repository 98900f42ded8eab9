import jsonschema
import pytest
import yaml

from haltline.schemas.intervening import PARTS
from haltline.streams.policy.json_schema import policy_schema
from haltline.streams.policy.loader import BadPolicy, parse_policy
from tests.cases import cases
from tests.interventions.cases import some

SCHEMA = policy_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
WIRE = "{id: t, condition: args.amount > 5}"


@pytest.mark.parametrize(
    ("document", "good"),
    [
        pytest.param("{}", True, id="nothing"),
        pytest.param("{strategy: scored, after_warnings: 3, max_interventions: 4}", True, id="a strategy and counts"),
        pytest.param("{strategy: ''}", False, id="a strategy without a name"),
        pytest.param("{after_warnings: -1}", False, id="fewer warnings than none"),
        pytest.param("{after_warnings: 2.5}", False, id="half a warning"),
        pytest.param("{max_attempts: {NUDGE: 2, REINFORCE: 2}}", True, id="attempts by level"),
        pytest.param("{max_attempts: {nudge: 2}}", False, id="a level that there is not"),
        pytest.param("{patterns: {budget: [NUDGE, THROTTLE, KILL]}}", True, id="a list of levels"),
        pytest.param("{patterns: {budget: [LOUD]}}", False, id="a list with a level that there is not"),
        pytest.param("{reinforcement: strong}", True, id="a strength"),
        pytest.param("{reinforcement: brutal}", False, id="a strength that there is not"),
        pytest.param("{throttle: {limits: {max_tokens: 5000}, severe: 0.25}}", True, id="limits and factors"),
        pytest.param("{throttle: {severe: 0}}", False, id="a factor of nothing"),
        pytest.param("{throttle: {severe: 1.5}}", False, id="a factor that raises"),
        pytest.param("{rollback: {max_depth: 5, min_success_rate: 0.9}}", True, id="checkpoints"),
        pytest.param("{modifications: [{action: 'x*', cap: {limit: 5}}]}", True, id="changed arguments"),
        pytest.param("{modifications: [{cap: {limit: 5}}]}", False, id="changed arguments of no tool"),
        pytest.param("{prices: [{action: 'x*', usd: 0.5}]}", True, id="a price"),
        pytest.param("{prices: [{action: 'x*', usd: -1}]}", False, id="a price below nothing"),
        pytest.param("{vocabularies: [{agent: 'a*', vocabulary: acgp}]}", True, id="a vocabulary"),
        pytest.param("{vocabularies: [{vocabulary: latin}]}", False, id="a vocabulary that there is not"),
        pytest.param(f"{{acgp: [{{agent_acl_tier: 4, tripwires: [{WIRE}]}}]}}", True, id="a governed agent"),
        pytest.param("{acgp: [{agent_acl_tier: 6}]}", False, id="a tier that there is not"),
        pytest.param("{acgp: [{tripwires: [{id: t}]}]}", False, id="a tripwire without a condition"),
        pytest.param(
            "{acgp: [{tripwires: [{id: t, condition: args.x, on_fail: {decision: warn}}]}]}", False,
            id="a tripwire that does what there is not",
        ),
        pytest.param("{acgp: [{weights: {luck: 1}}]}", False, id="a dimension that there is not"),
        pytest.param("{acgp: [{flag_from: medium, mode: shadow}]}", True, id="a flag and a mode"),
        pytest.param("{cool_down: 3}", False, id="a misspelt field"),
    ],
)  # fmt: skip
def test_a_document_is_loaded_when_the_schema_takes_it(document: str, good: bool) -> None:
    text = f"interventions: {document}"
    assert VALIDATOR.is_valid(yaml.safe_load(text)) is good
    if good:
        assert parse_policy(text).interventions is not None
    else:
        with pytest.raises(BadPolicy, match=r"policy:1: interventions"):
            parse_policy(text)


@cases(
    "document, why",
    {
        "a stop that stops nothing": ("{stop: NUDGE}", "stop: expected PAUSE or harder, got NUDGE"),
        "a change of nothing": ("{modifications: [{action: x}]}", "expected put, cap or remove, got none"),
        "thresholds out of order": (
            "{acgp: [{thresholds: {ok: 0.5, nudge: 0.4, escalate: 0.6}}]}",
            "expected ok <= nudge <= escalate, got 0.5, 0.4, 0.6",
        ),
        "weights": ("{acgp: [{weights: {reasoning: 0.5}}]}", "expected weights that sum to 1, got 0.5"),
        "an unknown strategy": ("{strategy: hopeful}", r"interventions\.strategy: expected by_rule, "),
    },
)
def test_what_no_schema_can_say_is_refused_by_the_loader(document: str, why: str) -> None:
    with pytest.raises(BadPolicy, match=why):
        parse_policy(f"interventions: {document}")


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_part_is_described_in_the_schema(part: type) -> None:
    unsaid = [
        name for name, result in SCHEMA["$defs"][part.__name__]["properties"].items() if not result.get("description")
    ]
    assert not unsaid


def test_a_regulated_policy_warns_less_often() -> None:
    regulated = parse_policy("{preset: regulated}")
    assert some(regulated.interventions).after_warnings == 2
