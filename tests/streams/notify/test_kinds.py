"""The changes of incidents that notify people, each kind once."""

import pytest

from haltline.schemas.incidents import IncidentRecord
from haltline.streams.notify.kinds import kind_of, plan
from haltline.streams.notify.links import BadLink, LinkKey
from haltline.streams.notify.sent_notifications import Owned
from tests.builders import T0_MS, cases
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


def test_each_kind_is_sent_once_and_an_end_to_those_who_were_notified() -> None:
    owned, sent = Owned(0), []
    for number, record in enumerate(
        (
            change("opened", 1, level="NUDGE"),
            change("opened", 1, "other", level="BLOCK"),
            change("approval_wanted", 2),
            change("counted", 3, request_id="apr_5d0c"),
            change("approval_closed", 4),
            change("approval_wanted", 5, request_id="apr_2"),
            change("escalated", 6, level="KILL"),
            change("counted", 7, level="KILL"),
            change("resolved", 8, level="KILL"),
            change("resolved", 2, "other"),
        )
    ):
        for channel, _, one in plan(record, {"hook": False, "phone:2": False}, owned.channels_of(record.incident_id)):
            if owned.claim(one, T0_MS):
                owned.record(record.incident_id, channel, record.state)
                sent.append((number, channel))
    assert sent == [(n, channel) for n in (2, 6, 8) for channel in ("hook", "phone:2")]


def test_a_channel_that_is_gone_hears_no_end() -> None:
    assert [one.channel for one in plan(change("resolved", 2), {"hook": False}, ("hook", "pager"))] == ["hook"]


@cases(
    "fields, told",
    {
        "its kill ends it": ({"resolution": "session_killed"}, ["alerts"]),
        "the kill of its agent": ({"resolution": "agent_killed", "scope": "agent", "scope_id": "a"}, ["alerts"]),
        "a late stop after its kill": ({"resolution": "kill_acknowledged"}, ["hook", "alerts"]),
        "a question that a person answered by a kill": (
            {"resolution": "session_killed", "level": "PAUSE"},
            ["hook", "alerts"],
        ),
    },
)
def test_an_end_by_its_own_kill_is_told_to_those_alone_who_would_repeat_it(
    fields: dict[str, str], told: list[str]
) -> None:
    record = change("resolved", 3, **({"level": "KILL"} | fields))
    channels = {"hook": False, "alerts": True}
    assert [one.channel for one in plan(record, channels, tuple(channels))] == told


def test_a_link_opens_one_request_for_a_while_and_no_other_key_makes_one() -> None:
    key = LinkKey("k" * 32)
    token = key.token("apr_5d0c", 1_000_000)
    assert key.request_of(token, now_s=999) == "apr_5d0c"
    for other, now_s in ((key, 1001), (LinkKey("x" * 32), 999)):
        with pytest.raises(BadLink):
            other.request_of(token, now_s=now_s)
