"""The changes of incidents that notify people, each kind once."""

from haltline.schemas.incidents import IncidentRecord
from haltline.streams.notify.kinds import kind_of, plan
from tests.builders import cases
from tests.streams.notify.records import change


@cases(
    "record, kind",
    {
        "a hint": (change(level="NUDGE"), None),
        "a refused call": (change(level="BLOCK"), None),
        "it got worse": (change("escalated", 2, level="PAUSE"), None),
        "it asks a person": (change("approval_wanted"), "approval_wanted"),
        "it asks when it is opened": (change("opened", request_id="apr_1"), "approval_wanted"),
        "the request was answered": (change("approval_closed", 2), None),
        "a comment while it asks": (change("commented", 3, request_id="apr_1"), "approval_wanted"),
        "a kill": (change("escalated", 2, level="KILL"), "killed"),
        "somebody took it": (change("acknowledged", 2), None),
        "it is over": (change("resolved", 3), "resolved"),
    },
)
def test_a_person_is_notified_of_questions_kills_and_ends_alone(record: IncidentRecord, kind: str | None) -> None:
    assert kind_of(record) == kind


def test_a_channel_that_is_gone_hears_no_end() -> None:
    assert [one.channel for one in plan(change("resolved", 2), {"hook": False}, ("hook", "pager"))] == ["hook"]
