from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.drift.behavioral_drift import BehavioralDrift
from haltline.schemas.control import Batch
from haltline.schemas.events import ActionEvent, Effect, Outcome
from haltline.schemas.findings import Finding, Severity
from tests.builders import Watched, at, cases, event, findings, nearness

DETECTOR = BehavioralDrift()
WORK = ("read_file", "grep", "edit_file", "run_tests")
OTHERS = ("paint", "sing", "dance", "juggle", "whistle", "fly")
MANY = (*OTHERS, "gamble", "bet")
SENDS = ("http_get", "send_mail", "post_message", "curl", "request_page")
"""Five tools, all of them of the network."""
RATE, MIX, CAPABILITY = "action_rate_drift", "tool_mix_drift", "capability_drift"

Phase = tuple[Sequence[str], int, float]
"""Tools that are used in turn, how many actions, and seconds before each."""


def session(*phases: Phase, **fields: Any) -> list[ActionEvent]:
    """Phase after phase, each action on a target of its own."""
    events: list[ActionEvent] = []
    now_s = 0.0
    for tools, actions, gap_s in phases:
        for tool in islice(cycle(tools), actions):
            now_s += gap_s
            number = len(events)
            events.append(event(now_s, tool, f"id={number}", event_id=f"action {number}", **fields))
    return events


def shell(*phases: Phase) -> list[ActionEvent]:
    """The same in command lines."""
    bare: dict[str, Any] = {"action": "bash", "targets": []}
    return [e.model_copy(update=bare | {"args": {"command": e.action}}) for e in session(*phases)]


def found(events: Sequence[ActionEvent], detector: BehavioralDrift = DETECTOR, **context: Any) -> list[Finding]:
    return [finding for _, finding in findings(detector, events, **context)]


def codes(events: Sequence[ActionEvent], detector: BehavioralDrift = DETECTOR, **context: Any) -> list[str]:
    return [finding.code for finding in found(events, detector, **context)]


@cases(
    "events, found",
    {
        "ten times faster": (session((WORK, 40, 10), (WORK, 20, 1)), [RATE]),
        "ten times faster, of a slow agent": (session((WORK, 40, 600), (WORK, 20, 60)), [RATE]),
        "as fast as a machine": (session((WORK, 40, 10), (WORK, 200, 0.05)), [RATE]),
        "other tools in place of the one": (session((["read_file"], 40, 10), (OTHERS, 24, 10)), [MIX]),
        "other tools in place of several": (session((WORK, 40, 10), (MANY, 32, 10)), [MIX]),
        "other programs": (
            shell((["cat a"], 40, 10), (["paint a", "cd /x && sing b", "sudo fly", "A=1 /bin/run c", "bet"], 30, 10)),
            [MIX],
        ),
        "it begins to send mail": (session((WORK, 40, 10), (["send_mail"], 9, 10)), [CAPABILITY]),
        "it begins to change records": (session((WORK, 40, 10), (["update_user"], 9, 10)), [CAPABILITY]),
        "it begins to destroy": (session((WORK, 40, 10), (["drop_table"], 9, 10)), [CAPABILITY]),
        "it sends every other time": (session((WORK, 40, 10), (["send_mail", "read_file"], 14, 10)), [CAPABILITY]),
        "a program that goes to the network": (
            shell((["cat a", "ls b"], 40, 10), (["cd /x && curl http://a.example"], 6, 10)),
            [CAPABILITY],
        ),
        "the producer said from the beginning that it goes to the network": (
            session((WORK, 40, 10), (["odd"], 9, 10), effect=Effect.NETWORK),
            [],
        ),
        "a second capability while the first is used": (
            session((WORK, 40, 10), (["send_mail"], 9, 10), (["drop_table"], 9, 10)),
            [CAPABILITY, CAPABILITY],
        ),
    },
)
def test_it_behaves_otherwise_than_before(events: list[ActionEvent], found: list[str]) -> None:
    assert codes(events) == found


@cases(
    "events",
    {
        "explore, edit, test, look at it": session(
            (["read_file", "grep", "list_dir"], 40, 10),
            (["read_file", "edit_file"], 30, 10),
            (["edit_file", "run_tests"], 40, 10),
            (["git_diff"], 4, 10),
        ),
        "reading only, then editing only": session((["read_file"], 60, 10), (["edit_file"], 40, 10)),
        "reading only, then three other tools only": session(
            (["read_file"], 60, 10), (["edit_file", "run_tests", "think"], 60, 10)
        ),
        "phases": session(*[(["read_file"], 30, 10), (["edit_file"], 10, 10), (["test"], 5, 10)] * 6),
        "command lines that explore, then edit and test": shell(
            (["cd /x && cat a", "grep b c", "ls"], 40, 5), (["sed -i s/a/b/ c", "python t.py", "git diff"], 40, 5)
        ),
        "before its baseline": session((OTHERS, 6, 10), (SENDS, 10, 0.1), (["drop_table"], 4, 0.1)),
        "slower": session((WORK, 40, 10), (WORK, 100, 300)),
        "three times faster": session((WORK, 40, 300), (WORK, 40, 100)),
        "no clock but steps": session((WORK, 400, 5)),
        "quick calls, and tests that take long": session(*[(WORK, 8, 3), (["run_tests"], 1, 300)] * 12),
        "parallel calls": session((WORK, 40, 10), *[(["read_file"], 1, 10), (["read_file"], 24, 0)] * 8),
        "polls": session((WORK, 40, 30), (["job_status"], 100, 2)),
        "mail at times": session((WORK, 40, 10), *[([*WORK, "read_file", "send_mail"], 6, 10)] * 20),
        "it sent mail before": session(([*WORK, "send_mail"], 40, 10), (["send_mail"], 12, 10)),
        "a clock that was set back": session((WORK, 40, 10)) + session((WORK, 40, 0.1)),
        "its own scratch goes away": shell((["cat a"], 40, 10), (["touch /tmp/t; rm -rf /tmp/t"], 20, 10)),
        "calls that were refused and never made": session((WORK, 40, 10))
        + session((["send_mail"], 30, 10), outcome=Outcome.REFUSED),
    },
)
def test_work_that_goes_on(events: list[ActionEvent]) -> None:
    assert codes(events) == []


