"""Incidents of the read model over HTTP: the worst first, found by every filter, by the beginning of an id."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.builders import T0_MS
from tests.console.serving import console_in, tell
from tests.streams.notify.records import change

RECORDS = [
    change(incident="a-hint", level="NUDGE", severity="medium", session_id="s1", scope_id="s1"),
    change(incident="b-pause", level="PAUSE", severity="high", session_id="s2", scope_id="s2", agent_id="builder"),
    change("assigned", 2, "b-pause", session_id="s2", scope_id="s2", agent_id="builder", assignee="bo"),
    change(
        incident="c-kill", level="KILL", severity="critical", session_id="s3", scope_id="s3", cause="destruction",
        last_at=T0_MS + 60_000,
    ),
    change("resolved", 2, "d-done", session_id="s1", scope_id="s1", resolution="session_ended"),
    change(incident="d-done", session_id="s1", scope_id="s1"),
]  # fmt: skip
"""The revisions of one incident, some in the wrong order."""


@pytest.fixture(scope="module")
def of_incidents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with console_in(tmp_path_factory.mktemp("incidents")) as client:
        tell(client, [("incidents", record.key, record) for record in RECORDS])
        yield client


def test_incidents_are_listed_worst_first_found_by_every_filter_and_shown_with_their_history(
    of_incidents: TestClient,
) -> None:
    client = of_incidents

    def ids(**filters: str) -> list[str]:
        return [one["incident_id"] for one in client.get("/api/v1/incidents", params=filters).json()["incidents"]]

    assert ids() == ["c-kill", "b-pause", "a-hint", "d-done"], "open ones by level, then those that are resolved"
    assert ids(open_only="true") == ["c-kill", "b-pause", "a-hint"]
    assert ids(state="resolved") == ["d-done"]
    assert ids(session_id="s1") == ["a-hint", "d-done"]
    assert ids(agent_id="builder") == ids(assignee="bo") == ["b-pause"]
    assert ids(level="PAUSE", open_only="true") == ids(severity="high", open_only="true") == ["c-kill", "b-pause"]
    assert ids(cause="destruction") == ["c-kill"]
    assert ids(start_date="2025-06-15T15:07:00Z", open_only="true") == ["c-kill"]
    assert ids(skip="1", limit="1") == ["b-pause"]
    assert client.get("/api/v1/incidents/b").json()["assignee"] == "bo"
    history = client.get("/api/v1/incidents/b/history").json()
    assert [(one["revision"], one["change"]) for one in history] == [(1, "opened"), (2, "assigned")]
    assert client.get("/api/v1/incidents/e").status_code == 404
