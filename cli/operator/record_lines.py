"""Records of topics as lines, human-readable or JSON."""

import contextlib
from typing import cast

import orjson
from confluent_kafka import Message

from haltline.cli.common import printable
from haltline.interventions.state.texts import line_of
from haltline.interventions.vocabularies import render
from haltline.schemas import wire
from haltline.schemas.control import Command, ControlRecord, Feedback
from haltline.schemas.decisions import Decision
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Detection
from haltline.schemas.intervening import Vocabulary
from haltline.schemas.record import Record, rfc3339


def as_line(message: Message, prefix: str, vocabulary: Vocabulary | None) -> str:
    """The record as a human-readable line; `vocabulary`: the vocabulary of decisions."""
    topic = str(message.topic()).removeprefix(prefix)
    _, time_ms = message.timestamp()
    key = (message.key() or b"-").decode(errors="replace")
    when = rfc3339(time_ms) if time_ms > 0 else "-"
    text = printable(f"{key}  {_what(topic, message, vocabulary)}")
    return f"{when}  {topic}/{message.partition()}@{message.offset()}  {text}"


def _what(topic: str, message: Message, vocabulary: Vocabulary | None) -> str:
    """A short description of the record."""
    value = message.value()
    if topic == "dead-letter":
        return f"{wire.header(_headers(message), 'haltline-reason')}: {(value or b'')[:120]!r}"
    if value is None:
        return "(removed)"
    try:
        record = _decoded(topic, message)
    except wire.InvalidRecord as bad:
        return f"(cannot be read: {bad})"
    shown_as = vocabulary or _own_vocabulary(record)
    if isinstance(record, Decision) and shown_as is not None:
        rendered = render(record, shown_as)
        return f"(no {shown_as} record)" if rendered is None else f"{shown_as} {rendered.to_json().decode()}"
    return _described(record)


def _own_vocabulary(record: Record) -> Vocabulary | None:
    """The vocabulary that the policy sets for the session; None: none, or unknown to this release."""
    vocabulary = record.vocabulary if isinstance(record, Decision) else None
    return Vocabulary(vocabulary) if vocabulary in set(Vocabulary) else None


def _decoded(topic: str, message: Message) -> Record:
    if topic == "actions":
        return wire.decode_event(message.value(), _headers(message))
    return wire.decode(wire.MODELS[topic], message.value())


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])  # the type of a consumer's messages


def _described(record: Record) -> str:
    match record:
        case ActionEvent():
            ended = f" -> {record.outcome}" if record.outcome else ""
            error = f" ({record.error})" if record.error else ""
            return f"{record.kind} {record.action} {' '.join(record.targets)}{ended}{error}".strip()
        case Decision():
            return f"{line_of(record)} [decision {record.decision_id}]"
        case Detection():
            return f"{record.finding.severity} {record.finding.code}: {record.finding.reason}"
        case Feedback():
            return f"{record.stage} {record.action} of decision {record.decision_id}"
        case Command():
            return f"{record.kind} by {record.by}: {record.reason}"
        case ControlRecord():
            stopped = "" if record.time_to_stop_ms is None else f", stopped in {record.time_to_stop_ms} ms"
            return f"{record.state} by {record.by}: {record.reason}{stopped}"
        case _:
            return record.to_json().decode()


def as_json_line(message: Message, prefix: str, vocabulary: Vocabulary | None) -> str:
    """The record with its position as JSON; a value that is not JSON is a text."""
    value = message.value()
    if vocabulary is not None and str(message.topic()).removeprefix(prefix) == "interventions" and value:
        with contextlib.suppress(wire.InvalidRecord):  # shown unchanged
            rendered = render(wire.decode(Decision, value), vocabulary)
            value = b"null" if rendered is None else rendered.to_json()
    try:
        content = None if value is None else orjson.loads(value)
    except orjson.JSONDecodeError:
        content = (value or b"").decode(errors="replace")
    return orjson.dumps(
        {
            "topic": str(message.topic()).removeprefix(prefix),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp_ms": message.timestamp()[1],
            "key": None if (key := message.key()) is None else key.decode(errors="replace"),
            "value": content,
        }
    ).decode()
