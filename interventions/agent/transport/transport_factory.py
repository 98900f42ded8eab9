"""How a guard gets its decisions: over Kafka, or from this process."""

from haltline.interventions.agent.settings import GuardSettings
from haltline.interventions.agent.transport.kafka_transport import KafkaTransport
from haltline.interventions.agent.transport.transport import Decider, NoTransport, Transport
from haltline.schemas.policy import Policy


def transport_of(settings: GuardSettings) -> Transport:
    """The connection to the worker; none without an address."""
    return NoTransport() if settings.bootstrap is None else KafkaTransport(settings)


def decider_of(settings: GuardSettings, policy: Policy | None, above: Decider | None) -> Decider | None:
    """Who decides in this process, also for the session above; None unless the mode is `local`.

    Raises ValueError for a policy that cannot be.
    """
    if settings.mode != "local":
        return None
    if above is not None:
        return above.below()
    # Only here: the other modes need nothing of the processor.
    from haltline.interventions.agent.transport.local_decider import LocalDecider  # noqa: PLC0415

    return LocalDecider(policy, remembers=settings.bootstrap is None)
