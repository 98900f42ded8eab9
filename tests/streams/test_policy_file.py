"""Policy documents: refused with the line that is wrong."""

import pytest

from haltline.streams.policy_file import BadPolicy, parse_policy

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
        pytest.param(
            "{max_deletes: 5}",
            "{max_delets: 5}",
            "policy:3: rules.destructive_volume.settings.max_delets: wanted one of",
            id="in a rule",
        ),
        pytest.param(
            "max_deletes: 50",
            "max_delets: 50",
            "policy:10: overrides.1.rules.destructive_volume.settings.max_delets: wanted one of",
            id="in an override of a rule that the document has above as well",
        ),
        pytest.param(
            "mode: warn",
            "mode: loud",
            "policy:6: overrides.0.rules.error_repetition.mode: ",
            id="a mode in an override",
        ),
    ],
)
def test_the_line_that_is_wrong_is_named(right: str, wrong: str, message: str) -> None:
    assert parse_policy(DOCUMENT).name == "production"
    with pytest.raises(BadPolicy) as refused:
        parse_policy(DOCUMENT.replace(right, wrong))
    assert str(refused.value).startswith(message)
