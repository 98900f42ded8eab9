"""The transport and decider of a guard: Kafka, or this process."""

import logging
from typing import Final

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.kafka_transport import KafkaTransport
from haltline.interventions.agent.transport.transport import Decider, NoTransport, Transport

log: Final = logging.getLogger("haltline.agent")


def transport_of(settings: GuardSettings) -> Transport:
    """Return the connection to the worker; without an address, one that discards records."""
    return NoTransport() if settings.bootstrap is None else KafkaTransport(settings)


def decider_of(settings: GuardSettings, above: Decider | None) -> Decider | None:
    """Return the decider of this process, shared with the session above; None unless the mode is `local`.

    Raises ValueError for an invalid policy.
    """
    if settings.mode != "local":
        if settings.policy is not None and above is None:
            log.warning(
                "haltline: session %s: policy: expected none in mode %r, in which workers decide by theirs, got one; "
                "it is not used",
                settings.session_id,
                settings.mode,
            )
        return None
    if above is not None:
        return above.below()
    # Imported only here: the other modes need nothing of the processor.
    from haltline.interventions.agent.transport.local_decider import LocalDecider  # noqa: PLC0415

    return LocalDecider(settings.policy, remembers=settings.bootstrap is None)


def with_policy_read(settings: GuardSettings) -> GuardSettings:
    """Return the settings with their policy read and validated, for several guards to share.

    Without a policy, and in a mode that needs none, they are unchanged. Raises ValueError like `decider_of`.
    """
    if settings.mode != "local" or settings.policy is None:
        return settings
    from haltline.interventions.agent.transport.local_decider import read_policy  # noqa: PLC0415 - as above

    return settings.changed(policy=read_policy(settings.policy))
