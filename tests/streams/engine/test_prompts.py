"""Sessions with one prompt of a user after another, through the default policy. All of them are made by hand."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from haltline.interventions.agent.novelty import SeenWords
from haltline.interventions.levels.default_levels import is_ask
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Kind, Task
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.engine.local_fleet import decisions_of
from tests.builders import call, event

CORE = Core(Policy())


def decided(events: Iterable[ActionEvent]) -> list[tuple[str, Level]]:
    """Rule and level of everything that the agent is told."""
    state, told = None, []
    for one in events:
        effects = CORE.on_event(state, one)
        state = effects.state
        told += [(d.detector, d.level) for d in decisions_of(effects) if d.level > Level.ALLOW]
    return told


def prompt(second: float, number: int) -> ActionEvent:
    return event(second, "", kind=Kind.SESSION_STARTED, task=Task(prompts=number))


def failing(second: float) -> list[ActionEvent]:
    return list(call(second, "get_order", "order=W1", "order not found", args={"order_id": "W1"}))


def each_after_a_prompt(number: int, events: Callable[[float], list[ActionEvent]], *, told: bool) -> list[ActionEvent]:
    """The same asked for again and again; `told`: the agent's side says that a person did so."""
    result = []
    for n in range(number):
        result += [prompt(60 * n, n + 1)] if told or not n else []
        result += events(60 * n + 5)
    return result


def test_what_a_person_asks_for_once_more_is_no_loop_but_a_loop_after_a_prompt_is_and_harm_counts_on() -> None:
    assert decided(each_after_a_prompt(8, failing, told=True)) == []
    assert [level for _, level in decided(each_after_a_prompt(8, failing, told=False))][-1] >= Level.PAUSE
    looping = [one for n in range(8) for one in failing(65 + 5 * n)]
    levels = [level for _, level in decided([prompt(0, 1), *failing(5), prompt(60, 2), *looping])]
    assert levels[-1] >= Level.PAUSE

    def destroy(second: float) -> list[ActionEvent]:
        return list(call(second, "delete_asset", "asset_id=fact_sales", args={"asset_id": "fact_sales"}))

    assert decided(each_after_a_prompt(3, destroy, told=True))[-1] == ("destructive_repeat", Level.KILL)


# Customer service: what a person says is not an event of older recordings, so each session holds without prompts too.

Act = tuple[str, dict[str, object], str]
"""A tool, its arguments and its result; one that begins with `Error` failed."""


def seeks_a_flight() -> Iterator[Act]:
    """Days and connections are looked up one after another, mostly without a flight, and a payment is refused twice."""
    yield (
        "get_reservation_details",
        {"reservation_id": "XEWRD9"},
        '{"origin": "LAX", "destination": "ATL", "paid": 812}',
    )
    for day in range(13, 22):
        for to in ("ATL", "DFW"):
            flights = f'[{{"flight_number": "HAT{day}{len(to)}", "price": {day * 9}}}]' if day % 3 == 0 else "[]"
            yield "search_direct_flight", {"origin": "LAX", "destination": to, "date": f"2024-05-{day}"}, flights
    for paid, result in ((640, "Error: payment amount does not add up"), (652, "Error: payment amount does not add up"),
                         (655, '{"reservation": "XEWRD9", "total": 655}')):  # fmt: skip
        yield "update_reservation_flights", {"reservation_id": "XEWRD9", "amount": paid}, result
    yield "send_certificate", {"user_id": "james_lee_6136", "amount": 50}, "ok"


def unlocks_a_phone() -> Iterator[Act]:
    """Each step is for the customer to take at the phone; the line is looked at after each, and says the same."""
    for step in ("airplane mode off", "SIM seated again", "network mode 4G", "APN reset", "phone restarted", "VPN off"):
        yield "think", {"thought": f"Next: {step}"}, ""
        yield "get_line_details", {"line_id": "L1002"}, '{"line_id": "L1002", "status": "active", "roaming": false}'
        yield "check_network_status", {"line_id": "L1002"}, "No service"
    yield "enable_roaming", {"line_id": "L1002"}, "Roaming enabled"
    yield "check_network_status", {"line_id": "L1002"}, "Connected, 4G"


@pytest.mark.parametrize(
    ("acts", "every"),
    [
        pytest.param(seeks_a_flight, 0, id="seeks_a_flight, without prompts"),
        pytest.param(seeks_a_flight, 4, id="seeks_a_flight, with prompts"),
        # Only the prompts tell it from an agent that looks at the same line again and again.
        pytest.param(unlocks_a_phone, 3, id="unlocks_a_phone, with prompts"),
    ],
)
def test_customer_service_is_never_stopped(acts: Callable[[], Iterator[Act]], every: int) -> None:
    seen, events = SeenWords(), [prompt(0, 1)]
    for number, (tool, args, result) in enumerate(acts()):
        if every and number % every == 0:
            events.append(prompt(30 * number + 1, 2 + number))
        error = result if result.startswith("Error") else None
        fields: dict[str, Any] = {
            "output_head": result,
            "output_bytes": len(result),
            "output_novelty": seen.take(result, error, args=args),
        }
        events += call(30 * number + 5, f"mcp__shop__{tool}", args=args, error=error, **fields)
    stops = [(rule, level) for rule, level in decided(events) if level >= Level.PAUSE and not is_ask(rule, level)]
    assert stops == []
