"""Server-sent events: their content, and who may receive them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson

from haltline.console.live import Live
from haltline.streams.audit.columns import Row
from tests.console.serving import LOOP
from tests.console.topics import messages_of, rows


def told(live: Live, stream: AsyncIterator[bytes], until: str) -> list[tuple[str, str, dict[str, Any]]]:
    """The events of a stream up to the first of a name: id, name, data."""

    async def read() -> list[tuple[str, str, dict[str, Any]]]:
        found: list[tuple[str, str, dict[str, Any]]] = []
        async for chunk in stream:
            for block in chunk.decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
                if "event" in fields:
                    found.append((fields["id"], fields["event"], orjson.loads(fields["data"])))
            if any(name == until for _, name, _ in found):
                break
        return found

    return asyncio.run(asyncio.wait_for(read(), 30))


def fresh() -> Live:
    return Live("haltline.")


def test_decisions_are_reported_and_actions_only_counted() -> None:
    live = fresh()

    async def follow() -> AsyncIterator[bytes]:
        stream = live.follow()
        yield await anext(stream)
        live.add(rows(messages_of(LOOP)))
        async for chunk in stream:
            yield chunk

    found = told(live, follow(), "activity")
    names = [name for _, name, _ in found]
    assert (names[0], names[-1], names.count("activity")) == ("hello", "activity", 1)
    activity = found[-1][2]
    assert (activity["events"], activity["sessions"], activity["of"]) == (len(LOOP), ["a"], 1)
    levels = [data["level"] for _, name, data in found if name == "decision"]
    assert levels[-1] == "KILL"
    control = next(data for _, name, data in found if name == "control")
    assert (control["kind"], control["session_id"]) == ("killed", "a")


def test_a_listener_that_comes_back_hears_what_it_missed_or_that_it_was_away_for_too_long() -> None:
    live = fresh()
    live.add(rows(messages_of(LOOP)))
    first = told(live, live.follow(), "hello")[0][0]
    live.add([row | {"topic": "haltline.dead-letter", "kind": "dead_letter"} for row in rows(messages_of(LOOP))[:1]])
    found = told(live, live.follow(first), "dead_letter")
    assert [name for _, name, _ in found] == ["hello", "dead_letter"]
    live = Live("haltline.", kept=2)
    first = told(live, live.follow(), "hello")[0][0]
    live.add(rows(messages_of(LOOP)))
    for last_seen in (first, "0000-1", "nonsense", f"{first.split('-', maxsplit=1)[0]}-99999"):
        assert told(live, live.follow(last_seen), "missed")[-1][1] == "missed", last_seen


def test_whatever_an_agent_wrote_stays_within_its_line() -> None:
    live = fresh()
    (row,) = [one for one in rows(messages_of(LOOP)) if one["kind"] == "killed"][:1]
    hostile: Row = row | {"summary": "x\n\nevent: decision\ndata: {}\n\n", "session_id": "a\r\nid: 7"}

    async def follow() -> AsyncIterator[bytes]:
        stream = live.follow()
        yield await anext(stream)
        live.add([hostile])
        async for chunk in stream:
            yield chunk

    found = told(live, follow(), "control")
    assert [name for _, name, _ in found] == ["hello", "control"]
    assert found[-1][2]["summary"] == hostile["summary"]
