"""A learned model of `stagnation` that is tried beside the one in force.

Fires: as `stagnation`, with the model in `settings.model`: what `haltline learn` writes. By default in shadow, so that
    findings of both can be compared on the same events before the model is moved to `stagnation`.
Quiet: without a model of its own, or with the one of this release: then it does not run at all.
Misses: as `stagnation`.
"""

from typing import ClassVar

from haltline.detectors.framework.base import settings
from haltline.detectors.session.stagnation import SHIPPED, Stagnation


@settings
class StagnationCandidate(Stagnation):
    """A learned model of `stagnation`, beside the one in force; only with `settings.model`."""

    id: ClassVar[str] = "stagnation_candidate"

    @property
    def idle(self) -> bool:
        """Whether it has no other model than that of this release, which `stagnation` has already."""
        return self.model == SHIPPED
