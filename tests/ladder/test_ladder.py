"""The documented ladder of the default policy is the real one."""

from tests.ladder.ladder import FILE, table


def test_the_documented_ladder_is_what_the_default_policy_does() -> None:
    assert FILE.read_text(encoding="utf-8") == table(), "python -m tests.ladder writes it"
