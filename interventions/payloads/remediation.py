"""Details of a refusal: attempts, prevented cost and destruction, and the remediation. Pure.

A call repeated within an hour counts once as prevented.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, Final

from haltline.interventions.state.context import Context
from haltline.interventions.state.intervention_history import History
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.intervening import Price
from haltline.schemas.payloads import Remediation
from haltline.schemas.record import canonical_json

_SHOWN: Final = 3
_SHORT: Final = 8

LOOPS: Final = frozenset(
    {
        "destructive_repeat", "destructive_volume", "repetition", "cycle", "polling", "error_repetition",
        "monologue", "evasion", "fruitless_waits", "fruitless_search", "stagnation",
        "stagnation_candidate", "agreement", "duplicate_acts",
    }
)  # fmt: skip
"""Rules about repetitions."""
BUDGETS: Final = frozenset({"budget", "spend_velocity"})
EVIDENCE: Final = frozenset({"hallucination", "environment_gone", "invented_data", "silent_shell"})
"""Rules about false statements."""

_REASON_CODES: Final[Mapping[str, str]] = {
    **dict.fromkeys(LOOPS, "LOOP_DETECTED"),
    **dict.fromkeys(BUDGETS, "BUDGET_EXCEEDED"),
    "hallucination": "MISSING_EVIDENCE",
    "environment_gone": "MISSING_EVIDENCE",
    "invented_data": "MISSING_EVIDENCE",
    "silent_shell": "MISSING_EVIDENCE",
    "resource_growth": "RATE_LIMITED",
    "step_review": "ARGUMENT_CONSTRAINT_VIOLATED",
    "scope_creep": "NOT_IN_ALLOWLIST",
}
"""By rule; all others are DENIED_ACTION."""

_ALTERNATIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "LOOP_DETECTED": ("Report the results of the earlier attempts.", "Look at the current state without changing it."),
    "BUDGET_EXCEEDED": ("Report what is done and what is left.",),
    "MISSING_EVIDENCE": ("List what exists.",),
    "RATE_LIMITED": ("Work on a smaller part.",),
}
_ELSEWHERE: Final = ("Report what you wanted to do and why.",)
_GUIDANCE: Final[Mapping[Level, str]] = {
    Level.THROTTLE: "Continue within the limits.",
    Level.PAUSE: "Wait for a person's approval; without it, do not repeat the call.",
    Level.BLOCK: "Do not repeat the call, or another one with the same effect.",
    Level.ROLLBACK: "Continue from the checkpoint with another approach.",
    Level.KILL: "Do not retry: a person has to release the session.",
}


def fingerprint_of(event: ActionEvent, context: Context) -> str:
    """Return a fingerprint, equal for the same call, without varying parts if the policy has read it."""
    deed = context.deed
    if deed is not None and deed.is_attempt:
        return deed.fingerprint[:_SHORT]
    args = canonical_json(event.args)
    call = "\x1f".join((event.action, *event.targets)).encode() + args
    return blake2b(call, digest_size=_SHORT // 2).hexdigest()


def about_refusal(history: History, event: ActionEvent, context: Context, prices: Sequence[Price]) -> dict[str, Any]:
    """Return the fields of a decision that refuses a call."""
    attempt = history.refuse(fingerprint_of(event, context), event.time)
    fields: dict[str, Any] = {"attempt": attempt, "blast_radius": _blast_radius(event, context)}
    usd = next((p.usd for p in prices if fnmatchcase(event.action, p.action)), None)
    if usd is not None:
        fields |= {"estimated_cost_usd": usd, "cost_prevented_usd": usd if attempt == 1 else 0.0}
    return fields


def remediation(level: Level, rule: str, *, retry_after_s: int | None = None) -> Remediation:
    """Return the remediation for the caller; like every text for the model, it contains no thresholds."""
    code = _REASON_CODES.get(rule, "DENIED_ACTION")
    required = ("A person's approval",) if level is Level.PAUSE else ()
    if level is Level.KILL:
        required = ("A release by an operator",)
    return Remediation(
        reason_code=code,
        required_prior_actions=required,
        retry_guidance=_GUIDANCE.get(level, ""),
        retry_after_seconds=retry_after_s,
        safe_alternatives=_ALTERNATIVES.get(code, _ELSEWHERE),
        missing_requirements=("Evidence that what it refers to exists",) if code == "MISSING_EVIDENCE" else (),
    )


def things_lost(context: Context) -> tuple[str, ...]:
    """Return what the call would destroy."""
    if context.deed is None:
        return ()
    return tuple(f"{loss.verb} {loss.target}"[:200] for loss in context.deed.losses)


def _blast_radius(event: ActionEvent, context: Context) -> str:
    things = things_lost(context)
    if things:
        more = f" and {len(things) - _SHOWN} more" if len(things) > _SHOWN else ""
        return f"would have taken away: {', '.join(things[:_SHOWN])}{more}"
    about = ", ".join(target[:200] for target in event.targets[:_SHOWN])
    what = f"{event.action[:200] or 'a call'} ({context.effect.value})"
    return f"{what} on {about}" if about else what
