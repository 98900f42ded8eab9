"""Past sessions and the policy in force, from the read model, as input of replays and reports."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from sqlalchemy import Engine, select

from haltline.console.read_model import tables
from haltline.console.read_model.store import parts, values
from haltline.console.settings import ConsoleSettings
from haltline.interventions.hint_effectiveness import Helped, by_rule, is_hint
from haltline.schemas import wire
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Detection
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.engine.plugins import installed
from haltline.streams.learning.effect import Effect, effects_of
from haltline.streams.policy.loader import parse_policy
from haltline.streams.policy.source import DEFAULT_NAME, current

_MAX_EVENTS = 5000
"""The most events read of a session to judge whether a hint helped."""
_MAX_REPORTED = 20_000
"""The most events, and decisions, of a session in the report of an incident."""


def published_policy(settings: ConsoleSettings) -> Policy:
    """The published policy, or the defaults. A worker with a policy file uses another one.

    Raises Unreachable and NoSuchTopic; BadPolicy for a document that workers cannot use either.
    """
    record = current(settings.bootstrap, settings.topics.policies, client=settings.client).get(DEFAULT_NAME)
    return Policy() if record is None else parse_policy((record.value or b"").decode(), DEFAULT_NAME, installed())


def core_of(policy: Policy) -> Core:
    """The core under a policy; the last few are cached."""
    return _core(policy.model_dump_json(exclude_unset=True))


@lru_cache(maxsize=4)
def _core(document: str) -> Core:
    return Core(Policy.model_validate_json(document), installed())


def events_of(engine: Engine, session_id: str, limit: int) -> list[ActionEvent]:
    """The events of a session, in the order of the log."""
    table = tables.records.c
    statement = (
        select(table.body)
        .where(table.topic == "actions", table.session_id == session_id)
        .order_by(table.partition, table.offset)
        .limit(limit)
    )
    return list(_read(values(engine, statement)))


def until(engine: Engine, session_id: str, until_ms: int) -> tuple[list[ActionEvent], list[Decision]]:
    """The last events and decisions of a session up to a time, each in order."""
    table = tables.records.c

    def bodies(topic: str) -> list[str]:
        held = (table.topic == topic, table.session_id == session_id, table.time_ms <= until_ms)
        newest = select(table.body).where(*held).order_by(table.time_ms.desc(), table.offset.desc())
        return values(engine, newest.limit(_MAX_REPORTED))[::-1]

    decisions = [wire.decode(Decision, body.encode()) for body in bodies("interventions")]
    return list(_read(bodies("actions"))), decisions


def labels_of(engine: Engine) -> list[Command]:
    """Operators' labels of decisions and sessions, in order."""
    table = tables.records.c
    statement = select(table.body).where(tables.of_topic("commands"), table.kind == CommandKind.LABEL.value)
    bodies = values(engine, statement.order_by(table.time_ms, table.partition, table.offset))
    return [wire.decode(Command, body.encode()) for body in bodies]


def hint_effectiveness(engine: Engine, most: int) -> tuple[list[Helped], list[Effect]]:
    """The share of each rule's hints that helped, in the last `most` decisions, and the effect of an experiment's."""
    table = tables.records.c
    held = (tables.of_topic("interventions"), table.decision_id.is_not(None), table.detector != "")
    statement = select(table.body).where(*held).order_by(table.time_ms.desc()).limit(most)
    with engine.connect() as connection:
        decisions = [wire.decode(Decision, body.encode()) for body in connection.execute(statement).scalars()]
        sessions = sorted({decision.session_id for decision in decisions if is_hint(decision) or decision.experiment})
        found: list[Detection] = []
        for part in parts(sessions):
            of_them = select(table.body).where(tables.of_topic("detections"), table.session_id.in_(part))
            found += [wire.decode(Detection, body.encode()) for body in connection.execute(of_them).scalars()]
    events = {name: events_of(engine, name, _MAX_EVENTS) for name in sessions}
    return by_rule(decisions, found, events), effects_of(decisions, events)


def decisions_of(engine: Engine, decision_ids: Iterable[str]) -> dict[str, Decision]:
    """The decisions with these ids in the read model, by id."""
    table, found = tables.records.c, dict[str, Decision]()
    with engine.connect() as connection:
        for part in parts(sorted(set(decision_ids))):
            # The topic is compared here: in SQL, SQLite would scan all decisions instead of looking these up.
            statement = select(table.topic, table.body).where(table.decision_id.in_(part))
            for topic, body in connection.execute(statement):
                if topic == "interventions":
                    decision = wire.decode(Decision, body.encode())
                    found.setdefault(decision.decision_id, decision)
    return found


def _read(bodies: Iterable[str]) -> Iterator[ActionEvent]:
    for body in bodies:
        try:
            yield wire.decode_event(body.encode())
        except wire.InvalidRecord:
            continue  # it was a dead letter originally, too
