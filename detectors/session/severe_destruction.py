"""One act would be a catastrophe: on the production database, the backups, a home folder, the main branch.

Fires: `severe_destruction`, on every attempt that would destroy something of badness SEVERE: high, and critical from
    the session's attempt number `critical` on.
Quiet: attempts that were already refused; a declared batch that names such targets.
Misses: things whose name does not show what they are; what the command line hides (see `commands`).
"""

from typing import Annotated, ClassVar

from pydantic import Field

from haltline.detectors.commands.model import Badness
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Attempts, OfAttempts, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.findings import Finding, Severity

_LISTED = 3
"""Things listed in the reason; the number of further ones is appended."""


@settings
class SevereDestruction(OfAttempts[Attempts]):
    """Any attempt to destroy something of badness SEVERE."""

    id: ClassVar[str] = "severe_destruction"
    sees: ClassVar[Trait] = Trait.LOSS

    critical: Annotated[int, Field(ge=1, le=1000), Stricter.LOWER] = 2
    """Threshold of a critical finding: attempts. Another attempt after a refused one is no accident."""

    def concerns(self, act: Observation) -> bool:
        """Attempts that would destroy something."""
        return act.is_attempt and bool(act.losses)

    def observe(self, state: Attempts, act: Observation) -> Finding | None:
        """Report what would be lost."""
        severe = [loss for loss in act.losses if loss.badness is Badness.SEVERE]
        if not severe or (act.batch is not None and act.batch.targets):
            return None
        state.attempts += 1
        listed = ", ".join(f"{loss.verb} of {loss.target}" for loss in severe[:_LISTED])
        more = f" and {len(severe) - _LISTED} more" if len(severe) > _LISTED else ""
        return self.finding(
            "severe_destruction",
            Severity.CRITICAL if state.attempts >= self.critical else Severity.HIGH,
            f"a single call would destroy critical data or systems: {listed}{more}",
            (act.evidence,),
            values={"severe": len(severe), "attempts": state.attempts},
            thresholds=self.thresholds("critical"),
            target=severe[0].target[:512],
        )
