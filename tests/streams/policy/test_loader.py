"""Policy documents: refused with the line that is wrong."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from haltline.schemas.policy import Policy, Published
from haltline.streams.policy.loader import BadPolicy, parse_policy
from haltline.streams.policy.publish import encoded

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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("name: a\nrules: {}\nname: b\n", "policy:3: expected each name once, got 'name' again",
                     id="twice"),
        pytest.param("name: [a\n", "policy:2: not YAML: ", id="a bracket that is not closed"),
        pytest.param("", "policy: expected a mapping of policy fields, got an empty document", id="nothing"),
        pytest.param("rules:\n", "policy:1: rules", id="one that was cut behind a name"),
        pytest.param("rules: &r\n  cycle: *r\n", "policy:2: not YAML: expected a value, got an alias",
                     id="one that contains itself"),
        pytest.param("x: " + "y" * 1_100_000, "policy: not YAML: expected at most 1048576 characters, got 1100003",
                     id="too long"),
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        parse_policy(text)
    assert str(refused.value).startswith(message)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
@example("was \x93too strict\x94\u2028and so on")
def test_what_is_published_is_read_again_whatever_the_reason_is(reason: str) -> None:
    published = Published(by="ada", reason=reason, time=1_750_000_000_000)
    policy = Policy(name="default").model_copy(update={"published": published})
    assert parse_policy(encoded(policy).decode()).published == published
