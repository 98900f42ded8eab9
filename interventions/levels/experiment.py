"""The experiment of a policy: some sessions get a rule's hints, others do not, and both go on as if they had. Pure."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from haltline.interventions.levels.strategies import Chosen
from haltline.schemas.decisions import Arm, Level
from haltline.schemas.policy import Experiment

HINTS: Final = (Level.NUDGE, Level.REINFORCE)
_BYTES: Final = 8


def arm_of(experiment: Experiment, session_id: str) -> Arm:
    """Return the group of a session: a hash of its id and the rule, so that a replay gives the same."""
    drawn = blake2b(f"{experiment.rule}\x1f{session_id}".encode(errors="surrogatepass"), digest_size=_BYTES).digest()
    return Arm.SILENT if int.from_bytes(drawn) < experiment.silent * 256**_BYTES else Arm.TOLD


def put_in_arm(experiment: Experiment, session_id: str, chosen: Iterable[Chosen]) -> None:
    """Mark the hints of the experiment's rule with the session's group; whatever is more than a hint is unchanged."""
    for one in chosen:
        if one.finding.detector == experiment.rule and one.level in HINTS:
            one.arm = arm_of(experiment, session_id)
