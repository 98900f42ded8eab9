"""Required earlier actions. Only successful actions of this run are evidence."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from haltline.interventions.agent.rules.objection import MISSING, STALE, Objection

_MAX_KEPT = 1024


class Evidence:
    """The time of each action's last success. Not thread safe."""

    def __init__(self, required: Sequence[str]) -> None:
        self._required = tuple(dict.fromkeys(required))
        self._at_ms: dict[str, int] = {}

    def note(self, action: str, now_ms: int) -> None:
        """Record a successful action."""
        if any(fnmatchcase(action, glob) for glob in self._required):
            self._at_ms.pop(action, None)
            self._at_ms[action] = now_ms
            if len(self._at_ms) > _MAX_KEPT:
                del self._at_ms[next(iter(self._at_ms))]

    def reset(self) -> None:
        """Clear the evidence for a new run."""
        self._at_ms.clear()

    def against(self, action: str, required: Sequence[str], max_age_s: float | None, now_ms: int) -> Objection | None:
        """Return missing or outdated evidence; evidence of exactly the maximum age is valid."""
        missing, stale = [], []
        for glob in required:
            latest = max((at for name, at in self._at_ms.items() if fnmatchcase(name, glob)), default=None)
            if latest is None:
                missing.append(glob)
            elif max_age_s is not None and now_ms - latest > max_age_s * 1000:
                stale.append(glob)
        if missing:
            return Objection(
                MISSING, f"{action} wants {', '.join(missing)} first", required_prior_actions=tuple(missing)
            )
        if stale:
            return Objection(
                STALE,
                f"{action} wants {', '.join(stale)} no longer ago than {max_age_s:g}s",
                stale_evidence=tuple(stale),
                thresholds={"max_age_s": max_age_s or 0},
            )
        return None
