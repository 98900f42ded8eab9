from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake.sessions import Sessions

LOCAL = GuardSettings(mode="local")


def test_a_session_named_none_is_above_no_other() -> None:
    sessions = Sessions(LOCAL, 10)
    sessions.of({"session_id": "None", "agent_id": "another", "mission_id": "m"})
    settings = sessions.of({"session_id": "s1"}).guard.settings
    assert (settings.parent_session_id, settings.lineage) == (None, ("s1",))
    assert (settings.agent_id, settings.mission_id) == (LOCAL.agent_id, None)
