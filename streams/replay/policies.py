"""The policies in force over time, by their publication. Pure."""

from collections.abc import Iterable
from contextlib import suppress

from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.policy.loader import BadPolicy
from haltline.streams.policy.source import policy_of
from haltline.streams.replay.records import LogRecord
from haltline.streams.replay.replay_worker import InForce


def one(policy: Policy, plugins: Plugins = NO_PLUGINS) -> list[InForce]:
    """Return one policy for the whole time."""
    return [InForce(0, Core(policy, plugins))]


def published(records: Iterable[LogRecord], name: str, plugins: Plugins = NO_PLUGINS) -> list[InForce]:
    """Return the documents of a name, each from its publication on; the defaults before the first one.

    As in a worker, a document that cannot be used is skipped, and after a removal the defaults apply. A worker applies
    a document some moments after its publication, a delay that the log does not have.
    """
    found = one(Policy(name=name), plugins)
    for record in records:
        if record.key != name.encode():
            continue
        with suppress(BadPolicy):
            found.append(InForce(record.timestamp, Core(policy_of(record, name, plugins), plugins)))
    return found
