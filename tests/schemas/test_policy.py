"""A policy's overrides: who they hold for, and how they merge."""

import orjson
import pytest

from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Override, Policy, Rule
from haltline.schemas.wire import decode

BASE = Rule(
    mode=Mode.ENFORCE,
    settings={"loop_at": 3, "window_s": 60},
    levels={Severity.MEDIUM: Level.NUDGE, Severity.CRITICAL: Level.KILL},
)


def override(rule: Rule, *, agent: str = "*", session: str = "*") -> Override:
    return Override(agent=agent, session=session, rules={"r": rule})


def policy(*overrides: Override) -> Policy:
    return Policy(rules={"r": BASE}, overrides=overrides)


def merged(*rules: Rule) -> Rule:
    overrides = tuple(override(rule) for rule in rules)
    return policy(*overrides).rule("r", overrides)


def test_a_rule_that_no_one_names_has_its_defaults() -> None:
    assert Policy().rule("anything") == Rule()


def test_without_an_override_the_rule_stays_as_it_is() -> None:
    assert policy().rule("r") == BASE


def test_an_override_of_another_rule_changes_nothing() -> None:
    other = Override(rules={"other": Rule(enabled=False)})
    assert policy(other).rule("r", (other,)) == BASE


def test_only_what_an_override_says_is_changed() -> None:
    assert merged(Rule(settings={"loop_at": 5})) == BASE.model_copy(update={"settings": {"loop_at": 5, "window_s": 60}})
    assert merged(Rule(mode=Mode.SHADOW)) == BASE.model_copy(update={"mode": Mode.SHADOW})
    assert merged(Rule(enabled=False)) == BASE.model_copy(update={"enabled": False})
    assert merged(Rule()) == BASE


def test_levels_merge_severity_by_severity() -> None:
    levels = merged(Rule(levels={Severity.CRITICAL: Level.PAUSE, Severity.HIGH: Level.BLOCK})).levels
    assert levels == {Severity.MEDIUM: Level.NUDGE, Severity.HIGH: Level.BLOCK, Severity.CRITICAL: Level.PAUSE}


def test_later_overrides_win_setting_by_setting() -> None:
    rule = merged(
        Rule(mode=Mode.SHADOW, settings={"loop_at": 5, "window_s": 10}),
        Rule(settings={"loop_at": 9, "extra": True}),
    )
    assert rule.mode is Mode.SHADOW
    assert rule.settings == {"loop_at": 9, "window_s": 10, "extra": True}


def test_an_override_can_say_a_default_on_purpose() -> None:
    assert merged(Rule(mode=Mode.SHADOW, enabled=False), Rule(mode=Mode.ENFORCE, enabled=True)) == BASE


def test_an_override_of_a_rule_that_the_policy_does_not_name_starts_from_the_defaults() -> None:
    new = Override(rules={"new": Rule(settings={"a": 1})})
    assert policy(new).rule("new", (new,)) == Rule(settings={"a": 1})


def test_merging_changes_neither_the_policy_nor_the_override() -> None:
    ours = policy(override(Rule(settings={"loop_at": 5})))
    before = ours.model_copy(deep=True)
    ours.rule("r", ours.overrides)
    assert ours == before


@pytest.mark.parametrize(
    ("agent", "session", "holds"),
    [
        pytest.param("catalog-cleaner", "batch-1", True, id="both globs match"),
        pytest.param("catalog-cleaner", "chat-1", False, id="another session"),
        pytest.param("reviewer", "batch-1", False, id="another agent"),
        pytest.param("Catalog-cleaner", "batch-1", False, id="ids are told apart by case"),
        pytest.param("my-catalog-", "batch-1", False, id="a glob is of the whole id"),
    ],
)
def test_an_override_holds_for_the_agents_and_sessions_that_it_names(agent: str, session: str, holds: bool) -> None:
    ours = policy(override(Rule(), agent="catalog-*", session="batch-*"))
    assert bool(ours.overrides_for(agent, session)) is holds


def test_overrides_hold_in_the_order_of_the_policy() -> None:
    first, second, third = (
        override(Rule(settings={"n": n}), agent=agent) for n, agent in enumerate(("*", "other", "a*"))
    )
    assert policy(first, second, third).overrides_for("a1", "s") == (first, third)


def test_a_policy_merges_alike_after_it_went_over_the_wire() -> None:
    """Which settings an override says is not lost when the document is written and read."""
    ours = policy(override(Rule(settings={"loop_at": 5})), override(Rule(mode=Mode.WARN)))
    document = orjson.loads(ours.model_dump_json(exclude_unset=True))
    theirs = decode(Policy, orjson.dumps(document))
    assert theirs.rule("r", theirs.overrides) == ours.rule("r", ours.overrides)
