"""The tables of the read model: what the API answers from. All of it can be made anew from topics and audit."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text

SCHEMA_VERSION: Final = 1
"""A database of another version is made anew."""

metadata = MetaData()

kept = MetaData()
"""Tables that are no part of the read model, as nothing else holds what they say: they outlive that it is made anew."""

versions = Table("haltline_version", metadata, Column("version", Integer, primary_key=True))

offsets = Table(
    "offsets",
    metadata,
    Column("topic", String, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("next", BigInteger, nullable=False),
)
"""How far each partition is taken in; written in the transaction of the rows."""

records = Table(
    "records",
    metadata,
    Column("topic", String, primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("offset", BigInteger, primary_key=True),
    Column("kind", String, nullable=False),
    Column("time_ms", BigInteger, nullable=False),
    Column("session_id", String),
    Column("agent_id", String),
    Column("event_id", String),
    Column("decision_id", String),
    Column("detector", String),
    Column("severity", String),
    Column("summary", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index("records_session", "session_id", "time_ms"),
    Index("records_event", "topic", "event_id"),
    Index("records_detector", "topic", "detector", "time_ms"),
)
"""Every record of the topics, without their prefix; `body` is its JSON as it came, or what could not be read."""

sessions = Table(
    "sessions",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("agent_id", String, nullable=False, index=True),
    Column("mission_id", String),
    Column("parent_session_id", String),
    Column("goal", Text, nullable=False, default=""),
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False, index=True),
    Column("events", Integer, nullable=False, default=0),
    Column("interventions", Integer, nullable=False, default=0),
    Column("hardest", Integer, nullable=False, default=0),  # rank of the hardest level
    Column("cost_usd", Float, nullable=False, default=0.0),
    Column("ended", Boolean, nullable=False, default=False),
)

interventions = Table(
    "interventions",
    metadata,
    Column("id", String, primary_key=True),
    Column("session_id", String, nullable=False, index=True),
    Column("agent_id", String, nullable=False, index=True),
    Column("event_id", String, index=True),
    Column("request_id", String, index=True),
    Column("type", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("action_name", String, nullable=False),
    Column("policy_id", String, nullable=False),
    Column("policy_name", String, nullable=False),
    Column("risk_level", String, nullable=False),
    Column("cost_prevented_usd", Float, nullable=False),
    Column("time_ms", BigInteger, nullable=False, index=True),
    Column("hidden", Boolean, nullable=False, default=False),
    Column("body", Text, nullable=False),
)
"""One row for each intervention, as Agent Sentinel's API tells it; those that were deleted stay, hidden."""

approvals = Table(
    "approvals",
    metadata,
    Column("request_id", String, primary_key=True),
    Column("session_id", String, nullable=False),
    Column("agent_id", String, nullable=False, index=True),
    Column("state", String, nullable=False, index=True),
    Column("priority", String, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("said_ms", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("body", Text, nullable=False),
)
"""The last word on each request."""

control = Table(
    "control",
    metadata,
    Column("key", String, primary_key=True),
    Column("scope", String, nullable=False),
    Column("id", String, nullable=False),
    Column("state", String, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)
"""What holds now."""


spending = Table(
    "spending",
    kept,
    Column("id", String, primary_key=True),
    Column("time_ms", BigInteger, nullable=False, index=True),
    Column("session_id", String, nullable=False, index=True),
    Column("group_id", String, nullable=False, default=""),
    Column("action", String, nullable=False),
    Column("cost_usd", Float, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
"""What was spent (`until_ms` 0), and what is held for a call that is to come until it is spent, or that moment."""

turns = Table("turns", kept, Column("id", Integer, primary_key=True), Column("count", BigInteger, nullable=False))
"""One row, which whoever checks a budget changes first: so one after the other, in any process."""

taken = Table(
    "taken",
    kept,
    Column("request_id", String, primary_key=True),
    Column("time_ms", BigInteger, nullable=False),
)
"""Approvals that who asked for them was told of, each once: what it was given for may be done once."""

tools = Table(
    "tools",
    kept,
    Column("agent_id", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("body", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
)
"""The tools that agents say they have."""
