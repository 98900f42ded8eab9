"""Sessions with one prompt of a user after another, through the default policy. All of them are made by hand."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

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


Act = tuple[str, dict[str, object], str]
"""A tool, its arguments and its result."""


def unlocks_a_phone() -> Iterator[Act]:
    """Each step is for the customer to take at the phone; the line is looked at after each, and says the same."""
    for step in ("airplane mode off", "SIM seated again", "network mode 4G", "APN reset", "phone restarted", "VPN off"):
        yield "think", {"thought": f"Next: {step}"}, ""
        yield "get_line_details", {"line_id": "L1002"}, '{"line_id": "L1002", "status": "active", "roaming": false}'
        yield "check_network_status", {"line_id": "L1002"}, "No service"
    yield "enable_roaming", {"line_id": "L1002"}, "Roaming enabled"
    yield "check_network_status", {"line_id": "L1002"}, "Connected, 4G"


def test_customer_service_is_never_stopped() -> None:
    """Only the prompts tell it from an agent that looks at the same line again and again."""
    seen, events = SeenWords(), [prompt(0, 1)]
    for number, (tool, args, result) in enumerate(unlocks_a_phone()):
        if number and number % 3 == 0:
            events.append(prompt(30 * number + 1, 2 + number))
        fields: dict[str, Any] = {"output_head": result, "output_bytes": len(result)}
        novelty = seen.take(result, None, args=args)
        events += call(30 * number + 5, f"mcp__shop__{tool}", args=args, output_novelty=novelty, **fields)
    stops = [(rule, level) for rule, level in decided(events) if level >= Level.PAUSE and not is_ask(rule, level)]
    assert stops == []
