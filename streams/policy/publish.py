"""Publishing of policy documents to the topic that workers follow."""

from collections.abc import Mapping
from typing import Final

import orjson
from confluent_kafka import TopicPartition
from pydantic import ValidationError

from haltline.schemas import expressions as re
from haltline.schemas.policy import Override, Policy, Published
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_record import LogRecord
from haltline.streams.kafka.produce import produce_confirmed
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.policy.source import current

BUILT_IN_VERSION = Policy().version
"""The version of a name without a document: the defaults."""

_NOT_IN_YAML: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that are valid unescaped in JSON, and that YAML refuses or takes for a line break."""


def publish(
    policy: Policy,
    *,
    bootstrap: str,
    topic: str,
    by: str,
    reason: str,
    time_ms: int,
    client: Mapping[str, ClientSetting] | None = None,
    keeps: bool = True,
) -> tuple[Policy, TopicPartition]:
    """Write a checked policy, for every worker that follows its name. Returns it as written, and its position.

    Without a version, it gets the next one. `keeps`: with the mutes that are in force under its name.

    Raises:
        BadPolicy: its version is not above that of the current document.
        Unreachable, NoSuchTopic: it cannot be written.

    """
    there = current(bootstrap, topic, client=client).get(policy.name)
    above = BUILT_IN_VERSION if there is None else version_of(there)
    if "version" not in policy.model_fields_set:
        policy = policy.model_copy(update={"version": above + 1})
    elif policy.version <= above:
        # Decisions name the version: two documents with one version could not be distinguished.
        raise BadPolicy(
            f"version: expected more than {above}, which is there under {policy.name!r}, got {policy.version}"
        )
    if keeps and there is not None and (mutes := _mutes_in(there, time_ms)):
        kept = (one for one in mutes if one not in policy.overrides)
        policy = policy.model_copy(update={"overrides": (*policy.overrides, *kept)})
    published = Published(by=by, reason=reason, time=time_ms)
    policy = policy.model_copy(update={"v": policy.v, "name": policy.name, "published": published})
    place = produce_confirmed(bootstrap, topic, key=policy.name.encode(), value=encoded(policy), client=client)
    return policy, place


def _mutes_in(record: LogRecord, time_ms: int) -> list[Override]:
    try:
        overrides = Policy.model_validate_json(record.value or b"{}").overrides
    except ValidationError:
        return []  # no worker can use it either
    return [o for o in overrides if o.is_mute and o.exemption is not None and time_ms < o.exemption.expires]


def encoded(policy: Policy) -> bytes:
    """Return the written form: JSON that is also valid YAML, whatever text was given as the reason."""
    # Only fields that are set: other fields keep each release's default, and an override changes only its own.
    return _NOT_IN_YAML.sub(lambda sign: f"\\u{ord(sign[0]):04x}", policy.model_dump_json(exclude_unset=True)).encode()


def version_of(record: LogRecord) -> int:
    """Return the version of a document on the topic; 0 if it cannot be read."""
    try:
        document = orjson.loads(record.value or b"")
    except orjson.JSONDecodeError:
        return 0
    version = document.get("version", BUILT_IN_VERSION) if isinstance(document, dict) else 0
    return version if isinstance(version, int) else 0
