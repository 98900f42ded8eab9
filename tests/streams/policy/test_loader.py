"""Policy documents: refused with the wrong line, or used although they name removed rules."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haltline.detectors import ALL, PATTERNS
from haltline.detectors.framework.settings import annotations_of
from haltline.detectors.framework.strictness import direction_of, stricter
from haltline.detectors.session.stagnation_candidate import StagnationCandidate
from haltline.schemas.decisions import Mode
from haltline.schemas.policy import Policy, Preset, Published
from haltline.streams.engine.core import Core
from haltline.streams.engine.effective_rules import rule_of
from haltline.streams.policy import presets
from haltline.streams.policy.json_schema import policy_schema
from haltline.streams.policy.loader import BadPolicy, in_vain, parse_policy
from haltline.streams.policy.publish import encoded
from haltline.streams.policy.yaml_text import MAX_CHARS, MAX_DEPTH, MAX_NODES, BadYaml, value_of
from tests.builders import bash, cases

DOCUMENT = """\
name: production
rules:
  destructive_volume: {settings: {max_deletes: 5}}
overrides:
  - agent: "janitor-*"
    rules: {error_repetition: {mode: warn}}
  - session: "migration-*"
    rules:
      destructive_volume:
        settings: {max_deletes: 50}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        pytest.param("{max_deletes: 5}", "{max_delets: 5}",
                     "policy:3: rules.destructive_volume.settings.max_delets: expected one of", id="in a rule"),
        pytest.param("max_deletes: 50", "max_delets: 50",
                     "policy:10: overrides.1.rules.destructive_volume.settings.max_delets: expected one of",
                     id="in an override of a rule that the document has above as well"),
        pytest.param("mode: warn", "mode: loud", "policy:6: overrides.0.rules.error_repetition.mode: ",
                     id="a mode in an override"),
    ],
)  # fmt: skip
def test_the_line_that_is_wrong_is_named(right: str, wrong: str, message: str) -> None:
    assert parse_policy(DOCUMENT).name == "production"
    with pytest.raises(BadPolicy) as refused:
        parse_policy(DOCUMENT.replace(right, wrong))
    assert str(refused.value).startswith(message)


@settings(max_examples=25)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
@example("was \x93too strict\x94\u2028and so on")
def test_what_is_published_is_read_again_whatever_the_reason_is(reason: str) -> None:
    published = Published(by="ada", reason=reason, time=1_750_000_000_000)
    policy = Policy(name="default").model_copy(update={"published": published})
    assert parse_policy(encoded(policy).decode()).published == published


@cases(
    "document, places",
    {
        "a rule with settings": ("rules: {retry_storm: {settings: {medium: 3}}}", ["rules.retry_storm"]),
        "on probation": (
            "operations: {probation: {rules: {verify_mismatch: {}}}}",
            ["operations.probation.rules.verify_mismatch"],
        ),
        "several, in one line": (
            "rules: {agent_baseline: {}, behavioral_drift: {mode: warn}}\noverrides: [{rules: {agent_baseline: {}}}]",
            ["rules.agent_baseline, rules.behavioral_drift, overrides.0.rules.agent_baseline"],
        ),
        "a section": ("opinion: {rules: [retry_storm, cycle], without_answer: pause}", ["opinion"]),
        "none": ("rules: {cycle: {enabled: false}}", []),
    },
)
def test_a_policy_that_names_a_part_that_is_gone_is_used_and_says_so(document: str, places: list[str]) -> None:
    policy = parse_policy(document)
    lines = in_vain(policy)
    assert [re.split(": (?:gone|second opinions are gone)", line)[0] for line in lines] == places
    assert Core(policy).on_event(None, bash(0, "ls")).applied


LEVELS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10))
BILLION = f"l0: &l0 {'x' * 16}\n{LEVELS}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BILLION, "line 2: expected a value, got an alias", id="aliases of aliases, 7 GB"),
        pytest.param("[" * 5_000, f"line 1: expected at most {MAX_DEPTH} levels", id="brackets without end"),
        pytest.param(f"[{'1,' * (MAX_NODES + 1)}]", f"expected at most {MAX_NODES} keys and values", id="a long list"),
        pytest.param("x" * (MAX_CHARS + 1), f"expected at most {MAX_CHARS} characters", id="a long text"),
        pytest.param("1" + ":1" * 50_000, "expected a number of at most", id="a long number to the base of 60"),
        pytest.param("9" * 100_000, "expected a number of at most", id="a long number"),
        pytest.param("2001-02-30", "expected values that YAML has", id="a day that there is not"),
        pytest.param("!!python/object/apply:os.system [ls]", "could not determine a constructor", id="a program"),
        pytest.param("a: 1\n---\na: 2", "but found another document", id="two documents"),
    ],
)
def test_a_document_beyond_the_bounds_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadYaml) as bad:
        value_of(text)
    assert problem in str(bad.value)


def test_a_number_to_the_base_of_60_is_a_number() -> None:
    assert value_of("1:30.5") == 90.5


SCHEMA = policy_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
SETTINGS = [(detector.id, name) for detector in ALL for name in annotations_of(detector)]


def loads(document: dict[str, Any]) -> bool:
    """Return whether it is loaded; errors that no schema can express, of the order of settings, do not count."""
    try:
        parse_policy(yaml.safe_dump(document))
    except BadPolicy as refused:
        return "<=" in str(refused).partition(": expected ")[2].partition(", got ")[0]
    return True


