"""Policy documents: refused with the line that is wrong, or used though they name what is gone."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haltline.schemas.policy import Policy, Published
from haltline.streams.engine.core import Core
from haltline.streams.policy.loader import BadPolicy, in_vain, parse_policy
from haltline.streams.policy.publish import encoded
from haltline.streams.policy.yaml_text import MAX_CHARS, MAX_DEPTH, MAX_NODES, BadYaml, value_of
from tests.builders import bash
from tests.cases import cases

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
        "one that was switched off": ("rules: {context_thrash: {enabled: false}}", ["rules.context_thrash"]),
        "in an override": ("overrides: [{rules: {verify_mismatch: {}}}]", ["overrides.0.rules.verify_mismatch"]),
        "on probation": (
            "operations: {probation: {rules: {verify_mismatch: {}}}}",
            ["operations.probation.rules.verify_mismatch"],
        ),
        "for a second opinion": ("opinion: {rules: [retry_storm, cycle]}", ["opinion.rules.retry_storm"]),
        "none": ("rules: {cycle: {enabled: false}}", []),
    },
)
def test_a_policy_that_names_a_rule_that_is_gone_is_used_and_says_so(document: str, places: list[str]) -> None:
    policy = parse_policy(document)
    lines = in_vain(policy)
    assert [line.partition(": ")[0] for line in lines] == places
    assert all(": the rule is gone and has no effect: " in line for line in lines)
    assert Core(policy).on_event(None, bash(0, "ls")).applied


LEVELS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 10))
BILLION = f"l0: &l0 {'x' * 16}\n{LEVELS}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BILLION, "line 2: expected a value, got an alias", id="aliases of aliases, 7 GB"),
        pytest.param("a: &a [*a]", "line 1: expected a value, got an alias", id="an alias of itself"),
        pytest.param("[" * 5_000, f"line 1: expected at most {MAX_DEPTH} levels", id="brackets without end"),
        pytest.param(f"[{'1,' * (MAX_NODES + 1)}]", f"expected at most {MAX_NODES} keys and values", id="a long list"),
        pytest.param("x" * (MAX_CHARS + 1), f"expected at most {MAX_CHARS} characters", id="a long text"),
        pytest.param("1" + ":1" * 50_000, "expected a number of at most", id="a long number to the base of 60"),
        pytest.param("1" + ":1" * 30 + ".5", None, id="a shorter one is one"),
        pytest.param("9" * 100_000, "expected a number of at most", id="a long number"),
        pytest.param('!!int ""', "expected values that YAML has", id="a number of no digits"),
        pytest.param("2001-02-30", "expected values that YAML has", id="a day that there is not"),
        pytest.param("!!python/object/apply:os.system [ls]", "could not determine a constructor", id="a program"),
        pytest.param("a: 1\n---\na: 2", "but found another document", id="two documents"),
        pytest.param("a: [", "line 1: expected the node content", id="one that was cut"),
    ],
)
def test_a_document_beyond_the_bounds_is_refused(text: str, problem: str | None) -> None:
    if problem is None:
        assert isinstance(value_of(text), float)
        return
    with pytest.raises(BadYaml) as bad:
        value_of(text)
    assert problem in str(bad.value)
