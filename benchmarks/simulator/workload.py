"""The records of a history's agents and operators: few sessions, some of them runaways, with duplicate records."""

import random
from functools import cache
from typing import Final, NamedTuple

import orjson

from benchmarks.load import Load, generate
from benchmarks.simulator.poison import HOW, poisonous
from benchmarks.simulator.world import EPOCH_NS
from haltline.detectors import catalogue
from haltline.detectors.cross_session import ACROSS
from haltline.detectors.framework.plugins import NO_PLUGINS
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Mode
from haltline.schemas.policy import Operations, Policy, Rule
from haltline.schemas.topics import Topics
from haltline.streams.engine.core import Core

TOPICS: Final = Topics()
PARTITIONS: Final = 3

_RULES: Final = frozenset({"destructive_repeat", "severe_destruction", "error_repetition"})
_TWICE_SHARE: Final = 0.1
_BAD_SHARE: Final = 0.03
_COMMAND_SHARES: Final = (0.1, 0.75)
_POISONED_SHARE: Final = 0.3
"""The share of histories with one to three records that end the worker that decides them."""
_LIVES_OF_THIS_RELEASE: Final = (0, 1)
_COMMANDED: Final = 2
"""Sessions that operators kill and reset. They send no events: topics have no order among each other."""


class Sent(NamedTuple):
    """One record of the traffic."""

    topic: str
    key: str
    value: bytes | None


@cache
def policy() -> Policy:
    """Few rules, because the runtime is under test: some that kill, and all cross-session rules in shadow."""
    names = catalogue(Policy(), NO_PLUGINS)
    across = {pattern.id: Rule(mode=Mode.SHADOW) for pattern in ACROSS}
    off = {name: Rule(enabled=False) for name in names if name not in _RULES}
    return Policy(name="simulated", operations=Operations(kill_ack_s=3600), rules=off | across)


@cache
def core() -> Core:
    """The core that all histories share; it is stateless."""
    return Core(policy())


def traffic(seed: int, life: int = 0) -> list[Sent]:
    """Return the records in the order in which they are sent, some of them duplicates and some malformed."""
    rng = random.Random(f"{seed} traffic {life}")
    start_ms = EPOCH_NS // 1_000_000
    sessions = rng.randrange(5, 9)
    load = Load(
        events=rng.randrange(20, 43), sessions=sessions, start_ms=start_ms, seed=rng.randrange(1 << 30),
        runaway_share=0.4, destructive_share=0.05, seconds_between=sessions * 0.1,
    )  # fmt: skip
    found: list[Sent] = []
    later: list[Sent] = []
    commands, command_share = 0, rng.choice(_COMMAND_SHARES)
    for event in generate(load):
        sent = Sent(TOPICS.actions, event.session_id, event.value)
        found.append(sent)
        if rng.random() < _TWICE_SHARE:
            later.append(sent)
        if later and rng.random() < 2 * _TWICE_SHARE:
            found.append(later.pop(0))
        if rng.random() < _BAD_SHARE:
            found.append(Sent(TOPICS.actions, event.session_id, _bad(rng, event.value)))
        if rng.random() < command_share:
            found.append(_command(rng, commands + 1000 * life, start_ms))
            commands += 1
    rng = random.Random(f"{seed} poison {life}")
    if life in _LIVES_OF_THIS_RELEASE and rng.random() < _POISONED_SHARE:
        _poison(rng, found)
    return found


def _poison(rng: random.Random, records: list[Sent]) -> None:
    events = [sent for sent in records if sent.topic == TOPICS.actions and sent.value and sent.value[:1] == b"{"]
    for number in range(rng.randrange(1, 4)):
        sent = rng.choice(events)
        bad = sent._replace(value=poisonous(sent.value or b"", number, rng.choice(HOW)))
        records.insert(rng.randrange(len(records) + 1), bad)


def _bad(rng: random.Random, value: bytes) -> bytes | None:
    return rng.choice([b"not JSON \xff", None, orjson.dumps(orjson.loads(value) | {"v": 99})])


def _command(rng: random.Random, number: int, start_ms: int) -> Sent:
    command = Command(
        command_id=f"command-{number}",
        kind=rng.choice([CommandKind.KILL, CommandKind.RESET]),
        id=f"commanded-{rng.randrange(_COMMANDED)}",
        by="simulator",
        reason=f"number {number}",
        time=start_ms + number,
    )
    return Sent(TOPICS.commands, command.id, command.to_json())
