from itertools import permutations
from typing import Any

import pytest

from haltline.detectors.cross_session.destruction import AgentDestruction
from haltline.schemas.signals import Signal
from tests.builders import cases
from tests.detectors.cross_session.signals import destroys, found, reported


@cases(
    "signals, findings",
    {
        "one session alone is its own rules' business": ([destroys(0), destroys(5), destroys(10)], []),
        "the next session goes on where the last one ended": (
            [destroys(0), destroys(5), destroys(10, "s2"), destroys(15, "s2"), destroys(20, "s3")],
            [
                "s2@10 destructive: respawned_destruction high",
                "s2@15 destructive: respawned_destruction high",
                "s3@20 destructive: respawned_destruction critical",
            ],
        ),
        "older than it does not": ([destroys(0), destroys(450, "s2"), destroys(900.001, "s3")], []),
        "the twelfth in a minute, by three sessions": (
            [destroys(n, f"s{n % 3}", f"table=t{n}") for n in range(12)],
            ["s2@11 destructive: agent_destruction medium"],
        ),
        "thirty in five minutes": ([destroys(10 * n, f"s{n % 3}", f"table=t{n}") for n in range(30)], []),
    },
)
def test_what_the_sessions_of_an_agent_destroy(signals: list[Signal], findings: list[str]) -> None:
    assert reported(AgentDestruction(), *signals) == findings


def test_the_evidence_is_every_attempt_with_its_place() -> None:
    at: dict[str, Any] = {"topic": "haltline.actions", "partition": 2, "offset": 7}
    (finding,) = found(AgentDestruction(), destroys(0), destroys(5, **at), destroys(10, "s2"))
    assert [e.event_id for e in finding.evidence] == ["s1@0 destructive", "s1@5 destructive", "s2@10 destructive"]
    assert (finding.evidence[1].topic, finding.evidence[1].partition, finding.evidence[1].offset) == tuple(at.values())
    assert finding.reason == "3 attempts on table=orders in 10s by 2 sessions of one agent"
    assert (finding.target, finding.values) == ("table=orders", {"attempts": 3, "sessions": 2, "span_s": 10})


def test_targets_of_one_act_count_each_and_the_latest_act_names_the_session() -> None:
    many = [f"table=t{n}" for n in range(8)]
    acts = [destroys(n, f"s{n}", many[0], targets=many) for n in range(3)]
    assert reported(AgentDestruction(max_destructive=4), *acts) == ["s2@2 destructive: respawned_destruction high"]
    acts = [destroys(n, f"s{n % 3}", f"table=t{n}") for n in range(12)]
    (finding,) = found(AgentDestruction(), *acts[1:], acts[0])
    assert (finding.code, finding.session_id) == ("agent_destruction", "s2")


@pytest.mark.parametrize("order", [pytest.param(p, id=" ".join(map(str, p))) for p in permutations(range(3))])
def test_in_whatever_order_they_arrive_the_latest_session_is_the_one_that_goes_on(order: tuple[int, ...]) -> None:
    signals = [destroys(0), destroys(10), destroys(20, "s2")]
    (finding,) = found(AgentDestruction(), *(signals[n] for n in order))
    assert (finding.session_id or signals[order[-1]].session_id) == "s2"