def test_every_setting_of_every_rule_and_every_part_of_a_document_is_described() -> None:
    for rule in ALL:
        result = SCHEMA["properties"]["rules"]["properties"][rule.id]["properties"]["settings"]
        assert set(result["properties"]) == set(annotations_of(rule))
        for name, setting in result["properties"].items():
            assert setting.get("description"), f"{rule.id}.{name}: expected a text below it that says what it is"
            assert setting["x-stricter"] in {"lower", "higher", "more", "neither"}, name
            assert ("x-unit" in setting) == name.endswith(("_s", "_per_min", "_tokens")), name
    for name, place in {"Policy": SCHEMA, **{n: SCHEMA["$defs"][n] for n in ("Tool", "Override", "Exemption")}}.items():
        unsaid = [field for field, result in place["properties"].items() if not result.get("description")]
        assert not unsaid, f"{name}: expected a text below each field"
    assert SCHEMA["properties"]["cooldown_s"]["description"].startswith("A rule does not repeat a decision")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.integers(-2, 40),
    st.sampled_from([10**6, 10**9, 3.0, 0.5, 1.5, -0.5, "3", "medium", "jaccard", True, None, "", [], {}]),
    st.lists(st.integers(1, 12), min_size=2, max_size=4),
    st.dictionaries(st.sampled_from(["tokens", "calls", "wishes"]), st.integers(-1, 5), max_size=2),
    st.lists(st.sampled_from(["/etc/*", "", "x" * 600]), max_size=2),
)


@given(st.sampled_from(SETTINGS), VALUES, st.booleans())
@example(("error_repetition", "critical"), "3", False)  # as a number it would contradict another setting
def test_a_setting_is_loaded_when_the_schema_takes_it(place: tuple[str, str], value: Any, overridden: bool) -> None:
    rules = {"rules": {place[0]: {"settings": {place[1]: value}}}}
    document: dict[str, Any] = {"overrides": [rules]} if overridden else rules
    assert loads(document) == VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    ("document", "good"),
    [
        pytest.param("{v: 1, name: x, version: 7, cooldown_s: 5, session_ttl_h: 1.5, kill_grace_s: 0}", True, id="all"),
        pytest.param("{v: 2}", False, id="another version of the format"),
        pytest.param("{cooldown_s: .inf}", False, id="for ever", marks=pytest.mark.filterwarnings("ignore")),
        pytest.param("{rules: {loop: {}}}", False, id="a rule that there is not"),
        pytest.param("{tools: [{match: 'rm*', effect: destructive, reading: shell}]}", True, id="a tool"),
        pytest.param("{overrides: [{agent: a}]}", False, id="an override of nothing"),
        pytest.param(
            "{overrides: [{rules: {}, exemption: {by: ada, reason: r, expires: '2026-12-01T00:00:00Z'}}]}",
            True, id="an exemption",
        ),
    ],
)  # fmt: skip
def test_a_document_is_loaded_when_the_schema_takes_it(document: str, good: bool) -> None:
    assert loads(yaml.safe_load(document)) is good
    as_json = yaml.safe_load(document)
    if as_json.get("cooldown_s") != float("inf"):  # JSON has none
        assert VALIDATOR.is_valid(as_json) is good


def test_a_preset_is_a_document_like_any_other_and_what_a_document_says_comes_before_it() -> None:
    for preset in Preset:
        text = (Path(presets.__file__).parent / f"{preset}.yaml").read_text(encoding="utf-8")
        VALIDATOR.validate(yaml.safe_load(text))
        spelled_out = parse_policy(f"{{preset: {preset}}}")
        assert (spelled_out.preset, spelled_out.rules) == (None, parse_policy(text).rules)
    assert parse_policy("{preset: standard}") == Policy(preset=None), "standard is what holds without a word"
    policy = parse_policy(
        "{preset: regulated, cooldown_s: 9, rules: {destructive_volume: {settings: {max_deletes: 7}, mode: warn}}}"
    )
    rule = policy.rules["destructive_volume"]
    assert (rule.mode, rule.settings["max_deletes"], rule.settings["window_s"]) == (Mode.WARN, 7, 300)
    assert (policy.cooldown_s, policy.kill_grace_s) == (9, 5)


def test_starter_enforces_only_certain_harm_and_regulated_is_stricter_than_standard() -> None:
    policy = parse_policy("{preset: starter}")
    assert set(policy.rules) == set(PATTERNS), "each rule has its mode in starter.yaml"
    modes = {detector.id: rule_of(policy, detector, ()).mode for detector in ALL}
    enforced = {"destructive_repeat", "destructive_volume", "severe_destruction", "unread_execution", "own_release"}
    assert {name for name, mode in modes.items() if mode is Mode.ENFORCE} == enforced
    policies = [parse_policy(f"{{preset: {preset}}}") for preset in ("regulated", "standard")]
    for detector in ALL:
        if detector is StagnationCandidate:
            continue  # only tried, in shadow, until it is promoted
        ours, standard = (rule_of(policy, detector, ()) for policy in policies)
        assert ours.enabled
        assert ours.mode is (Mode.WARN if detector.id == "goal_drift" else Mode.ENFORCE)
        assert all(level >= standard.levels[severity] for severity, level in ours.levels.items())
        strict, plain = detector(**ours.settings), detector(**standard.settings)
        for name, annotation in annotations_of(detector).items():
            declared = direction_of(annotation)
            assert declared is not None
            stricter_one = stricter(declared, getattr(plain, name), getattr(strict, name))
            assert stricter_one == getattr(strict, name), f"{detector.id}.{name}"
        assert ours != standard
