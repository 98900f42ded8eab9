"""Predefined queries of the audit table, by name. Each counts a record once, even if written or delivered twice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from haltline.interventions.levels.default_levels import ASKS
from haltline.streams.audit.query import literal


@dataclass(frozen=True)
class Question:
    """A description, and a SELECT over `chosen`, the selected rows of the audit."""

    what: str
    sql: str


_FIRST: Final = ", ".join(
    f'first_value("{name}" ORDER BY timestamp_ms, "offset") AS "{name}"'
    for name in ("session_id", "agent_id", "detector", "level", "mode", "would", "code", "timestamp")
)
_DECISIONS: Final = f"SELECT decision_id, {_FIRST} FROM chosen WHERE kind = 'decision' GROUP BY decision_id"
"""Each decision as first published: a kill that is sent again has the same id."""

_EVENTS: Final = """SELECT session_id, event_id, min(agent_id) AS agent_id,
  max(coalesce(input_tokens, 0)) AS input_tokens, max(coalesce(output_tokens, 0)) AS output_tokens,
  max(coalesce(cost_usd, 0)) AS cost_usd
  FROM chosen WHERE kind LIKE 'action.%' OR kind LIKE 'session.%' OR kind = 'model.turn'
  GROUP BY session_id, event_id"""

_PAUSE_IS: Final = f"CASE WHEN detector IN ({', '.join(map(literal, sorted(ASKS)))}) THEN 'asked' ELSE 'stopped' END"
"""The outcome of a decision at PAUSE."""

QUESTIONS: Final[Mapping[str, Question]] = {
    "trips": Question(
        "which rules decided what, in how many sessions",
        f"""SELECT detector, level, mode, would, count(*) AS decisions, count(DISTINCT session_id) AS sessions,
  max("timestamp") AS "last" FROM ({_DECISIONS}) WHERE detector <> '' AND (level <> 'ALLOW' OR would IS NOT NULL)
  GROUP BY detector, level, mode, would ORDER BY decisions DESC, detector, level""",
    ),
    "targets": Question(
        "what findings were about, the most frequent first",
        """SELECT target, count(*) AS findings, count(DISTINCT session_id) AS sessions,
  count(DISTINCT detector) AS rules
  FROM (SELECT DISTINCT unnest(targets) AS target, session_id, event_id, detector, code FROM chosen
        WHERE kind = 'detection' AND targets IS NOT NULL)
  GROUP BY target ORDER BY findings DESC, target""",
    ),
    "stops": Question(
        "how long it took from a kill to the agent's side saying that it stopped",
        """SELECT code, count(*) AS kills, count(ms) AS acknowledged, min(ms) AS min_ms, median(ms) AS median_ms,
  approx_percentile_cont(ms, 0.95) AS p95_ms, max(ms) AS max_ms
  FROM (SELECT decision_id, min(code) AS code, min(time_to_stop_ms) AS ms FROM chosen
        WHERE kind = 'killed' AND decision_id IS NOT NULL GROUP BY decision_id)
  GROUP BY code ORDER BY kills DESC, code""",
    ),
    "spend": Question(
        "what each agent used and spent, the most expensive first",
        f"""SELECT agent_id, count(DISTINCT session_id) AS sessions, sum(input_tokens) AS input_tokens,
  sum(output_tokens) AS output_tokens, round(sum(cost_usd), 6) AS cost_usd
  FROM ({_EVENTS}) GROUP BY agent_id ORDER BY cost_usd DESC, sessions DESC, agent_id""",
    ),
    "approvals": Question(
        "what became of requests for approval, and who answered",
        f"""SELECT 'request' AS what, code, '' AS "by", count(*) AS "count" FROM ({_DECISIONS})
    WHERE detector = 'approval' GROUP BY code
  UNION ALL SELECT {_PAUSE_IS} AS what, code, '' AS "by", count(*) AS "count" FROM ({_DECISIONS})
    WHERE level = 'PAUSE' AND detector <> 'approval' GROUP BY code, {_PAUSE_IS}
  UNION ALL SELECT 'answer' AS what, kind AS code, "by", count(DISTINCT event_id) AS "count" FROM chosen
    WHERE kind IN ('approve', 'reject', 'ask') GROUP BY kind, "by"
  ORDER BY what, "count" DESC, code""",
    ),
    "operators": Question(
        "who asked for what",
        """SELECT "by", kind, scope, count(DISTINCT event_id) AS commands, max("timestamp") AS "last" FROM chosen
  WHERE kind IN ('kill', 'reset', 'contain', 'freeze', 'lift', 'approve', 'reject', 'ask', 'label', 'batch')
  AND "by" IS NOT NULL GROUP BY "by", kind, scope ORDER BY commands DESC, "by", kind""",
    ),
    "unreadable": Question(
        "what could not be used, by reason",
        """SELECT topic, why, count(*) AS records, max("timestamp") AS "last" FROM
  (SELECT topic, coalesce(code, decode_error) AS why, "timestamp" FROM chosen
   WHERE kind IN ('dead_letter', 'unreadable')) GROUP BY topic, why ORDER BY records DESC, topic""",
    ),
}
"""Queries by name. A session's story is more than a SELECT: see `query.session_story`."""


def sql_of(name: str, where: Sequence[str], *, limit: int | None = None) -> str:
    """Return the SQL of a query, over rows for which all these conditions hold. Raises KeyError for an unknown name."""
    chosen = f" WHERE {' AND '.join(where)}" if where else ""
    cut = f" LIMIT {limit:d}" if limit is not None else ""
    return f"WITH chosen AS (SELECT * FROM audit{chosen}) {QUESTIONS[name].sql}{cut}"
