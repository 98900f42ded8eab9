"""The effective rules of a policy and its overrides: the strictest, unless an operator has exempted one."""

from typing import Any

import pytest

from haltline.detectors import BY_ID
from haltline.schemas.decisions import Level, Mode
from haltline.schemas.findings import Severity
from haltline.schemas.policy import Exemption, Override, Policy, Preset, Rule
from haltline.streams.engine import effective_rules
from haltline.streams.engine.effective_rules import EffectiveRules, rule_of, without_effect
from tests.builders import cases

VOLUME = "destructive_volume"
EXEMPTION = Exemption(by="ada", reason="yearly clean-up", expires=2_000_000_000_000)


def said(
    *, exempted: bool = False, agent: str = "*", session: str = "*", rule: str = VOLUME, **fields: Any
) -> Override:
    exemption = EXEMPTION if exempted else None
    return Override(agent=agent, session=session, rules={rule: Rule(**fields)}, exemption=exemption)


def merged(base: Rule | None, *overrides: Override, rule: str = VOLUME) -> Rule:
    policy = Policy(rules={} if base is None else {rule: base}, overrides=overrides)
    EffectiveRules(policy)
    return rule_of(policy, BY_ID[rule], overrides)


def deletes(most: int, **more: object) -> dict[str, Any]:
    return {"settings": {"max_deletes": most, **more}}


@cases(
    "base, overrides, expected",
    {
        "the lower threshold of two": (Rule(**deletes(5)), [deletes(2)], deletes(2)),
        "a looser one is not heard": (Rule(**deletes(2)), [deletes(5)], deletes(2)),
        "the longer window of two": (
            Rule(settings={"window_s": 60}), [{"settings": {"window_s": 600}}], {"settings": {"window_s": 600.0}},
        ),
        "setting by setting over several": (
            Rule(**deletes(5)), [deletes(4, window_s=10), deletes(3, window_s=90)], deletes(3, window_s=90.0),
        ),
        "the stronger mode": (Rule(mode=Mode.WARN), [{"mode": Mode.ENFORCE}], {"mode": Mode.ENFORCE}),
        "a weaker mode is not heard": (Rule(mode=Mode.WARN), [{"mode": Mode.SHADOW}], {"mode": Mode.WARN}),
        "on wins": (Rule(enabled=False), [{"enabled": True}], {"enabled": True}),
        "off is not heard": (Rule(), [{"enabled": False}], {"enabled": True}),
    },
)  # fmt: skip
def test_settings_mode_and_enabled_merge_to_the_strictest(
    base: Rule | None, overrides: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    found = merged(base, *(said(**override) for override in overrides))
    assert {name: getattr(found, name) for name in expected} == expected


@cases(
    "rule, base, override, settings",
    {
        "limits by resource": (
            "budget",
            {"limits": {"tokens": 1000, "calls": 10}},
            {"limits": {"tokens": 5000, "cost_usd": 2}},
            {"limits": {"tokens": 1000, "calls": 10, "cost_usd": 2}}),
        "a floor above the built-in one is not heard": (
            "resource_growth",
            {},
            {"floors": {"tokens": 10**9}},
            None),
        "steps each": ("repetition", {"read": (4, 5, 9)}, {"read": [3, 7, 8]}, {"read": (3, 5, 8)}),
        "lists of what must not be touched are joined": (
            "scope_creep",
            {"critical_paths": ["/srv/a"]},
            {"critical_paths": ["/srv/b"]},
            {"critical_paths": ("/srv/a", "/srv/b")}),
        "no limit is not heard": (
            "spend_velocity", {}, {"cost_usd_per_min": None}, {"cost_usd_per_min": 10.0}),
    },
)  # fmt: skip
def test_every_kind_of_setting_merges(
    rule: str, base: dict[str, Any], override: dict[str, Any], settings: dict[str, Any] | None
) -> None:
    found = merged(Rule(settings=base), said(rule=rule, settings=override), rule=rule).settings
    if settings is None:
        assert BY_ID[rule](**found) == BY_ID[rule](**base)
    else:
        assert found == settings


def test_an_exempted_override_says_what_holds_and_settings_without_effect_are_reported() -> None:
    loose = said(exempted=True, mode=Mode.SHADOW, settings={"max_deletes": 50}, levels={Severity.CRITICAL: Level.NUDGE})
    strict = said(settings={"max_deletes": 2, "window_s": 600})
    for overrides in ((loose, strict), (strict, loose)):
        found = merged(None, *overrides)
        assert (found.mode, found.settings) == (Mode.SHADOW, {"max_deletes": 50, "window_s": 600.0})
        assert found.levels[Severity.CRITICAL] is Level.NUDGE
    pair = [said(exempted=True, settings={"max_deletes": n}) for n in (50, 9)]
    assert merged(None, *pair).settings == {"max_deletes": 9}, "of two the last holds"
    policy = Policy(
        overrides=(
            said(**deletes(50, window_s=90), mode=Mode.SHADOW, levels={Severity.CRITICAL: Level.NUDGE}),
            said(exempted=True, settings={"max_deletes": 50}),
            said(rule="budget", settings={"limits": {"tokens": 5}}),
        )
    )
    lines = without_effect(policy)
    assert [line.partition(":")[0] for line in lines] == [
        f"overrides.0.rules.{VOLUME}.{place}" for place in ("mode", "levels.critical", "settings.max_deletes")
    ]
    assert "50 is looser than 3, which holds" in lines[2]


@cases(
    "policy, message",
    {
        "an unknown rule": (
            Policy(overrides=(said(rule="volume"),)), "overrides.0.rules.volume: expected one of"),
        "an unknown setting": (
            Policy(overrides=(said(), said(settings={"max_delets": 3}))),
            f"overrides.1.rules.{VOLUME}.settings.max_delets: expected one of max_deletes, "),
        "out of its bounds, also where it would not be heard": (
            Policy(overrides=(said(settings={"max_deletes": 0}),)),
            f"overrides.0.rules.{VOLUME}.settings.max_deletes: expected greater than or equal to 1, got 0"),
        "a preset that nobody spelled out": (
            Policy(preset=Preset.STARTER),
            "preset: expected its rules spelled out"),
    },
)  # fmt: skip
def test_a_wrong_policy_says_where_what_was_expected_and_what_was_found(policy: Policy, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the beginning of the message is compared
        EffectiveRules(policy)
    assert str(raised.value).startswith(message)


def exempted_errors(agent: str, **settings: int) -> Override:
    return said(exempted=True, agent=agent, rule="error_repetition", settings=settings)


def test_overrides_that_are_wrong_together_or_meet_in_too_many_ways_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = [exempted_errors(f"agent-{n}", high=5) for n in range(40)]
    wrong = [exempted_errors("x*", high=8, critical=9), exempted_errors("*y", medium=7, high=8, critical=9)]
    wrong.append(exempted_errors("x?y", high=5))
    EffectiveRules(Policy(overrides=(*others, *wrong[:2])))
    with pytest.raises(ValueError, match=r"overrides\.42\.rules\.error_repetition"):
        EffectiveRules(Policy(overrides=(*others, *wrong)))
    monkeypatch.setattr(effective_rules, "MAX_MEETINGS", 100)
    many = tuple(said(settings={"max_deletes": 2}) for _ in range(7))
    with pytest.raises(ValueError, match="expected at most 100 ways"):
        EffectiveRules(Policy(overrides=many))
    EffectiveRules(Policy(overrides=many[:6]))
