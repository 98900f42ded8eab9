from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from haltline.detectors.features.observation import Observation
from haltline.detectors.session.spend_velocity import SpendVelocity, SpendVelocityState
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.findings import Finding
from tests.builders import Watched, cases, each, event, findings, nearness, when


def paid(second: float, cost_usd: float = 0, tokens: int = 0, tool: str = "bash", **fields: Any) -> ActionEvent:
    return event(second, tool, usage={"cost_usd": cost_usd, "input_tokens": tokens}, **fields)


@cases(
    "settings, events, found",
    {
        "a large sum, slowly": ({}, [paid(s * 60, 9) for s in range(100)], ""),
        "more than ten dollars in a minute": ({}, each(range(1, 7), paid, 2), "6m"),
        "three times as much at once": ({}, [paid(1, 30)], "1h"),
        "ten times as much at once": ({}, [paid(1, 100)], "1c"),
        "a higher severity is told at once, however little was added": ({}, each(range(1, 7), paid, 24), "1m 2h 3h 5c"),
        "multiples of the policy's own": ({"high": 5, "critical": 8}, each(range(1, 7), paid, 24), "1m 2m 3h 4c 6c"),
        "again when half as fast again": ({}, each(range(1, 12), paid, 2), "6m 9m"),
        "tokens": ({}, each(range(1, 7), paid, tokens=2_000_000), "6m"),
        "a longer window": ({"cost_usd_per_min": 1.0, "window_s": 600}, [paid(s * 60, 0.9) for s in range(30)], ""),
        "a late event of the same window": ({}, [paid(500, 6), paid(480, 6)], "480m"),
    },
)
def test_fires(settings: dict[str, Any], events: Sequence[ActionEvent], found: str) -> None:
    assert when(SpendVelocity(**settings), events) == found


def test_it_says_where_the_money_went_and_how_close_it_is() -> None:
    events = [
        paid(1, 3, agent_id="main"),
        paid(11, 2, tool="web_search", agent_id="scout"),
        paid(21, 6, tool="", agent_id="main", kind=Kind.MODEL_TURN, model="big-one"),
    ]
    ((_, finding),) = findings(SpendVelocity(), events)
    names = {"top_tool": "bash", "top_model": "big-one", "top_agent": "main"}
    costs = {"top_tool_cost_usd": 3, "top_model_cost_usd": 6, "top_agent_cost_usd": 9}
    assert (finding.code, finding.values) == ("spend_velocity", {"cost_usd_per_min": 11, **names, **costs})
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

    def observe(self, state: SpendVelocityState, act: Observation) -> Finding | None:
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
