"""Records as workers write them, from a pure fleet, each with a position."""

from collections.abc import Iterable

from confluent_kafka import Message, Producer, TopicPartition

from haltline.schemas.control import Command
from haltline.schemas.decisions import Decision, ScopeKind
from haltline.schemas.events import ActionEvent
from haltline.schemas.policy import Policy
from haltline.schemas.record import Record
from haltline.schemas.topics import Topics
from haltline.streams.audit.columns import Row
from haltline.streams.audit.reading import KafkaRecord, Reader
from haltline.streams.engine.core import Core, Effects
from haltline.streams.engine.local_fleet import Fleet, Followed, decisions_of

NOW_MS = 1_750_000_000_000
Said = tuple[str, str, Record]
"""Topic without prefix, key, record."""


def messages_of(inputs: Iterable[ActionEvent | Command], policy: Policy | None = None) -> list[Said]:
    """The inputs with what the workers make of them, in order."""
    core = Core(policy or Policy())
    fleet = Fleet(core)
    found: list[Said] = []
    for one in inputs:
        if isinstance(one, Command):
            found.append(("commands", one.id, one))
            if one.scope is not ScopeKind.SESSION:
                key = (one.scope.value, one.id)
                fleet.scopes[key], answer = core.on_scope_command(fleet.scopes.get(key), one)
                found += [("incidents", incident.key, incident) for incident in answer.incidents]
                found += [("control", answer.control.key, answer.control)] if answer.control is not None else []
                continue
            followed = fleet.command(one)
        else:
            found.append(("actions", one.session_id, one))
            followed = fleet.event(one)
        for outcome in followed:
            found += [("detections", detection.session_id, detection) for detection in outcome.detections]
            found += [("interventions", decision.session_id, decision) for decision in _decided(outcome)]
            found += [("incidents", incident.key, incident) for incident in outcome.incidents]
            controls = outcome.controls if hasattr(outcome, "controls") else [outcome.control]
            found += [("control", control.key, control) for control in controls if control is not None]
    return found


def _decided(outcome: Followed) -> Iterable[Decision]:
    """A worker's decisions, including those about other waiting calls."""
    return (*decisions_of(outcome), *(outcome.also if isinstance(outcome, Effects) else ()))


def rows(records: Iterable[Said]) -> list[Row]:
    """The records as the sink's reader passes them, with one partition per topic."""
    reader, offsets, made = Reader(Topics(), "console"), dict[str, int](), []
    for topic, key, record in records:
        offset = offsets[topic] = offsets.get(topic, -1) + 1
        place = KafkaRecord(f"haltline.{topic}", 0, offset, NOW_MS, key.encode(), record.to_json())
        made.append(reader.row(place, NOW_MS))
    return made


def produce(bootstrap: str, records: Iterable[Said], topics: Topics | None = None) -> list[TopicPartition]:
    """Puts them on the topics, confirmed. Returns the place of the last one in each partition."""
    prefix = (topics or Topics()).prefix
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    last: dict[tuple[str, int], int] = {}

    def confirmed(_: object, message: Message) -> None:
        last[str(message.topic()), int(message.partition() or 0)] = int(message.offset() or 0)

    for topic, key, record in records:
        producer.produce(prefix + topic, key=key.encode(), value=record.to_json(), on_delivery=confirmed)
    assert producer.flush(30) == 0
    return [TopicPartition(*place, offset) for place, offset in last.items()]
