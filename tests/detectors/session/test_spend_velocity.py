from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.features.observation import Observation
from haltline.detectors.session.spend_velocity import SpendVelocity, State
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Finding
from tests.builders import Watched, each, event, findings, fires_at, nearness
from tests.cases import cases

MEDIUM, HIGH, CRITICAL = (("spend_velocity", severity) for severity in ("medium", "high", "critical"))


def paid(second: float, cost_usd: float = 0, tokens: int = 0, tool: str = "bash", **fields: Any) -> ActionEvent:
    return event(second, tool, usage={"cost_usd": cost_usd, "input_tokens": tokens}, **fields)


@cases(
    "settings, events, fires",
    {
        "a large sum, slowly": ({}, [paid(s * 60, 9) for s in range(100)], []),
        "more than ten dollars in a minute": ({}, each(range(1, 7), paid, 2), [(6, *MEDIUM)]),
        "three times as much at once": ({}, [paid(1, 30)], [(1, *HIGH)]),
        "ten times as much at once": ({}, [paid(1, 100)], [(1, *CRITICAL)]),
        "a higher severity is told at once, however little was added": (
            {},
            each(range(1, 7), paid, 24),
            [(1, *MEDIUM), (2, *HIGH), (3, *HIGH), (5, *CRITICAL)],
        ),
        "multiples of the policy's own": (
            {"high": 5, "critical": 8},
            each(range(1, 7), paid, 24),
            [(1, *MEDIUM), (2, *MEDIUM), (3, *HIGH), (4, *CRITICAL), (6, *CRITICAL)],
        ),
        "again when half as fast again": ({}, each(range(1, 12), paid, 2), [(6, *MEDIUM), (9, *MEDIUM)]),
        "again after it came down": ({}, [paid(1, 11), paid(100, 1), paid(200, 11)], [(1, *MEDIUM), (200, *MEDIUM)]),
        "tokens": ({}, each(range(1, 7), paid, tokens=2_000_000), [(6, *MEDIUM)]),
        "a longer window": ({"cost_usd_per_min": 1.0, "window_s": 600}, [paid(s * 60, 0.9) for s in range(30)], []),
        "no limits": ({"cost_usd_per_min": None, "tokens_per_min": None}, each(9, paid, 99, 10**9), []),
        "a late event of another window": ({}, [paid(500, 6), paid(0, 6)], []),
        "a late event of the same window": ({}, [paid(500, 6), paid(480, 6)], [(480, *MEDIUM)]),
        "nothing said of what it cost": ({}, each(9, event), []),
    },
)
def test_fires(settings: dict[str, Any], events: Sequence[ActionEvent], fires: list[tuple[float, str, str]]) -> None:
    assert fires_at(SpendVelocity(**settings), events) == fires


def test_it_says_where_the_money_went_and_how_close_it_is() -> None:
    events = [
        paid(1, 3, agent_id="main"),
        paid(11, 2, tool="web_search", agent_id="scout"),
        paid(21, 6, tool="", agent_id="main", kind=Kind.MODEL_TURN, model="big-one"),
    ]
    ((_, finding),) = findings(SpendVelocity(), events)
    assert finding.values == {
        "cost_usd_per_min": 11,
        "top_tool": "bash",
        "top_tool_cost_usd": 3,
        "top_model": "big-one",
        "top_model_cost_usd": 6,
        "top_agent": "main",
        "top_agent_cost_usd": 9,
    }
    assert finding.reason == (
        "11 cost_usd a minute over the last 60s; the most by tool bash 3, model big-one 6, agent main 9"
    )
    assert [e.offset for e in finding.evidence] == [0, 1, 2]
    assert nearness(SpendVelocity(), [paid(1, 5)]) == [0, 0.5]


def test_only_so_many_sources_are_remembered() -> None:
    watched = Watched(SpendVelocity())
    for second in range(1000):
        watched(paid(second / 10, 1, tool=f"tool_{second}", agent_id=f"agent {second}"))
    assert len(watched.state.buckets) == 6
    assert max(len(bucket.sources) for bucket in watched.state.buckets) == 34


class _AddsUpAlways(SpendVelocity):
    """As in a state of the version before, which does not say what the window holds at most."""

    def observe(self, state: State, act: Observation) -> Finding | None:
        state.most = None
        return super().observe(state, act)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 300), st.sampled_from((0, 0.1, 1.7, 3, 9.99, 10, 40)), st.sampled_from((0, 4_000_000))
        ),
        max_size=40,
    )
)
def test_what_the_window_holds_at_most_changes_no_finding(spent: list[tuple[int, float, int]]) -> None:
    events = [paid(second, cost, tokens) for second, cost, tokens in spent]
    assert findings(SpendVelocity(), events) == findings(_AddsUpAlways(), events)
