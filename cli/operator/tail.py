"""`haltline tail`: follows topics, one line for each record."""

import contextlib
from typing import Annotated, cast

import orjson
import typer
from confluent_kafka import Message

from haltline.cli.answers import operator_of, whole_id
from haltline.cli.cluster import Cluster, with_cluster
from haltline.cli.common import (
    AsJson,
    Exit,
    fail,
    printable,
    say_error,
)
from haltline.interventions.vocabularies import render
from haltline.schemas import wire
from haltline.schemas.control import Command, ControlRecord, Feedback
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.events import ActionEvent
from haltline.schemas.findings import Detection
from haltline.schemas.intervening import Vocabulary
from haltline.schemas.record import Record, rfc3339
from haltline.streams.kafka.log_reader import LogReader
from haltline.streams.operator.client import Operator
from haltline.streams.operator.ids import NotFound

_POLL_S = 0.5


@with_cluster()
def tail(
    *,
    topic: Annotated[
        list[str],
        typer.Option(help=f"Topic without the prefix, may be repeated: {', '.join(wire.MODELS)}.", metavar="NAME"),
    ] = ["actions", "interventions"],  # noqa: B006  # typer copies it
    session: Annotated[
        str | None, typer.Option(help="Only of this session: its id, or the beginning of it.", metavar="ID")
    ] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Begin with the oldest record.")] = False,
    count: Annotated[int | None, typer.Option(help="End after so many records.", min=1)] = None,
    at: Cluster,
    vocabulary: Annotated[
        Vocabulary | None,
        typer.Option(help="Say decisions in the words of another system; what it has no word for is left out."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Follow topics until Ctrl-C, one line for each record. With --json one object for each.

    Example: haltline tail --topic interventions --from-beginning --count 10

    Example: haltline tail --topic interventions --vocabulary acgp
    """
    if unknown := set(topic) - set(wire.MODELS):
        fail(f"--topic: expected one of {', '.join(wire.MODELS)}, got {', '.join(sorted(unknown))}", Exit.USAGE)
    names = [at.topics.prefix + name for name in topic]
    left = count
    if session is not None:
        session = _whole(operator_of(at), session)
    try:
        with LogReader(at.bootstrap, names, from_beginning=from_beginning, client=at.client_config) as reader:
            while left is None or left > 0:
                message = reader.poll(_POLL_S)
                if message is None or (session is not None and message.key() != session.encode()):
                    continue
                typer.echo(
                    _as_json(message, at.prefix, vocabulary) if as_json else _line(message, at.prefix, vocabulary)
                )
                left = None if left is None else left - 1
    except KeyboardInterrupt:
        return  # how following is ended


def _whole(operator: Operator, session: str) -> str:
    """The session's id; as it was given where no events of it were found yet, since it may still start."""
    try:
        return whole_id(operator, ScopeKind.SESSION, session)
    except NotFound:
        say_error(f"no events of session {session} were found yet")
        return session


def _line(message: Message, prefix: str, vocabulary: Vocabulary | None) -> str:
    topic = str(message.topic()).removeprefix(prefix)
    _, time_ms = message.timestamp()
    key = (message.key() or b"-").decode(errors="replace")
    when = rfc3339(time_ms) if time_ms > 0 else "-"
    text = printable(f"{key}  {_what(topic, message, vocabulary)}")
    return f"{when}  {topic}/{message.partition()}@{message.offset()}  {text}"


def _what(topic: str, message: Message, vocabulary: Vocabulary | None) -> str:
    """The record in a few words."""
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
    """The vocabulary that the policy chose for the session; None also for one that this release does not know."""
    vocabulary = record.vocabulary if isinstance(record, Decision) else None
    return Vocabulary(vocabulary) if vocabulary in set(Vocabulary) else None


def _decoded(topic: str, message: Message) -> Record:
    if topic == "actions":
        return wire.decode_event(message.value(), _headers(message))
    return wire.decode(wire.MODELS[topic], message.value())


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])  # what a consumer's messages have


def _described(record: Record) -> str:
    match record:
        case ActionEvent():
            ended = f" -> {record.outcome}" if record.outcome else ""
            error = f" ({record.error})" if record.error else ""
            return f"{record.kind} {record.action} {' '.join(record.targets)}{ended}{error}".strip()
        case Decision():
            held_back = f" (would be {record.would})" if record.would else ""
            request = "" if record.approval is None else f"; request {record.approval.request_id}"
            return f"{record.level}{held_back} {record.code}: {record.reason} [decision {record.decision_id}{request}]"
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


def _as_json(message: Message, prefix: str, vocabulary: Vocabulary | None) -> str:
    """The record with its place; a value that is not JSON as text."""
    value = message.value()
    if vocabulary is not None and str(message.topic()).removeprefix(prefix) == "interventions" and value:
        with contextlib.suppress(wire.InvalidRecord):  # shown as it is
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


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(tail)
