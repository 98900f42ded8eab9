"""How a guard gets its decisions: over Kafka, or from this process."""

from haltline.interventions.agent.kafka_link import KafkaLink
from haltline.interventions.agent.link import Decider, Link, NoLink
from haltline.interventions.agent.settings import GuardSettings
from haltline.schemas.policy import Policy


def link_of(settings: GuardSettings) -> Link:
    """The way to the worker and back; nowhere without an address."""
    return NoLink() if settings.bootstrap is None else KafkaLink(settings)


def decider_of(settings: GuardSettings, policy: Policy | None) -> Decider | None:
    """Who decides in this process; None unless the mode is `local`. Raises ValueError for a policy that cannot be."""
    if settings.mode != "local":
        return None
    # Only here: the other modes need nothing of the processor.
    from haltline.interventions.agent.local import LocalDecider  # noqa: PLC0415

    return LocalDecider(policy, remembers=settings.bootstrap is None)
