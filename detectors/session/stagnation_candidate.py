"""A learned model of `stagnation` that is tested in parallel with the current one.

Fires: like `stagnation`, with the model in `settings.model`, which `haltline learn` writes. By default in shadow mode,
    so that findings of both can be compared on the same events before the model is moved to `stagnation`.
Quiet: without a model of its own, or with the one of this release: then it does not run.
Misses: the same as `stagnation`.
"""

from typing import ClassVar

from haltline.detectors.framework.base import settings
from haltline.detectors.session.stagnation import SHIPPED, Stagnation


@settings
class StagnationCandidate(Stagnation):
    """A learned model of `stagnation`, in parallel with the current one; only with `settings.model`."""

    id: ClassVar[str] = "stagnation_candidate"

    @property
    def idle(self) -> bool:
        """Return whether its model is that of this release, which `stagnation` already uses."""
        return self.model == SHIPPED
