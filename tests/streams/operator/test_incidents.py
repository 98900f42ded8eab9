"""Incidents and the canary by the command line, through a real worker."""

from typing import Any

import orjson

from haltline.cli.common import Exit
from haltline.schemas.decisions import Level
from haltline.schemas.topics import Topics
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.operator.client import Operator
from tests.builders import call
from tests.interventions.agent.stand_in import StandIn
from tests.streams.commands import haltline, said
from tests.waiting import wait_until


def test_many_trips_are_one_incident_that_a_person_closes(system: str) -> None:
    def incidents(*arguments: str) -> tuple[int, str]:
        return said("incidents", *arguments, "--bootstrap", system)

    def rows(*arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = orjson.loads(incidents("--session", "trips", *arguments, "--json")[1])
        return found

    def act(word: str, *more: str) -> tuple[int, str]:
        return incidents(word, incident["incident_id"][:12], *more, "--by", "ada")

    for second in range(12):
        for event in call(6 * second, "delete_asset", "asset_id=a", "still there", session="trips"):
            produce_confirmed(system, Topics().actions, key=b"trips", value=event.to_json())
    wait_until(lambda: any(row["count"] > 3 for row in rows()), "the trips are counted")
    (incident,) = [row for row in rows() if row["level"] == "KILL"]
    assert (incident["state"], incident["agent_id"]) == ("open", "agent")
    code, shown = incidents("--agent", "agent")
    assert (code, incident["incident_id"][:8] in shown) == (Exit.NO, True)
    assert act("acknowledge", "--reason", "looking at it")[0] == Exit.OK
    again, why = act("acknowledge", "--reason", "looking at it")
    assert again != Exit.OK, why
    code, answer = act("assign", "bo", "--reason", "owns the table", "--json")
    assert (code, orjson.loads(answer)["incident"]["assignee"]) == (Exit.OK, "bo")
    assert act("comment", "restored from the backup of noon")[0] == Exit.OK
    code, answer = act("resolve", "--reason", "the tool is fixed", "--json")
    assert (code, orjson.loads(answer)["incident"]["resolution"]) == (Exit.OK, "resolved_by_operator")
    code, shown = incidents("show", incident["incident_id"])
    assert (code, "resolved_by_operator" in shown, "assigned to bo" in shown) == (Exit.OK, True, True)
    history = orjson.loads(incidents("show", incident["incident_id"], "--json")[1])
    assert [one["change"] for one in history if one.get("by")] == ["acknowledged", "assigned", "commented", "resolved"]
    assert [one["revision"] for one in history] == list(range(1, len(history) + 1)), "none is lost or doubled"
    assert incident["incident_id"] not in {row["incident_id"] for row in rows()}
    assert incident["incident_id"] in {row["incident_id"] for row in rows("--all")}


def test_it_is_killed_acknowledged_and_leaves_nothing_standing(system: str) -> None:
    before = Operator(system).standing()
    done = haltline("canary", "--json", "--within", "60s", "--bootstrap", system)
    assert done.exit_code == Exit.OK, done.output
    flight = orjson.loads(done.stdout)
    assert (flight["well"], flight["attempts"], flight["problem"]) == (True, 3, "")
    assert Operator(system).standing() == before


def test_of_workers_that_stop_nothing_it_says_so(embedded: EmbeddedBroker) -> None:
    with StandIn(embedded.bootstrap, lambda _: Level.ALLOW):
        done = haltline("canary", "--within", "60s", "--bootstrap", embedded.bootstrap)
    assert done.exit_code == Exit.NO
    assert "expected a kill within 10 identical deletes" in done.stderr
