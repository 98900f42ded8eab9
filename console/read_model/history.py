"""Past sessions and the policy in force, from the read model, as input of replays and reports."""

from functools import lru_cache

from sqlalchemy import Engine, select

from haltline.console.read_model import tables
from haltline.console.read_model.sql import Sql
from haltline.console.read_model.store import parts
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
from haltline.streams.history import queries
from haltline.streams.policy.loader import parse_policy
from haltline.streams.policy.source import DEFAULT_NAME, current

_MAX_EVENTS = 5000
"""The most events read of a session to judge whether a hint helped."""


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
    of_session = (("session_id", "=", session_id), ("topic", "=", "actions"))
    rows = Sql(engine).rows("records", *of_session, order=("partition", "offset"), limit=limit)
    return queries.events_of(row["body"].encode() for row in rows)


def labels_of(engine: Engine) -> list[Command]:
    """Operators' labels of decisions and sessions, in order."""
    table = tables.records.c
    statement = select(table.body).where(tables.of_topic("commands"), table.kind == CommandKind.LABEL.value)
    with engine.connect() as connection:
        bodies = connection.execute(statement.order_by(table.time_ms, table.partition, table.offset)).scalars()
        return [wire.decode(Command, body.encode()) for body in bodies]


def hint_effectiveness(engine: Engine, most: int) -> list[Helped]:
    """The share of each rule's hints that helped, in the last `most` decisions."""
    table = tables.records.c
    held = (tables.of_topic("interventions"), table.decision_id.is_not(None), table.detector != "")
    statement = select(table.body).where(*held).order_by(table.time_ms.desc()).limit(most)
    with engine.connect() as connection:
        decisions = [wire.decode(Decision, body.encode()) for body in connection.execute(statement).scalars()]
        sessions = sorted({decision.session_id for decision in decisions if is_hint(decision)})
        found: list[Detection] = []
        for part in parts(sessions):
            of_them = select(table.body).where(tables.of_topic("detections"), table.session_id.in_(part))
            found += [wire.decode(Detection, body.encode()) for body in connection.execute(of_them).scalars()]
    return by_rule(decisions, found, {name: events_of(engine, name, _MAX_EVENTS) for name in sessions})
