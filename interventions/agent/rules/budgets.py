"""Budgets. A call's price is held when it begins, and spent when it has run.

A call is refused if spent + held + its price is more than the limit; exactly the limit may be spent. Sums are rounded
to nine places before they are compared, as ten times 0.1 is not 1 in binary.
"""

from collections.abc import Sequence

from haltline.interventions.agent.rules.objection import BUDGET, BUDGET_WARNING, Objection

_PLACES = 9


class Budget:
    """One limit and its spending. Not thread safe."""

    def __init__(self, name: str, limit_usd: float, warn_at: Sequence[float] = ()) -> None:
        self.name = name
        self.limit_usd = limit_usd
        self.spent_usd = 0.0
        self.held_usd = 0.0
        self._warn_at = sorted(warn_at)  # percent
        self._reported = 0

    def against(self, usd: float) -> Objection | None:
        """Return why a call of this price must not be made now, if so."""
        used = round(self.spent_usd + self.held_usd, _PLACES)
        if round(used + usd, _PLACES) <= self.limit_usd:
            return None
        return Objection(
            BUDGET,
            f"{self.name}: ${used:.6g} of ${self.limit_usd:.6g} used or held, and the call costs ${usd:.6g}",
            values={"budget": self.name, "used_usd": used, "cost_usd": usd},
            thresholds={"limit_usd": self.limit_usd},
        )

    def hold(self, usd: float) -> None:
        """Hold the price of a call that begins."""
        self.held_usd = round(self.held_usd + usd, _PLACES)

    def release(self, usd: float) -> None:
        """Release the amount held for a call."""
        self.held_usd = max(0.0, round(self.held_usd - usd, _PLACES))

    def spend(self, usd: float) -> None:
        """Record spending."""
        self.spent_usd = round(self.spent_usd + usd, _PLACES)

    def reset(self) -> None:
        """Reset the spending; amounts held by running calls stay."""
        self.spent_usd, self._reported = 0.0, 0

    def warning(self) -> Objection | None:
        """Return a warning, once for each threshold passed."""
        if self.limit_usd <= 0:
            return None
        percent = round(self.spent_usd / self.limit_usd * 100, _PLACES)
        passed = sum(percent >= at for at in self._warn_at)
        if passed <= self._reported:
            return None
        self._reported = passed
        return Objection(
            BUDGET_WARNING,
            f"{self.name}: ${self.spent_usd:.6g} of ${self.limit_usd:.6g} used, {percent:.0f}%",
            blocks=False,
            values={"budget": self.name, "used_usd": self.spent_usd},
            thresholds={"limit_usd": self.limit_usd, "warn_at_percent": self._warn_at[passed - 1]},
        )
