"""Second opinions in the pure core, with the same results on replay."""

from typing import Any

import pytest

from haltline.interventions.control.second_opinion import UNREQUESTED, WITHDRAWN
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Level
from haltline.schemas.findings import Severity
from haltline.schemas.incidents import IncidentChange
from haltline.schemas.opinions import OpinionOutcome, WithoutAnswer
from haltline.schemas.policy import Policy
from haltline.streams.policy.loader import BadPolicy, parse_policy
from tests.builders import at, cases
from tests.streams.opinion.cases import SESSION, Session, answer, policy

HINT, PAUSED = "NUDGE identical_calls", "BLOCK second_opinion"
RUNAWAY, SOUND = OpinionOutcome.RUNAWAY, OpinionOutcome.SOUND


def hinted(given: Policy | None = None) -> Session:
    """A session with its first finding in doubt, at the third call."""
    session = Session(given or policy())
    session.read(1, 2, 3)
    assert len(session.requested) == 1
    return session


def test_runaway_refuses_the_next_call_once_and_sound_silences_nothing_beyond_the_upper_threshold() -> None:
    session = hinted()
    assert session(answer(session.requested[0])).followup == "opinion_runaway"
    assert session.read(4) == [PAUSED, HINT]
    refused = next(d for d in session.decisions if d.code == "second_opinion")
    assert refused.message.endswith("Say what you look for.")
    assert "runaway: the same file is read again" in refused.reason
    assert session.read(5)[-1] == HINT
    session = hinted(policy(upper=Severity.HIGH, hold_actions=1000))
    session(answer(session.requested[0], SOUND))
    levels = session.read(*range(4, 13))
    assert levels[:-1] == ["ALLOW"] * 8
    assert levels[-1] == "REINFORCE identical_calls"


@cases(
    "critical, expected",
    {
        "a kill is a pause": (Level.KILL, PAUSED),
        "a block is a pause": (Level.BLOCK, PAUSED),
        "less stays less": (Level.REINFORCE, "REINFORCE second_opinion"),
    },
)
def test_runaway_leads_to_the_level_of_the_upper_threshold_and_to_a_pause_at_most(
    critical: Level, expected: str
) -> None:
    session = hinted(policy({Severity.CRITICAL: critical}))
    session(answer(session.requested[0]))
    assert session.read(4)[0] == expected
    assert session.state is not None
    assert session.state.standing.killed is None


def test_sound_withdraws_the_hint_for_a_while_and_releases_nothing_that_is_killed() -> None:
    session = hinted(policy(hold_actions=3))
    effects = session(answer(session.requested[0], SOUND))
    assert effects.followup == "opinion_sound"
    assert [(i.change, i.resolution) for i in effects.incidents] == [(IncidentChange.RESOLVED, WITHDRAWN)]
    assert session.state is not None
    assert session.state.standing.history is not None
    assert session.state.standing.history.entries == []
    assert session.state.standing.history.hints == 0
    assert session.read(4, 5, 6, 7) == ["ALLOW", "ALLOW", "ALLOW", HINT]
    assert len(session.requested) == 2
    killed = hinted()
    request = killed.requested[0]
    kill = Command(command_id="k", kind=CommandKind.KILL, id=SESSION, by="ada", reason="enough", time=at(16))
    killed.core.on_command(killed.state, kill)
    assert killed(answer(request, SOUND)).followup == "opinion_late"
    assert killed.read(4)[0].startswith("KILL")
    reset = Command(command_id="r", kind=CommandKind.RESET, id=SESSION, by="ada", reason="go on", time=at(22))
    killed.core.on_command(killed.state, reset)
    assert killed.read(5, 6, 7) == ["ALLOW", "ALLOW", HINT]
    assert killed.requested == [request]


@cases(
    "without, third, late",
    {
        "keep": (WithoutAnswer.KEEP, "REINFORCE identical_calls", "REINFORCE identical_calls"),
        "hint": (WithoutAnswer.HINT, HINT, HINT),
        "pause": (WithoutAnswer.PAUSE, "REINFORCE identical_calls", PAUSED),
    },
)
def test_without_an_answer_the_policy_says_what_follows(without: WithoutAnswer, third: str, late: str) -> None:
    session = Session(policy({Severity.MEDIUM: Level.REINFORCE}, without_answer=without, timeout_s=7))
    assert session.read(1, 2, 3, 4) == ["ALLOW", "ALLOW", third, third]
    assert session.read(5)[0] == late


def test_an_answer_that_there_is_none_or_that_is_late_or_second_is_none() -> None:
    session = hinted(policy(without_answer=WithoutAnswer.PAUSE))
    assert session(answer(session.requested[0], OpinionOutcome.ERROR)).followup == "opinion_none"
    assert session.read(4)[0] == PAUSED
    late = hinted(policy(timeout_s=1))
    late.read(4)
    first = late.requested[0]
    assert late(answer(first)).followup == "opinion_late"
    twice = hinted()
    twice(answer(twice.requested[0]))
    assert twice(answer(twice.requested[0], SOUND)).followup == "opinion_repeated"
    assert twice.read(4)[0] == PAUSED


@pytest.mark.parametrize("other", [{"event_id": "r2"}, {"detector": "stagnation"}], ids=str)
def test_an_answer_to_something_else_changes_nothing(other: dict[str, Any]) -> None:
    session = hinted()
    assert session(answer(session.requested[0], **other)).followup == UNREQUESTED
    assert session.read(4) == [HINT]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("opinion:\n  rules: [budget]\n", "opinion.rules: expected rules of judgement"),
        ("opinion: {lower: high, upper: medium}\n", "upper: expected a severity above lower"),
    ],
)
def test_a_policy_that_cannot_be_carried_out_is_refused(text: str, expected: str) -> None:
    with pytest.raises(BadPolicy, match=expected):
        parse_policy(text)
