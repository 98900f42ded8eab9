from haltline.interventions.control import kills
from haltline.interventions.state.effects import ControlEffects, SessionRef
from haltline.interventions.state.session_control import Kill, SessionControl
from haltline.schemas.decisions import Level
from haltline.schemas.policy import Operations, Policy
from tests.builders import T0_MS, at, some

POLICY = Policy(operations=Operations(kill_ack_s=5, kill_issues=3))


def killed() -> tuple[SessionControl, Kill]:
    kill = Kill("d1", "session_killed_loop_guard", "3 deletes", "haltline", T0_MS - 1000)
    return SessionControl(killed=kill), kill


def ticks(standing: SessionControl, *seconds: float, listens: bool = True) -> list[ControlEffects]:
    who = SessionRef("s1", "cleaner", listens=listens)
    return [kills.on_due(standing, who, POLICY, at(second)) for second in seconds]


def test_it_is_sent_again_at_each_deadline_and_then_it_is_an_incident() -> None:
    standing, kill = killed()
    result = ticks(standing, 0, 4.9, 5, 9.9, 10, 14.9, 15, 100)
    assert [s.followup for s in result] == ["", "", "kill_reissued", "", "kill_reissued", "", "kill_unacknowledged", ""]
    again, incident = result[2].decisions[0], result[6].decisions[0]
    assert (again.decision_id, again.level, again.time, again.flag) == ("d1", Level.KILL, at(5), False)
    assert (incident.level, incident.flag, incident.decision_id != "d1") == (Level.KILL, True, True)
    assert incident.reason.startswith("the kill was sent 3 times in 15s")
    assert [s.control.issued for s in result if s.control is not None] == [2, 3, 3]
    record = some(result[6].control)
    assert (record.escalated_at, record.stopped_at) == (at(15), None)
    assert kills.due_ms(kill) == 0


def test_what_follows_is_the_same_however_late_the_tick_comes_and_no_burst() -> None:
    assert ticks(killed()[0], 0, 5)[-1] == ticks(killed()[0], 0, 7.3)[-1]
    late = ticks(killed()[0], 0, 3600, 3600, 3600)
    assert [s.followup for s in late] == ["", "kill_reissued", "kill_reissued", ""]
