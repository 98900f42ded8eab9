"""Short constructors of incident records."""

from typing import Any

from haltline.schemas.incidents import IncidentChange, IncidentRecord
from tests.builders import T0_MS

_STATE = {"acknowledged": "acknowledged", "resolved": "resolved"}


def change(what: str = "opened", revision: int = 1, incident: str = "inc-1", **fields: Any) -> IncidentRecord:
    """A change of an incident of session s1; other fields by name."""
    expected = what == "approval_wanted"
    values: dict[str, Any] = {
        "incident_id": incident, "revision": revision,
        "change": "approval" if what.startswith("approval") else IncidentChange(what),
        "state": _STATE.get(what, "open"), "scope": "session", "scope_id": "s1", "cause": "repetition",
        "session_id": "s1", "agent_id": "cleaner", "level": "PAUSE", "severity": "high", "count": revision,
        "first_at": T0_MS, "last_at": T0_MS, "changed_at": T0_MS,
        "summary": "3 deletes on asset_id=<fact_sales> in 12s", "decision_id": "d-1",
        "request_id": "apr_5d0c" if expected else None,
    }  # fmt: skip
    return IncidentRecord.model_validate(values | fields)