def test_what_comes_together_is_worse_and_one_finding_with_one_action() -> None:
    everything = found(session((["read_file"], 40, 60), ([*SENDS, *OTHERS[:3]], 24, 10)))
    assert sorted(finding.code for finding in everything) == sorted([RATE, MIX, CAPABILITY])
    assert [finding.severity for finding in everything] == [Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL]
    assert [round(finding.confidence, 2) for finding in everything] == [0.33, 0.67, 1]
    slow_reads = (["read_file"], 40, 60)
    (_, both) = found(session(slow_reads, ([*SENDS, *OTHERS[:3]], 24, 1)))
    assert both.severity is Severity.CRITICAL
    assert both.values["deviations"] == f"{MIX}, {CAPABILITY}, {RATE}"
    assert [e.event_id for e in both.evidence] == ["action 40", "action 45"]


def test_the_finding_names_what_changed() -> None:
    (finding,) = found(session((WORK, 40, 10), (["send_mail"], 5, 10)))
    assert finding.severity is Severity.MEDIUM
    assert finding.reason == "kinds of actions that it did not take before: network, since 5 actions"
    assert [e.event_id for e in finding.evidence] == ["action 40", "action 44"]
    assert finding.values["capability_drift_names"] == "network"
    (finding,) = found(session((WORK, 40, 10), (WORK, 12, 1)))
    assert finding.reason == "faster than before: 7 actions in 6s, where a step took 10s"
    assert finding.values["usual_step_s"] == 10
    (finding,) = found(session((["read_file"], 40, 10), (OTHERS, 24, 10)))
    assert finding.values["tool_mix_drift_names"] == "paint, sing, dance, juggle"


def test_only_the_relation_of_times_counts_and_it_says_how_close_it_is() -> None:
    by_seconds = [[f.evidence[-1] for f in found(session((WORK, 40, 8 * x), (WORK, 40, x)))] for x in (1, 30, 1000)]
    assert by_seconds[0] == by_seconds[1] == by_seconds[2] != []
    near = nearness(DETECTOR, session((WORK, 40, 10), (["send_mail"], 5, 10)))
    assert [near[40], *near[43:]] == [0, 0.6, 0.8, 1]


def test_each_is_reported_once_until_it_has_gone_back_a_declared_batch_is_expected_and_settings_decide() -> None:
    events = session((WORK, 40, 10), (["drop_table"], 9, 10))
    batch = Batch(max_deletes=100, expires=at(10_000))
    assert codes(events, batch=batch) == []
    reads = (["read_file"], 120, 10)
    assert codes(session(reads, (MANY, 24, 10), reads, (MANY, 24, 10))) == [MIX, MIX]
    mail = session((WORK, 40, 10), (["send_mail"], 3, 10))
    assert codes(mail) == []
    assert codes(mail, BehavioralDrift(new_capability_actions=3)) == [CAPABILITY]
    three_times = session((WORK, 40, 300), (WORK, 40, 100))
    assert codes(three_times, BehavioralDrift(rate_threshold=5)) == [RATE]
    soon = session((WORK, 12, 10), (["send_mail"], 9, 10))
    assert codes(soon) == []
    assert codes(soon, BehavioralDrift(baseline=10)) == [CAPABILITY]
    with pytest.raises(ValueError, match="greater than or equal to 5"):
        BehavioralDrift(baseline=4)


_TOOLS = st.sampled_from([*WORK, *OTHERS, *SENDS, "drop_table"])


@given(st.lists(st.tuples(_TOOLS, st.sampled_from([0.0, 0.5, 2, 90])), max_size=150), st.integers(8, 40))
def test_the_counts_agree_and_stay_within_their_bounds(actions: list[tuple[str, float]], memory: int) -> None:
    detector = BehavioralDrift(baseline=5, memory=memory)
    watched = Watched(detector)
    for e in session(*(([tool], 1, gap_s) for tool, gap_s in actions)):
        watched(e)
        state = watched.state
        assert state.total == sum(state.mix.values()) < memory
        assert len(state.mix) <= 16
        assert all(deviation.sum > 0 for deviation in state.deviations.values())
        assert 0 <= detector.near(state) <= 1
    assert watched.state.tools.count == len(actions)
