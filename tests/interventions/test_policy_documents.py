import jsonschema
import pytest
import yaml

from haltline.schemas.intervening import PARTS
from haltline.streams.policy.json_schema import policy_schema
from haltline.streams.policy.loader import BadPolicy, parse_policy

SCHEMA = policy_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
GOOD = """
{}
{strategy: scored, after_warnings: 3, max_interventions: 4}
{max_attempts: {NUDGE: 2, REINFORCE: 2}}
{patterns: {budget: [NUDGE, THROTTLE, KILL]}}
{reinforcement: strong}
{throttle: {limits: {max_tokens: 5000}, severe: 0.25}}
{rollback: {max_depth: 5, min_success_rate: 0.9}}
{modifications: [{action: 'x*', cap: {limit: 5}}]}
{prices: [{action: 'x*', usd: 0.5}]}
{vocabularies: [{agent: 'a*', vocabulary: acgp}]}
{acgp: [{agent_acl_tier: 4, tripwires: [{id: t, condition: args.amount > 5}]}]}
{acgp: [{flag_from: medium, mode: shadow}]}
"""
BAD = """
{strategy: ''}
{after_warnings: -1}
{after_warnings: 2.5}
{max_attempts: {nudge: 2}}
{patterns: {budget: [LOUD]}}
{reinforcement: brutal}
{throttle: {severe: 0}}
{throttle: {severe: 1.5}}
{modifications: [{cap: {limit: 5}}]}
{prices: [{action: 'x*', usd: -1}]}
{vocabularies: [{vocabulary: latin}]}
{acgp: [{agent_acl_tier: 6}]}
{acgp: [{tripwires: [{id: t}]}]}
{acgp: [{tripwires: [{id: t, condition: args.x, on_fail: {decision: warn}}]}]}
{acgp: [{weights: {luck: 1}}]}
{cool_down: 3}
"""


@pytest.mark.parametrize("document", GOOD.strip().split("\n"))
def test_a_document_that_the_schema_takes_is_loaded(document: str) -> None:
    assert VALIDATOR.is_valid(yaml.safe_load(f"interventions: {document}"))
    assert parse_policy(f"interventions: {document}").interventions is not None


@pytest.mark.parametrize("document", BAD.strip().split("\n"))
def test_a_document_that_it_does_not_take_is_refused(document: str) -> None:
    assert not VALIDATOR.is_valid(yaml.safe_load(f"interventions: {document}"))
    with pytest.raises(BadPolicy, match=r"policy:1: interventions"):
        parse_policy(f"interventions: {document}")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("{stop: NUDGE}", "stop: expected PAUSE or harder, got NUDGE"),
        ("{modifications: [{action: x}]}", "expected put, cap or remove, got none"),
        ("{acgp: [{thresholds: {ok: 0.5, nudge: 0.4, escalate: 0.6}}]}", "expected ok <= nudge <= escalate, got 0.5"),
        ("{acgp: [{weights: {reasoning: 0.5}}]}", "expected weights that sum to 1, got 0.5"),
        ("{strategy: hopeful}", r"interventions\.strategy: expected by_rule, "),
    ],
)
def test_what_no_schema_can_say_is_refused_by_the_loader(document: str, why: str) -> None:
    with pytest.raises(BadPolicy, match=why):
        parse_policy(f"interventions: {document}")


def test_every_part_is_described_in_the_schema() -> None:
    parts = {part.__name__: SCHEMA["$defs"][part.__name__]["properties"] for part in PARTS}
    assert not [(part, name) for part in parts for name, one in parts[part].items() if not one.get("description")]
