"""The check of a bundle: its files, its chains, and that a replay of its events gives the same decisions."""

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.schemas.policy import Policy
from haltline.streams.incident.bundle import BadBundle, Bundle
from haltline.streams.incident.collect import CHECKPOINTS_FILE, POLICY, PROOF
from haltline.streams.incident.proof import Proved, prove
from haltline.streams.policy.loader import BadPolicy, parse_policy
from haltline.streams.replay.choice import Choice
from haltline.streams.replay.diff import Replayed, replay_and_compare
from haltline.streams.replay.policies import one, published
from haltline.streams.replay.replay_worker import InForce


@dataclass(frozen=True)
class Checked:
    """The result of a check."""

    replayed: Replayed
    proved: Proved

    @property
    def ok(self) -> bool:
        """Whether the decisions are identical, and no chain is broken."""
        return self.replayed.compared.ok and self.proved.ok


def policies_of(bundle: Bundle, plugins: Plugins = NO_PLUGINS) -> list[InForce]:
    """Return the recorded policies. Raises BadBundle."""
    if bundle.manifest.get("policy_from") == "topic":
        return published(bundle.policies(), str(bundle.manifest["policy_name"]), plugins)
    try:
        return one(parse_policy(bundle.files[POLICY].decode(), f"{bundle.path}: {POLICY}", plugins), plugins)
    except (BadPolicy, KeyError, UnicodeDecodeError) as error:
        raise BadBundle(f"{bundle.path}: {POLICY}: {error}") from None


def check(
    bundle: Bundle,
    *,
    key: Ed25519PublicKey | None = None,
    plugins: Plugins = NO_PLUGINS,
    policy: Policy | None = None,
) -> Checked:
    """Replay the decisions and check the proof; `policy` replaces the recorded one. Raises BadBundle."""
    known = one(policy, plugins) if policy is not None else policies_of(bundle, plugins)
    choice = Choice(sessions=frozenset({bundle.session_id}), exact=policy is None)
    replayed = replay_and_compare(bundle, known, choice)
    proved = prove(bundle.json(PROOF), bundle.json(CHECKPOINTS_FILE), bundle.rows(), key)
    return Checked(replayed, proved)
