"""Strategies and interventions of other packages, found as Python finds them."""

from pathlib import Path

import pytest

from haltline.schemas.decisions import Decision, Level
from haltline.streams.engine.core import Core, Effects
from haltline.streams.engine.plugins import installed
from haltline.streams.policy.loader import BadPolicy, parse_policy
from tests.builders import cases, delete
from tests.streams.engine.test_plugins import install

CODE = """
from haltline.schemas.decisions import Level

class Cautious:
    def choose(self, case):
        return Level.BLOCK if case.issues else case.by_rule

class Raises:
    def choose(self, case):
        raise RuntimeError("no idea")

class Ends:
    def choose(self, case):
        raise SystemExit(3)

class SaysText:
    def choose(self, case):
        return "BLOCK"

class Handler:
    def intervene(self, decision, finding):
        if decision.level is not Level.NUDGE:
            return None
        return {"message": "Ask the owner first.", "custom": {"ticket": finding.detector}}

class Oversteps:
    def intervene(self, decision, finding):
        return {"level": Level.ALLOW}

class Floods:
    def intervene(self, decision, finding):
        return {"message": "x" * 40_000}

class NoMethod:
    pass
"""
NAMES = ("Cautious", "Raises", "Ends", "SaysText", "Handler", "Oversteps", "Floods", "NoMethod")


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    name = f"more_{abs(hash(request.node.nodeid))}"
    lines = [f"{one.lower()} = {name}:{one}" for one in NAMES]
    strategies = ["[haltline.strategies]", *lines, "missing = nowhere:Thing"]
    install(tmp_path, name, CODE, *strategies, "[haltline.interventions]", *lines)
    monkeypatch.syspath_prepend(tmp_path)


def outcomes(interventions: str) -> list[Effects]:
    """Three deletes of one thing: a hint at the second, a kill at the third."""
    only = "rules: {destructive_volume: {enabled: false}}"
    policy = parse_policy(f"{only}\ninterventions: {interventions}", plugins=installed())
    core, state, done = Core(policy, installed()), None, []
    for second in (0, 6, 12):
        done.append(core.on_event(state, delete(second)))
        state = done[-1].state
    return done


def decisions(interventions: str) -> list[Decision]:
    return [outcome.decision for outcome in outcomes(interventions) if outcome.decision is not None]


def levels(interventions: str) -> list[Level]:
    return [decision.level for decision in decisions(interventions)]


def test_a_strategy_of_another_package_chooses_and_an_intervention_adds() -> None:
    assert levels("{strategy: cautious}") == [Level.NUDGE, Level.KILL]
    assert levels("{strategies: {destructive_repeat: cautious}}")[-1] is Level.BLOCK
    hint, kill = decisions("{handlers: {destructive_repeat: handler}}")
    assert (hint.message, hint.custom) == ("Ask the owner first.", {"ticket": "destructive_repeat"})
    assert (kill.level, kill.custom) == (Level.KILL, None)


@pytest.mark.parametrize("strategy", ["raises", "ends", "saystext"])
def test_one_that_does_what_it_must_not_is_reported_and_the_rules_own_level_stands(strategy: str) -> None:
    done = outcomes(f"{{strategy: {strategy}}}")
    assert [o.decision.level for o in done if o.decision] == [Level.NUDGE, Level.KILL]
    assert {failure.detector for o in done for failure in o.failures} == {f"strategy {strategy}"}


@pytest.mark.parametrize("handler", ["oversteps", "floods"])
def test_one_that_oversteps_adds_nothing_and_is_reported(handler: str) -> None:
    done = outcomes(f"{{handlers: {{destructive_repeat: {handler}}}}}")
    plain = outcomes("{}")
    assert [o.decision for o in done] == [o.decision for o in plain]
    assert {failure.detector for o in done for failure in o.failures} == {f"intervention {handler}"}


@cases(
    "interventions, why",
    {
        "a strategy that there is not": (
            "{strategy: nosuch}",
            r"interventions\.strategy: expected by_rule, scored, progressive, pattern_specific, .*got 'nosuch'",
        ),
        "the same for one rule": ("{strategies: {budget: nosuch}}", r"interventions\.strategies\.budget: expected"),
        "an intervention": ("{handlers: {budget: nosuch}}", r"handlers\.budget: expected .*got 'nosuch'"),
        "an import that fails": ("{strategy: missing}", r"nowhere:Thing of more_.* ModuleNotFoundError"),
        "a class without the method": ("{strategy: nomethod}", "expected an object with a method choose"),
    },
)
def test_a_policy_that_names_what_cannot_be_used_is_refused_with_its_place(interventions: str, why: str) -> None:
    with pytest.raises(BadPolicy, match=why):
        parse_policy(f"interventions: {interventions}", plugins=installed())
