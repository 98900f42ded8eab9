"""The calibration check of `haltline doctor`: the audit table's number of sessions, and the budget they can prove."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from haltline.streams.audit.archive import Archive
from haltline.streams.audit.query import QueryFailed
from haltline.streams.learning.false_stops import sessions_needed, upper_bound
from haltline.streams.operator.health_checks import Check, Verdict
from haltline.streams.replay.history import labels_of
from haltline.streams.replay.label_precision import CONFIRMED, MISSED

WHAT: Final = "sessions for a calibration"
BUDGET: Final = Fraction(1, 500)
"""The budget by which an installation is measured."""
_LEAST_EVENTS: Final = 2
"""The least events of a session, as in `haltline calibrate`."""


def calibration_sessions(table: str, storage_options: Mapping[str, str]) -> Check:
    """Check how many sessions count as sound, and which budget they prove if none of them is stopped."""
    archive = Archive(table, storage_options)
    try:
        sessions = archive.sessions(least_events=_LEAST_EVENTS)
        labels = labels_of(archive.labels())
    except (QueryFailed, OSError) as error:
        return Check(WHAT, Verdict.NOTE, f"{error}"[:200], "start a sink (haltline audit), or name its table (--table)")
    runaways = sum(1 for session in sessions if labels.get(session) in {CONFIRMED, MISSED})
    fine, needed = len(sessions) - runaways, sessions_needed(float(BUDGET))
    found = f"{fine:,} of {needed:,} that a budget of {BUDGET} needs at least, and {runaways:,} labelled runaways"
    if not fine:
        return Check(WHAT, Verdict.NOTE, found, "let the audit sink collect sessions")
    bound = f"1/{int(1 / upper_bound(0, fine)):,}"
    found += f"; with no stop among them they vouch for {bound}"
    if fine < needed:
        return Check(WHAT, Verdict.NOTE, found, f"haltline calibrate --budget {BUDGET} shows a preview; wait for more")
    return Check(WHAT, Verdict.OK, found, f"haltline calibrate --budget {BUDGET}")
