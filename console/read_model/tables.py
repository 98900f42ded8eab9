"""The tables of the read model, from which the API answers. They can be rebuilt from topics and audit."""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
)
from sqlalchemy.types import TypeEngine

from haltline.console.read_model import text_search

SCHEMA_VERSION: Final = 9
"""A database of another version is recreated."""

metadata = MetaData()


def between(column: ColumnElement[int], first: int | None, last: int | None) -> list[ColumnElement[bool]]:
    """The conditions of a range, both ends included; None: no bound."""
    return [*([column >= first] if first is not None else ()), *([column <= last] if last is not None else ())]


def _key(**types: type[TypeEngine[Any]]) -> list[Column[Any]]:
    """The columns of the primary key, with their types."""
    return [Column(name, kind, primary_key=True) for name, kind in types.items()]


def _needed(**types: type[TypeEngine[Any]]) -> list[Column[Any]]:
    """Columns without NULL, with their types."""
    return [Column(name, kind, nullable=False) for name, kind in types.items()]


def _numbered() -> Column[int]:
    """The order of arrival, by which the text search refers to rows."""
    # PostgreSQL uses a number for each attempt; SQLite numbers rows by a column of exactly this type.
    return Column("n", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


def _words() -> Column[str]:
    """The searchable text in lower case."""
    return Column("words", Text, nullable=False, default="")


versions = Table("haltline_version", metadata, Column("version", Integer, primary_key=True))

offsets = Table("offsets", metadata, *_key(topic=String, partition=Integer), *_needed(next=BigInteger))
"""The next offset of each partition; written in the transaction of the rows."""

gaps = Table("gaps", metadata, *_key(topic=String, partition=Integer, first=BigInteger), *_needed(after=BigInteger))
"""Ranges of offsets (end exclusive) whose records the broker deleted before they were read."""

rebuilding = Table("rebuilding", metadata, *_key(source=String))
"""The audit table that a rebuilding is reading; an interrupted one goes on with it."""

topic_ids = Table("topic_ids", metadata, *_key(topic=String), *_needed(id=String))
"""The topic id that the offsets belong to, if the cluster has ids: a recreated topic has another one."""

records = Table(
    "records",
    metadata,
    *_key(topic=String, partition=Integer, offset=BigInteger),
    *_needed(kind=String, time_ms=BigInteger),
    *(Column(name, String) for name in ("session_id", "agent_id", "event_id", "decision_id", "detector", "severity")),
    Column("incident_id", String),  # for a decision with the report of its stop
    Column("subject", String),  # the approval request of a decision or a command; the record that a command refers to
    *_needed(summary=Text, body=Text),
    Index("records_session", "session_id", "time_ms"),
    Index("records_event", "topic", "event_id"),
)
"""Every record, with its topic without prefix; `body` is its JSON as received, or the unreadable value."""


def of_topic(topic: str) -> ColumnElement[bool]:
    """The records of one topic, as a literal and not a parameter, so that SQLite uses only the partial indices."""
    return records.c.topic == literal_column(f"'{topic}'")


def _partly(name: str, *columns: str, where: ColumnElement[bool]) -> None:
    """A partial index: actions are most of the records, and are in none of these."""
    Index(name, *(records.c[column] for column in columns), sqlite_where=where, postgresql_where=where)


_FOUND = ("topic", "time_ms", "detector", "severity", "agent_id", "session_id", "partition", "offset")
"""The columns by which findings are filtered and sorted; with all in the index, only the shown rows are read.

The topic is constant, but SQLite prefers an index of all topics to one that does not begin with it.
"""
_partly("records_detections", *_FOUND, where=of_topic("detections"))
_partly("records_incident", "incident_id", where=records.c.incident_id.is_not(None))
_partly("records_decision", "decision_id", where=records.c.decision_id.is_not(None))
_partly("records_subject", "subject", "kind", "partition", "offset", where=records.c.subject.is_not(None))
_partly("records_commands", "topic", "kind", "time_ms", where=of_topic("commands"))

sessions = Table(
    "sessions",
    metadata,
    _numbered(),
    Column("session_id", String, nullable=False, unique=True),
    Column("agent_id", String, nullable=False, index=True),
    Column("mission_id", String),
    Column("parent_session_id", String),
    Column("goal", Text, nullable=False, default=""),
    Column("named_at", Text, nullable=False, default="{}"),  # of the above names: time, partition, offset, as JSON
    *_needed(first_ms=BigInteger),
    Column("last_ms", BigInteger, nullable=False, index=True),
    Column("events", Integer, nullable=False, default=0),
    Column("hardest", Integer, nullable=False, default=0),  # rank of the highest level, without asks
    Column("asks", Integer, nullable=False, default=0),
    Column("cost_usd", Float, nullable=False, default=0.0),
    Column("ended", Boolean, nullable=False, default=False),
    Column("targets_until", Text),  # the first target in alphabetical order that `words` lacks; null: none
    _words(),
)
text_search.keep_index(sessions)

interventions = Table(
    "interventions",
    metadata,
    _numbered(),
    Column("id", String, nullable=False, unique=True),
    Column("session_id", String, nullable=False, index=True),
    Column("agent_id", String, nullable=False),
    Column("event_id", String, index=True),
    Column("request_id", String, index=True),
    *_needed(type=String, outcome=String, action_name=String, policy_id=String, policy_name=String, risk_level=String),
    Column("level", String, nullable=False),  # empty: the record of another guard, which has no levels
    *_needed(cost_prevented_usd=Float, time_ms=BigInteger),
    Column("hidden", Boolean, nullable=False, default=False),
    _words(),
    Column("body", Text, nullable=False),
    Index("interventions_agent", "agent_id", "time_ms", "hidden"),
    # All filtered columns: bodies are most of a row, and are read for shown rows only. PostgreSQL bounds the size of an
    # index entry, and agents choose the names.
    Index(
        "interventions_filters",
        "time_ms", "hidden", "id", "type", "outcome", "risk_level", "cost_prevented_usd", "action_name", "agent_id",
        "policy_id", "policy_name", "level",
    ).ddl_if(dialect="sqlite"),
    Index("interventions_time", "time_ms", "hidden", "type", "outcome", "risk_level", "level").ddl_if(
        dialect="postgresql"
    ),
)  # fmt: skip
text_search.keep_index(interventions, "CASE WHEN {row}.hidden THEN '' ELSE {row}.words END")
"""One row per intervention, as in Agent Sentinel's API; deleted ones are hidden but kept."""

TALLIED: Final = ("type", "outcome", "risk_level", "action_name", "policy_id", "policy_name", "level")

tallies = Table(
    "tallies",
    metadata,
    Column("key", String, primary_key=True),  # a digest of the day and the columns in TALLIED
    Column("day", Integer, nullable=False, index=True),  # days since 1970 in UTC
    *_needed(**dict.fromkeys(TALLIED, String)),
    *_needed(count=BigInteger, prevented_usd=Float),
)
"""The number of interventions of a day with equal columns, without hidden ones, so that statistics need not read all
of them."""

spent = Table(
    "spent",
    metadata,
    *_key(minute=Integer, session_id=String),
    *_needed(cost_usd=Float),
    sqlite_with_rowid=False,
)
"""The amount that a session reported as spent in a minute (since 1970) of its event time."""

approvals = Table(
    "approvals",
    metadata,
    *_key(request_id=String),
    *_needed(session_id=String),
    Column("agent_id", String, nullable=False, index=True),
    Column("state", String, nullable=False, index=True),
    *_needed(waits=Boolean, priority=Integer, since_ms=BigInteger, expires_ms=BigInteger, over_ms=BigInteger),
    Column("whole_session", Boolean, nullable=False),
    Column("body", Text, nullable=False),
)
"""The last decision on each request; its priority by rank."""

incidents = Table(
    "incidents",
    metadata,
    _numbered(),
    Column("incident_id", String, nullable=False, unique=True),
    *_needed(revision=Integer, open=Boolean, state=String, scope=String, scope_id=String, cause=String),
    Column("session_id", String, index=True),
    Column("agent_id", String, nullable=False),
    *_needed(level=Integer, severity=Integer, count=BigInteger),  # the highest level and severity by rank; -1: none
    Column("last_ms", BigInteger, nullable=False, index=True),
    Column("assignee", String),
    *_needed(snoozed_ms=BigInteger),  # until then it is silent; 0: it is not
    Column("decision_id", String, nullable=False),
    Column("request_id", String, index=True),
    _words(),
    Column("body", Text, nullable=False),
    Index("incidents_worst", "open", "severity", "level", "last_ms"),
)
text_search.keep_index(incidents)
"""The current state of each incident: its record with the highest revision."""

names = Table(
    "names",
    metadata,
    _numbered(),
    *_needed(kind=String, name=String, last_ms=BigInteger),
    _words(),
    UniqueConstraint("kind", "name"),
)
"""Each agent, target and tool that an event has named, and the latest time."""
text_search.keep_index(names)

control = Table(
    "control",
    metadata,
    *_key(key=String),
    *_needed(scope=String, id=String, state=String, since_ms=BigInteger, body=Text),
)
"""The restrictions in force."""
