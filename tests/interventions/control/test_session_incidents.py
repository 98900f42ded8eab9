import pytest

from haltline.schemas.events import Kind, Outcome
from haltline.schemas.incidents import IncidentChange, IncidentRecord
from haltline.schemas.policy import Operations, Policy
from tests.interventions.cases import some
from tests.interventions.control.core_session import CoreSession


def deleting(session: CoreSession, seconds: list[float]) -> list[IncidentRecord]:
    """The same delete, which changes nothing, at each of these."""
    records: list[IncidentRecord] = []
    for second in seconds:
        records += session.does(second).incidents
        answer = {"call_id": f"c{session.calls}", "action": "delete_asset", "output_head": "still there"}
        records += session.event(Kind.COMPLETED, second + 0.1, outcome=Outcome.OK, **answer).incidents
    return records


def test_each_cause_and_the_kill_count_on_the_incident_that_is_open() -> None:
    records = deleting(CoreSession(), [0, 1, 2, 3])
    assert len({record.incident_id for record in records}) == 1
    assert [record.change for record in (records[0], *records[-2:])] == [
        IncidentChange.OPENED, IncidentChange.ESCALATED, IncidentChange.RESOLVED,
    ]  # fmt: skip
    last = records[-1]
    assert (last.level, last.resolution, last.cause) == ("KILL", "session_killed", "destruction")
    assert last.causes == ["destruction", "no_progress"]
    joined = next(record for record in records if record.before is not None)
    assert some(joined.before).causes == ["destruction"]


@pytest.mark.parametrize(("hours", "resolutions"), [(1.9, []), (2.1, ["quiet"])])
def test_an_incident_is_over_when_the_session_goes_on_without_another_decision(
    hours: float, resolutions: list[str]
) -> None:
    session = CoreSession(Policy(operations=Operations(incident_quiet_h=2)))
    opened = deleting(session, [0, 1])
    assert opened[0].change is IncidentChange.OPENED
    records = session.event(Kind.HEARTBEAT, hours * 3600).incidents
    assert [record.resolution for record in records] == resolutions
    assert bool(session.known.standing.incidents) is not bool(resolutions)
