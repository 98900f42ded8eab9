"""Makes the dashboards beside it out of the table below: `python deploy/grafana/build.py`.

Grafana's JSON is long and says little; the panels are reviewed here. tests/deploy asks a Prometheus that scraped real
processes for every query.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "dashboards"

_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_J = 'job=~"$job"'
_RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Panel:
    """One panel: its queries by legend, the unit in Grafana's words, and what it is for."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    what: str = ""
    kind: str = "timeseries"


def _rate(metric: str, by: str = "") -> str:
    labels = f" by ({by})" if by else ""
    return f"sum{labels} (rate(haltline_{metric}{{{_J}}}{_RATE}))"


def _quantile(share: float, metric: str, by: str = "") -> str:
    return f"histogram_quantile({share}, sum by (le{by}) (rate(haltline_{metric}_bucket{{{_J}}}{_RATE})))"


def _of(component: str, metric: str) -> str:
    return f'haltline_{metric}{{{_J}}} and on (job, instance) haltline_build_info{{component="{component}"}}'


def _of_workers(share: float, metric: str) -> str:
    workers = 'on (job, instance) haltline_build_info{component="worker"}'
    return f"histogram_quantile({share}, sum by (le) (rate(haltline_{metric}_bucket{{{_J}}}{_RATE}) and {workers}))"


def _named(expression: str) -> str:
    return f"sum by (component) ({expression} * on (job, instance) group_left (component) haltline_build_info)"


