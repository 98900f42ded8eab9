import re

import pytest

from haltline.interventions.agent import Task
from haltline.interventions.agent.redaction.pii import without_pii_text
from haltline.interventions.agent.testing import ScriptedGuard
from haltline.schemas.events import Kind
from tests.builders import cases
from tests.interventions.agent.attempts import of


@cases(
    "text, expected",
    {
        "an email address": ("to ada.l+x@mail.example.org.", "to [redacted:email]."),
        "a social security number": ("ssn 123-45-6789", "ssn [redacted:us_ssn]"),
        "no number that is none": ("000-45-6789 and 123-00-6789", "000-45-6789 and 123-00-6789"),
        "a card": ("4111 1111 1111 1111", "[redacted:credit_card]"),
        "a card of fifteen digits": ("378282246310005", "[redacted:credit_card]"),
        "no card whose check digit is wrong": ("4111 1111 1111 1112", "4111 1111 1111 1112"),
        "a phone number": ("call (212) 555-0123 now", "call [redacted:phone_us] now"),
        "no date and no address": ("2026-11-22 and 1.2.3.4", "2026-11-22 and 1.2.3.4"),
        "what looks like a key": ("live_" + "a1B2c3D4" * 4, "[redacted:api_key_like]"),
    },
)
def test_what_belongs_to_persons(text: str, expected: str) -> None:
    assert re.sub(r":[0-9a-f]{8}\]", "]", without_pii_text(text, b"key")) == expected


def test_it_is_taken_out_everywhere_and_only_where_it_is_asked_for() -> None:
    def told(*, redact_pii: bool) -> str:
        guard = ScriptedGuard(redact_pii=redact_pii, digest_key="k", task=Task(goal="write to ada@example.org"))
        send = guard.tool(name="send_mail", targets=["to"])(lambda to, text: f"sent {text[:9]} to {to}")
        send("ada@example.org", "x" * 20_000 + " 123-45-6789")
        send({"ada@example.org": ["123-45-6789"]}, "short")
        with pytest.raises(ValueError, match="ada"), guard.action("fails"):
            raise ValueError("no such person: ada@example.org")
        return "\n".join(event.model_dump_json() for event in guard.events)

    clean = told(redact_pii=True)
    assert "ada@" not in clean
    assert "123-45" not in clean
    assert clean.count("[redacted:email:") >= 5
    assert "ada@example.org" in told(redact_pii=False)
    with pytest.raises(ValueError, match="digest_key"):
        ScriptedGuard(redact_pii=True)


def test_repetition_is_still_seen_and_two_persons_are_two() -> None:
    guard = ScriptedGuard(redact_pii=True, digest_key="k")
    send = guard.tool(name="send_mail")(str)
    for to in ("ada@example.org", "ada@example.org", "bob@example.org"):
        send(to)
    digests = [event.args_digest for event in of(guard, Kind.PROPOSED)]
    assert digests[0] == digests[1] != digests[2]
