from dataclasses import replace

import pytest

from haltline.detectors.session.stagnation import SHIPPED, Stagnation
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Policy
from haltline.streams.learning.candidate import document, promoted, with_candidate
from haltline.streams.learning.comparing import prior_of
from haltline.streams.policy.loader import parse_policy

LEARNED = replace(SHIPPED, name="learned", version=2, base=-1.25, trained={"on": "a table", "seed": 1})
OWN = """
name: night
version: 4
cooldown_s: 60
rules:
  cycle: {mode: warn}
  stagnation: {settings: {pause_at: 3}, levels: {critical: KILL}}
overrides: [{agent: deployer, rules: {stagnation: {settings: {pause_at: 2.5}}}}]
"""


@pytest.mark.parametrize("text", [pytest.param("{}", id="of the defaults"), pytest.param(OWN, id="of an own document")])
def test_a_candidate_is_the_policy_with_one_rule_more(text: str) -> None:
    policy = parse_policy(text)
    written = parse_policy(document(with_candidate(policy, LEARNED)))
    tried = written.rules["stagnation_candidate"]
    assert tried.mode is Mode.SHADOW
    assert StagnationCandidate(**tried.settings).model == LEARNED
    rest = {name: rule for name, rule in written.rules.items() if name != "stagnation_candidate"}
    assert written.model_copy(update={"rules": rest, "version": policy.version}) == policy


def test_a_candidate_has_the_thresholds_and_levels_of_the_rule_in_force() -> None:
    tried = with_candidate(parse_policy(OWN), LEARNED).rules["stagnation_candidate"]
    assert (tried.settings["pause_at"], tried.levels) == (3, {Severity.CRITICAL: Level.KILL})


@pytest.mark.parametrize("text", [pytest.param("{}", id="of the defaults"), pytest.param(OWN, id="of an own document")])
def test_promoted_the_model_is_in_force_and_the_candidate_gone(text: str) -> None:
    policy = parse_policy(text)
    written = parse_policy(document(promoted(parse_policy(document(with_candidate(policy, LEARNED))))))
    assert prior_of(written) == LEARNED
    assert "stagnation_candidate" not in written.rules
    before, after = (one.rules.get("stagnation") for one in (policy, written))
    assert after is not None
    assert {**after.settings, "model": None} == {**(before.settings if before else {}), "model": None}
    assert Stagnation(**after.settings).model == LEARNED
    if before is not None:
        assert (after.levels, after.mode, after.enabled) == (before.levels, before.mode, before.enabled)


def test_a_declared_version_becomes_the_next_one_with_each_document() -> None:
    tried = with_candidate(parse_policy(OWN), LEARNED)
    assert (tried.version, promoted(tried).version) == (5, 6)
    assert "version:" not in document(with_candidate(parse_policy("{}"), LEARNED)).splitlines()[0]


def test_who_published_a_document_is_not_taken_over() -> None:
    policy = parse_policy("published: {by: ada, reason: first, time: 1750000000000}")
    assert "published" not in document(with_candidate(policy, LEARNED))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{}", id="no candidate"),
        pytest.param("rules: {stagnation_candidate: {settings: {pause_at: 3}}}", id="a candidate without a model"),
    ],
)
def test_what_has_no_model_cannot_be_promoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"rules.stagnation_candidate.settings.model: expected a model"):
        promoted(parse_policy(text))


def test_a_preset_is_spelled_out() -> None:
    written = parse_policy(document(with_candidate(parse_policy("preset: starter"), LEARNED)))
    assert written.preset is None
    assert written.rules["cycle"].mode is Mode.WARN
    assert with_candidate(Policy(), LEARNED).rules.keys() == {"stagnation_candidate"}
