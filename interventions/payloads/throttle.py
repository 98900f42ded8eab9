"""Lower limits: by the measured growth, or else by the severity. Pure.

The cuts and factors are the published ones; limits are integers of at least 1. Ours: the limit of each resource, and
the factors of findings without measured growth.
"""

from collections.abc import Mapping
from typing import Final

from haltline.interventions.state.intervention_history import History
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.intervening import Throttle
from haltline.schemas.payloads import Throttling

FLOOR: Final = 1
MIN_INTERVAL_S: Final = "min_interval_s"
"""The limit of a throttled poll: the seconds from one to the next."""
_BATCH: Final = "batch_size"
_LIMIT_OF: Final[Mapping[str, str]] = {
    "file_ops": "max_file_operations",
    "memory_bytes": "max_memory_mb",
    "tokens": "max_tokens",
    "cost_usd": "max_tokens",
    "output_bytes": "max_tokens",
    "duration_ms": "max_execution_time_s",
    "calls": "max_file_operations",
}
"""By the growing resource."""


def factor_of(growth: float, settings: Throttle) -> float:
    """Return the factor of a limit for its resource's growth factor per step."""
    if growth > 2.0:
        return settings.severe
    if growth > 1.5:
        return settings.aggressive
    return settings.moderate if growth > 1.2 else 1.0


def factor_without_growth(severity: Severity, settings: Throttle) -> float:
    """Return the factor without measured growth."""
    if severity is Severity.CRITICAL:
        return settings.severe
    return settings.aggressive if severity is Severity.HIGH else settings.moderate


def lowered(limit: float, factor: float) -> int:
    """Return the limit times the factor, an integer of at least 1."""
    return max(FLOOR, round(limit * factor))


def throttle(history: History, finding: Finding, settings: Throttle) -> tuple[dict[str, float], Throttling]:
    """Return the new limits, which are stored: a second throttling continues from the first."""
    pause_s = finding.values.get("pause_s")
    if isinstance(pause_s, int | float):
        return {MIN_INTERVAL_S: float(pause_s)}, Throttling(resource="polls", factor=1.0)
    resource, growth = finding.values.get("resource"), finding.values.get("mean_growth")
    if isinstance(resource, str) and isinstance(growth, int | float):
        about, factor = _LIMIT_OF.get(resource), factor_of(growth, settings)
        done = Throttling(resource=resource, growth=float(growth) or None, factor=factor)
    else:
        about, factor = None, factor_without_growth(finding.severity, settings)
        done = Throttling(factor=factor)
    limits = {**settings.limits, **history.limits}
    for name, limit in limits.items():
        if name == _BATCH:
            limits[name] = max(FLOOR, int(limit) // 2)
        elif about is None or name == about:
            limits[name] = lowered(limit, factor)
    history.limits = {name: limit for name, limit in limits.items() if name in settings.limits}
    return limits, done
