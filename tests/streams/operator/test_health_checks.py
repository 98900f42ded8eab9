import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import chain, repeat
from typing import Any

import pytest
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from haltline.schemas.topics import Topics
from haltline.streams.kafka.acls import Role, grants
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.operator import health_checks
from haltline.streams.operator.client import PartitionLag
from haltline.streams.operator.health_checks import CommandReport, Verdict, intake
from haltline.streams.runtime.health import HealthServer
from haltline.streams.runtime.health import Verdict as Health
from haltline.streams.runtime.metrics import Metrics
from tests.builders import cases
from tests.http_server import served

TOPICS = Topics()
AGENT = "User:agent"
PRINCIPALS = {role: f"User:{role}" for role in Role}
GROUPS = {"group": "haltline", "audit_group": "haltline-audit"}
SHIPPED = [grant.binding() for grant in grants(PRINCIPALS, TOPICS, changelogs=("c", "d"), **GROUPS)]
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


def allowed(who: str, name: str, what: AclOperation = AclOperation.WRITE, by: Any = LITERAL) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, by, who, "*", what, AclPermissionType.ALLOW)


@cases(
    "more, verdict",
    {
        "those that are shipped": ([], Verdict.OK),
        "an agent that may release itself": ([allowed(AGENT, TOPICS.control)], Verdict.BAD),
        "everybody may command": ([allowed("User:*", TOPICS.commands)], Verdict.BAD),
        "by the prefix": ([allowed(AGENT, "haltline.", by=PREFIXED)], Verdict.BAD),
        "reading is another thing": ([allowed(AGENT, TOPICS.control, AclOperation.READ)], Verdict.OK),
    },
)
def test_an_agent_that_could_release_itself_is_found(more: list[AclBinding], verdict: Verdict) -> None:
    found = health_checks.permissions([*SHIPPED, *more], TOPICS, AGENT)
    assert found.verdict is verdict, found
    assert bool(found.do) == (verdict is Verdict.BAD)


def test_agents_that_may_write_nothing_are_found() -> None:
    found = health_checks.permissions(SHIPPED, TOPICS, "User:bot")
    assert (found.verdict, found.found) == (Verdict.BAD, "User:bot may not write haltline.actions")


def lags(committed: Sequence[int | None], records: int) -> Callable[[], list[PartitionLag]]:
    """A group's lag at each look; after the last one it stays so."""
    at = chain(committed, repeat(committed[-1]))
    return lambda: [PartitionLag(topic="t", partition=0, committed=next(at), end=9, lag_records=records)]


def test_how_far_a_group_is_and_clocks_that_differ_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_checks, "_MOVES_WITHIN_S", 0.3)
    for committed, records, verdict in (
        ([5], 0, Verdict.OK),
        ([5, 6], 3, Verdict.OK),
        ([5], 3, Verdict.BAD),  # it stands still
        ([None], 3, Verdict.BAD),
        ([5, 6], 20_000, Verdict.NOTE),
    ):
        found = health_checks.progress("workers' progress", lags(committed, records), "haltline", "haltline worker")
        assert found.verdict is verdict, found
    for off_s, verdict, actual in (
        ({"worker": 0.4, "sink": -1.2}, Verdict.OK, ""),
        ({"worker": 0.4, "sink": -90.0}, Verdict.BAD, "sink is -90 s off"),
        ({"worker": None}, Verdict.NOTE, ""),
    ):
        found = health_checks.clocks({where: CommandReport(200, "", off) for where, off in off_s.items()})
        assert (found.verdict, actual in found.found) == (verdict, True)


@contextmanager
def serving(metrics: Metrics, *, alive: bool = True, ready: bool = True) -> Iterator[str]:
    reasons = () if ready else ("the state is being recovered",)
    health = Health(alive=alive, ready=ready, reasons=reasons, partitions=4, lag_records=2, stuck=())
    server = HealthServer("127.0.0.1", 0, verdict=lambda: health, exposition=metrics.exposition)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.close()


def flown(up: float, ago_s: float) -> Callable[[Metrics], None]:
    def tell(metrics: Metrics) -> None:
        metrics.gauge("canary_up").set(up)
        metrics.gauge("canary_last_flight_timestamp_seconds").set(time.time() - ago_s)

    return tell


def test_the_last_canary_and_what_models_used_are_asked_for() -> None:
    for tell, verdict in (
        (flown(1, 5), Verdict.OK),  # it was stopped
        (flown(0, 5), Verdict.BAD),  # it was not
        (flown(1, 5000), Verdict.BAD),  # that was long ago
        (lambda _: None, Verdict.NOTE),  # none has flown yet
    ):
        metrics = Metrics("canary")
        tell(metrics)
        with serving(metrics) as url:
            assert health_checks.canary(url, time.time()).verdict is verdict
        assert health_checks.canary(url, time.time()).verdict is Verdict.NOTE
    for turns, verdict, actual in (
        ({"unknown": 0, "known": 3}, Verdict.OK, "known of 3 model turns"),
        ({"unknown": 2, "known": 3}, Verdict.NOTE, "usage unknown of 2 of 5 model turns: budgets do not count them"),
        ({}, Verdict.NOTE, "does not count turns of models"),  # of an older release
    ):
        metrics = Metrics()
        for usage, number in turns.items():
            metrics.counter("model_turns_total").labels(usage).inc(number)
        with serving(metrics) as url:
            found = health_checks.usage(url)
        assert (found.verdict, actual in found.found) == (verdict, True), found
        assert health_checks.usage(url).verdict is Verdict.NOTE


def test_a_policy_that_workers_could_not_use_is_found(embedded: EmbeddedBroker) -> None:
    assert health_checks.published_policies(embedded.bootstrap, TOPICS, {}).verdict is Verdict.OK
    produce_confirmed(embedded.bootstrap, TOPICS.policies, key=b"default", value=b"name: default\nversion: 7")
    reported = health_checks.published_policies(embedded.bootstrap, TOPICS, {})
    assert (reported.verdict, reported.found) == (Verdict.OK, "default (version 7)")
    produce_confirmed(embedded.bootstrap, TOPICS.policies, key=b"default", value=b"rules: {no_such_rule: {}}")
    wrong = health_checks.published_policies(embedded.bootstrap, TOPICS, {})
    assert wrong.verdict is Verdict.BAD
    assert "no_such_rule" in wrong.found


@contextmanager
def answering(status: int, host: str) -> Iterator[str]:
    """The URL of what answers /healthz as an intake does."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b'{"broker":true,"sessions":0}')

    with served(Answer, host) as url:
        yield url


@cases(
    "status, host, verdict, found",
    {
        "one on this machine": (200, "127.0.0.1", Verdict.OK, "well"),
        "one at another address without TLS": (200, "127.0.0.2", Verdict.NOTE, "without TLS"),
        "one whose broker is unavailable": (503, "127.0.0.1", Verdict.BAD, "its broker does not answer"),
    },
)
def test_an_intake_is_asked_for_its_health(status: int, host: str, verdict: Verdict, found: str) -> None:
    with answering(status, host) as url:
        check = intake(url)
    assert (check.verdict, found in check.found) == (verdict, True), check
