"""Policy documents: refused with the line that is wrong."""

import pytest
from hypothesis import example, given, settings
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


@settings(max_examples=25)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
@example("was \x93too strict\x94\u2028and so on")
def test_what_is_published_is_read_again_whatever_the_reason_is(reason: str) -> None:
    published = Published(by="ada", reason=reason, time=1_750_000_000_000)
    policy = Policy(name="default").model_copy(update={"published": published})
    assert parse_policy(encoded(policy).decode()).published == published
