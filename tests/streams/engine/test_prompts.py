"""Sessions with one prompt of a user after another, through the default policy. All of them are made by hand."""

from collections.abc import Callable, Iterable

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


def test_what_a_person_asks_for_once_more_is_no_loop() -> None:
    assert decided(each_after_a_prompt(8, failing, told=True)) == []
    assert [level for _, level in decided(each_after_a_prompt(8, failing, told=False))][-1] >= Level.PAUSE


def test_a_loop_after_a_prompt_is_one() -> None:
    looping = [one for n in range(8) for one in failing(65 + 5 * n)]
    levels = [level for _, level in decided([prompt(0, 1), *failing(5), prompt(60, 2), *looping])]
    assert levels[-1] >= Level.PAUSE


def test_harm_counts_on_over_prompts() -> None:
    def destroy(second: float) -> list[ActionEvent]:
        return list(call(second, "delete_asset", "asset_id=fact_sales", args={"asset_id": "fact_sales"}))

    assert decided(each_after_a_prompt(3, destroy, told=True))[-1] == ("destructive_repeat", Level.KILL)


# Customer service: what a person says is not an event of older recordings, so each session holds without prompts too.


def order(number: int, status: str) -> str:
    item = f'{{"name": "Water Bottle", "product_id": "8310926033", "item_id": "{number * 7919}", "price": {number}.5}}'
    return f'{{"order_id": "#W{number}", "user_id": "mia_li_3668", "status": "{status}", "items": [{item}]}}'