DASHBOARDS: Final = {
    "fleet": (
        "haltline: fleet",
        [
            Panel("Sessions watched", {"sessions": f"sum({_of('worker', 'sessions')})"}, kind="stat"),
            Panel("Workers ready", {"ready": f"sum({_of('worker', 'ready')})"}, kind="stat"),
            Panel(
                "The canary was stopped",
                {"stopped": f"min(haltline_canary_up{{{_J}}})"},
                kind="stat",
                what="1: the last session that had to be killed was, and said so.",
            ),
            Panel(
                "Events a second",
                {
                    "{{topic}}": (
                        f"sum by (topic) (rate(haltline_events_processed_total{{{_J}}}{_RATE})"
                        ' and on (job, instance) haltline_build_info{component="worker"})'
                    )
                },
                "ops",
            ),
            Panel(
                "From record to decision",
                {
                    "half within": _of_workers(0.5, "decision_latency_seconds"),
                    "99 % within": _of_workers(0.99, "decision_latency_seconds"),
                },
                "s",
                what="Without what rules in shadow would have decided, for which nobody waits.",
            ),
            Panel("Records that could not be used", {"{{reason}}": _rate("dead_letters_total", "reason")}, "ops"),
            Panel(
                "Processor time",
                {"{{component}}": _named(f"rate(process_cpu_seconds_total{{{_J}}}{_RATE})")},
                "percentunit",
            ),
            Panel("Memory", {"{{component}}": _named(f"process_resident_memory_bytes{{{_J}}}")}, "bytes"),
            Panel(
                "Policy in force",
                {"{{policy}} at {{instance}}": f"haltline_policy_version{{{_J}}}"},
                what="Workers that differ for long are at odds on what to stop.",
            ),
            Panel(
                "Requests a second", {"{{route}} {{status}}": _rate("http_requests_total", "route, status")}, "reqps"
            ),
            Panel("Answers within (99 %)", {"{{route}}": _quantile(0.99, "http_request_seconds", ", route")}, "s"),
            Panel(
                "What runs",
                {"{{component}} {{version}}": f"count by (component, version) (haltline_build_info{{{_J}}})"},
            ),
        ],
    ),
    "lag": (
        "haltline: lag",
        [
            Panel(
                "Records that wait for the workers",
                {"{{topic}}": f"sum by (topic) ({_of('worker', 'consumer_lag_records')})"},
            ),
            Panel(
                "The oldest has waited", {"{{topic}}": f"max by (topic) ({_of('worker', 'consumer_lag_seconds')})"}, "s"
            ),
            Panel(
                "Behind, by process",
                {
                    "{{component}}": (
                        f"max by (component) (haltline_consumer_lag_seconds{{{_J}}}"
                        " * on (job, instance) group_left (component) haltline_build_info)"
                    )
                },
                "s",
            ),
            Panel(
                "Records that come, a second",
                {
                    "{{topic}}": (
                        f"sum by (topic) (rate(haltline_consumer_high_watermark{{{_J}}}{_RATE})"
                        ' and on (job, instance) haltline_build_info{component="worker"})'
                    )
                },
                "ops",
                what="By the ends of the partitions, which move whether or not a worker reads.",
            ),
            Panel(
                "Records that are done, a second",
                {
                    "{{topic}}": (
                        f"sum by (topic) (rate(haltline_consumer_committed_offset{{{_J}}}{_RATE})"
                        ' and on (job, instance) haltline_build_info{component="worker"})'
                    )
                },
                "ops",
            ),
            Panel("Partitions of each process", {"{{instance}}": f"haltline_assigned_partitions{{{_J}}}"}),
            Panel("State to be recovered", {"{{instance}}": f"haltline_recovery_remaining_records{{{_J}}}"}),
            Panel("Rebalances", {"{{instance}}": f"increase(haltline_rebalances_total{{{_J}}}[10m])"}),
            Panel(
                "A checkpoint takes",
                {
                    "half within": _quantile(0.5, "checkpoint_duration_seconds"),
                    "99 % within": _quantile(0.99, "checkpoint_duration_seconds"),
                },
                "s",
            ),
            Panel("State written", {"bytes": _rate("state_bytes_total")}, "Bps"),
            Panel("States written", {"states": _rate("states_written_total")}, "ops"),
        ],
    ),
    "trips": (
        "haltline: trips and interventions",
        [
            Panel(
                "Stops in ten minutes",
                {"stops": "haltline:stops:increase10m"},
                kind="stat",
                what="PAUSE, BLOCK, ROLLBACK and KILL that are enforced; HaltlineTripSpike looks at it.",
            ),
            Panel("Decisions by level", {"{{level}}": _rate("decisions_total", "level")}, "ops"),
            Panel("Decisions by rule", {"{{detector}}": _rate("decisions_total", "detector")}, "ops"),
            Panel(
                "Enforced, warned, in shadow",
                {"{{mode}}": _rate("decisions_total", "mode")},
                "ops",
                what="What a rule in shadow would have done is counted here, and done by nobody.",
            ),
            Panel("Findings by severity", {"{{severity}}": _rate("findings_total", "severity")}, "ops"),
            Panel("What operators and the clock did", {"{{what}}": _rate("followups_total", "what")}, "ops"),
            Panel(
                "Interventions by type",
                {"{{intervention_type}}": "sum by (intervention_type) (rate(pipeline_safety_intervention_total[5m]))"},
                "ops",
                what="The pipeline system's three graphs, by its own names (recording rules).",
            ),
            Panel(
                "Intervention effectiveness",
                {"{{intervention_type}}": "avg by (intervention_type) (pipeline_safety_intervention_effectiveness)"},
                "percentunit",
            ),
            Panel(
                "Escalation rate", {"{{detector}}": "rate(pipeline_safety_intervention_escalation_total[5m])"}, "ops"
            ),
        ],
    ),
    "sink": (
        "haltline: audit",
        [
            Panel("Rows a second", {"{{topic}}": _rate("sink_rows_total", "topic")}, "ops"),
            Panel("Behind", {"{{topic}}": f"max by (topic) ({_of('audit', 'consumer_lag_seconds')})"}, "s"),
            Panel("Records that wait", {"{{topic}}": f"sum by (topic) ({_of('audit', 'consumer_lag_records')})"}),
            Panel(
                "Left before the broker deletes",
                {
                    "{{topic}}[{{partition}}]": (
                        f"haltline_consumer_committed_offset{{{_J}}} - haltline_consumer_low_watermark"
                        ' and on (job, instance) haltline_build_info{component="audit"}'
                    )
                },
                what="Offsets between the oldest that the broker has and where the sink is. At 0 with records that "
                "wait, the audit loses records.",
            ),
            Panel(
                "A commit takes",
                {
                    "half within": _quantile(0.5, "sink_commit_seconds"),
                    "99 % within": _quantile(0.99, "sink_commit_seconds"),
                },
                "s",
            ),
            Panel("Commits a second", {"commits": _rate("sink_commits_total")}, "ops"),
            Panel("Lost to retention", {"{{topic}}": f"sum by (topic) (haltline_sink_lost_records_total{{{_J}}})"}),
            Panel("Could not be decoded", {"{{topic}}": _rate("sink_unreadable_rows_total", "topic")}, "ops"),
            Panel("Read again, and dropped", {"{{topic}}": _rate("sink_skipped_rows_total", "topic")}, "ops"),
            Panel("Chains are intact", {"intact": f"min(haltline_audit_chain_intact{{{_J}}})"}, kind="stat"),
            Panel(
                "Since the last verification",
                {"age": f"time() - max(haltline_audit_last_verification_timestamp_seconds{{{_J}}})"},
                "s",
                kind="stat",
            ),
            Panel(
                "Rows verified, and not signed yet",
                {
                    "verified": f"max(haltline_audit_verified_rows{{{_J}}})",
                    "not signed": f"max(haltline_audit_unsigned_rows{{{_J}}})",
                },
            ),
        ],
    ),
    "agents": (
        "haltline: agents' side",
        [
            Panel(
                "From a stop to its word that it stopped",
                {
                    "half within": _quantile(0.5, "time_to_stop_seconds"),
                    "99 % within": _quantile(0.99, "time_to_stop_seconds"),
                },
                "s",
            ),
            Panel(
                "Kills that were not acknowledged",
                {
                    "{{what}}": f'sum by (what) (haltline_followups_total{{{_J},what=~"kill_.*"}})',
                },
                what="kill_reissued: sent again; kill_unacknowledged: given up, an incident.",
            ),
            Panel(
                "Activity after a kill",
                {"acts": f'sum(haltline_followups_total{{{_J},what="activity_after_kill"}})'},
                kind="stat",
            ),
            Panel(
                "Approvals",
                {"{{what}}": f'sum by (what) (increase(haltline_followups_total{{{_J},what=~"approval_.*"}}[1h]))'},
            ),
            Panel("The canary took", {"seconds": f"max(haltline_canary_seconds{{{_J}}})"}, "s"),
            Panel("Canaries", {"{{result}}": f"sum by (result) (haltline_canary_flights_total{{{_J}}})"}),
            Panel("Verdicts over HTTP", {"{{code}}": _rate("intake_verdicts_total", "code")}, "ops"),
            Panel("Events over HTTP", {"events": _rate("intake_events_total")}, "ops"),
            Panel("Sessions of the intake", {"sessions": f"sum(haltline_intake_sessions{{{_J}}})"}),
        ],
    ),
    "quality": (
        "haltline: quality of detectors",
        [
            Panel("Findings", {"{{detector}}": _rate("findings_total", "detector")}, "ops"),
            Panel(
                "Decisions of a finding",
                {"{{detector}}": f"{_rate('decisions_total', 'detector')} / {_rate('findings_total', 'detector')}"},
                "percentunit",
                what="A rule that finds much and decides little: its findings are below what is acted on.",
            ),
            Panel(
                "Interventions that helped",
                {
                    "{{detector}}": (
                        f'(sum by (detector) (haltline_interventions_judged_total{{{_J},helped=~"yes|half"}})'
                        f" or 0 * sum by (detector) (haltline_interventions_judged_total{{{_J}}}))"
                        f" / sum by (detector) (haltline_interventions_judged_total{{{_J}}})"
                    )
                },
                "percentunit",
                what="The rule stayed quiet for ten actions afterwards, or the next finding was less severe.",
            ),
            Panel(
                "Interventions by what followed", {"{{helped}}": _rate("interventions_judged_total", "helped")}, "ops"
            ),
            Panel("Escalations", {"{{detector}}": _rate("escalations_total", "detector")}, "ops"),
            Panel(
                "Errors of detectors", {"{{detector}}": f"sum by (detector) (haltline_detector_errors_total{{{_J}}})"}
            ),
        ],
    ),
}


def dashboard(name: str) -> dict[str, Any]:
    """One dashboard as Grafana reads it."""
    title, panels = DASHBOARDS[name]
    return {
        "uid": f"haltline-{name}",
        "title": title,
        "tags": ["haltline"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "job",
                    "label": "Job",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": "label_values(haltline_build_info, job)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "links": [{"title": "haltline", "type": "dashboards", "tags": ["haltline"], "asDropdown": True}],
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "title": panel.title,
        "type": panel.kind,
        **({"description": panel.what} if panel.what else {}),
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def text_of(name: str) -> str:
    """The file of one dashboard."""
    return json.dumps(dashboard(name), indent=1) + "\n"


if __name__ == "__main__":
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(text_of(name), encoding="utf-8")
