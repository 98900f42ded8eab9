from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.streams.notify.delivery_queue import DeliveryQueue, Item
from haltline.streams.notify.routes import FOLLOWED, Planned
from tests.streams.notify.records import change


def item(
    name: str, due_ms: int = 0, *, incident: str = "i", revision: int = 1, digest: str | None = None, route: str = "r"
) -> Item[str]:
    planned = Planned(notification_id=name, channel="c", route=route, due_ms=due_ms, digest=digest)
    return Item(planned=planned, record=change("opened", revision, incident), at_ms=0, origin=name)


def sent(waiting: DeliveryQueue[str], now_ms: int) -> list[list[str]]:
    """The messages that are due, by the names of their items."""
    messages = []
    while taken := waiting.take(now_ms, 10):
        messages.append([one.planned.notification_id for one in taken])
    return messages


@pytest.mark.parametrize(
    ("items", "now_ms", "messages"),
    [
        pytest.param([item("a"), item("b")], 0, [["a"], ["b"]], id="in the order in which they came"),
        pytest.param([item("a", 9), item("b", incident="j")], 5, [["b"]], id="not before it is due"),
        pytest.param([item("a", 9), item("b", 5, incident="j")], 9, [["b"], ["a"]], id="what is due first is first"),
        pytest.param([item("a", 9, digest="d"), item("b", 9, digest="d"), item("c", 9, digest="e")], 9,
                     [["a", "b"], ["c"]], id="one message of each digest"),
        pytest.param([item("a", 9, digest="d"), item("b", revision=2), item("c", 9, digest="d", incident="j")], 5,
                     [["a"], ["b"]], id="what is sent at once takes with it what is held back of its incident"),
        pytest.param([item("a", 9), item("b", route=FOLLOWED, revision=2)], 9, [["a"], ["b"]],
                     id="what only follows waits for what is held back of its incident"),
        pytest.param([item("a"), item("a")], 0, [["a"]], id="each once"),
    ],
)  # fmt: skip
def test_what_is_sent(items: list[Item[str]], now_ms: int, messages: list[list[str]]) -> None:
    waiting: DeliveryQueue[str] = DeliveryQueue()
    for one in items:
        waiting.add(one)
    assert sent(waiting, now_ms) == messages


steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 5, 9]), st.sampled_from(["", "d", "e"]), st.booleans()),
    max_size=30,
)


@given(steps, st.integers(0, 6))
def test_each_is_sent_once_and_none_is_lost(chosen: list[tuple[int, int, str, bool]], halfway_ms: int) -> None:
    waiting: DeliveryQueue[str] = DeliveryQueue()
    for number, (incident, due_ms, digest, follows) in enumerate(chosen):
        one = item(str(number), due_ms, incident=str(incident), revision=number + 1, digest=digest or None)
        if follows:
            one = replace(one, planned=replace(one.planned, route=FOLLOWED))
        waiting.add(one)
        if number == len(chosen) // 2:
            early = sent(waiting, halfway_ms)
    messages = [*(early if chosen else []), *sent(waiting, 9)]
    assert sorted(name for message in messages for name in message) == sorted(map(str, range(len(chosen))))
    assert (len(waiting), waiting.next_due_ms()) == (0, None)
