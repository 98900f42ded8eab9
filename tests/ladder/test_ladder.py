"""The documented ladder of the default policy is the real one."""

from haltline.detectors import BY_ID
from haltline.schemas.findings import Severity
from tests.builders import cases
from tests.ladder.ladder import FILE, of_session, table


def test_the_documented_ladder_is_what_the_default_policy_does() -> None:
    assert FILE.read_text(encoding="utf-8") == table(), "python -m tests.ladder writes it"


@cases(
    "rule, severity, first, third",
    {
        "a first catastrophe is refused": ("severe_destruction", Severity.HIGH, "BLOCK", "BLOCK"),
        "a second one kills": ("severe_destruction", Severity.CRITICAL, "KILL", "KILL"),
        "a little too fast is a hint": ("spend_velocity", Severity.MEDIUM, "NUDGE", "NUDGE"),
        "much too fast freezes": ("spend_velocity", Severity.HIGH, "PAUSE the session", "PAUSE the session"),
        "far too fast kills": ("spend_velocity", Severity.CRITICAL, "KILL", "KILL"),
    },
)
def test_what_stops_at_once(rule: str, severity: Severity, first: str, third: str) -> None:
    result = list(of_session(BY_ID[rule], severity))
    assert (result[0], result[2]) == (first, third)
