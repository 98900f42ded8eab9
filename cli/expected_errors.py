"""Expected errors, which end a command with a message and an exit code instead of a traceback."""

from confluent_kafka import KafkaError, KafkaException

from haltline.cli.common import Exit
from haltline.schemas.wire import InvalidRecord
from haltline.streams.audit import NoRecords, QueryFailed
from haltline.streams.kafka.failure import KnownFailure
from haltline.streams.kafka.log_reader import Gone, NoSuchTopic, Unreachable
from haltline.streams.kafka.topics import NoAdminApiError
from haltline.streams.local.kafka_jars import LocalKafkaError
from haltline.streams.operator.approval_client import Closed
from haltline.streams.operator.command_factory import NotAllowed
from haltline.streams.operator.ids import Ambiguous, NotFound
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.replay.time_range import BadMoment
from haltline.streams.replay.traces import UnreadableTrace

_NOT_ALLOWED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


def explained(error: Exception) -> tuple[object, Exit] | None:
    """The message to print and the exit code; None for an unexpected error."""
    match error:
        case Unreachable():
            return error, Exit.UNREACHABLE
        case NotFound() | Ambiguous() | Closed() | Gone() | InvalidRecord() | NoRecords() | LocalKafkaError():
            return error, Exit.NO
        case NoSuchTopic() | NoAdminApiError() | NotAllowed() | QueryFailed():
            return error, Exit.USAGE
        case BadMoment() | BadPolicy() | UnreadableTrace():
            return error, Exit.USAGE
        case KnownFailure():
            return error, Exit.NO
        case KafkaException():
            return _refusal(error.args[0])
        case _:
            return None


def _refusal(error: KafkaError) -> tuple[str, Exit]:
    reason = f"broker: {error.name()}: {error.str()}"
    if error.code() == KafkaError._INVALID_ARG:
        return reason, Exit.USAGE
    if error.code() in _NOT_ALLOWED:
        return f"{reason} These credentials lack the permission; see `haltline topics acls`.", Exit.NO
    return reason, Exit.UNREACHABLE
