"""Objections of rules against a call, and their texts.

`TEXTS` are for the model: the next step, and no thresholds, as in every refusal. The values and limits are in `detail`,
for the agent's author.
"""

from dataclasses import dataclass, field
from typing import Final

from haltline.schemas.payloads import Remediation

DENIED: Final = "denied_action"
NOT_ALLOWED: Final = "not_in_allowlist"
ARGUMENTS: Final = "argument_constraint_violated"
MISSING: Final = "missing_evidence"
STALE: Final = "stale_evidence"
LOOP: Final = "loop_detected"
RATE: Final = "rate_limited"
BUDGET: Final = "budget_exceeded"
BUDGET_WARNING: Final = "budget_warning"
IN_FLIGHT: Final = "idempotency_in_flight"
THROTTLED: Final = "throttled"
UNCHECKED: Final = "rules_not_checked"
SNAPSHOT: Final = "snapshot_taken"

TEXTS: Final = {
    DENIED: "This tool must not be used here. Use another way that is allowed, or report what you wanted and why.",
    NOT_ALLOWED: "This tool is not among those that you may use. Use one of those, or report what you wanted and why.",
    ARGUMENTS: "This call is not allowed with these arguments. Correct them, and do not repeat it as it is.",
    MISSING: "This call requires a lookup first. Do that, then repeat the call.",
    STALE: "The lookup that this call requires is too old. Repeat the lookup first.",
    LOOP: "You have made this same call repeatedly. Do not repeat it: use its result, or try something else.",
    RATE: "This tool is called too often. Wait, or continue with something else.",
    BUDGET: "The budget for this is used up. Report what is done and what is left.",
    BUDGET_WARNING: "Most of the budget is used. Finish what matters most.",
    THROTTLED: "Your limits were lowered, and this call exceeds them. Review what was done, and continue with less.",
    UNCHECKED: "This call could not be checked against the rules. Make it in a simpler way, or report it instead.",
    IN_FLIGHT: "This same call is being made right now. Wait for its result, and do not make it again.",
}


@dataclass(frozen=True, slots=True)
class Objection:
    """An objection against one call; only a hint if `blocks` is False."""

    code: str
    detail: str
    """For the agent's author: the measured value and the limit."""
    blocks: bool = True
    values: dict[str, float | int | str] = field(default_factory=dict)
    thresholds: dict[str, float | int | str] = field(default_factory=dict)
    required_prior_actions: tuple[str, ...] = ()
    stale_evidence: tuple[str, ...] = ()
    argument_violations: tuple[str, ...] = ()
    retry_after_s: int | None = None
    text: str = ""
    """A text for the model instead of the code's."""

    @property
    def message(self) -> str:
        """The text for the model."""
        parts = [*self.argument_violations, *self.stale_evidence, *self.required_prior_actions]
        return f"{self._plain} ({'; '.join(parts)})" if parts else self._plain

    @property
    def _plain(self) -> str:
        return self.text or TEXTS[self.code]

    @property
    def remediation(self) -> Remediation:
        """The machine-readable remediation."""
        return Remediation(
            reason_code=self.code.upper(),
            missing_requirements=self.required_prior_actions if self.code == MISSING else (),
            required_prior_actions=self.required_prior_actions,
            retry_guidance=self._plain,
            stale_evidence=self.stale_evidence,
            argument_violations=self.argument_violations,
            retry_after_seconds=self.retry_after_s,
        )
