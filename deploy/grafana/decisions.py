"""Dashboards of findings and decisions, their outcomes and their quality."""

from typing import Final

from panels import (
    J,
    by_name,
    rate,
    series,
    stat,
    steps,
    to,
    within,
)

_RULE: Final = to("Interventions by this rule", "/interventions?policy_id=${__field.labels.detector:percentencode}")


DASHBOARDS: Final = {
    "trips": (
        "haltline: trips and interventions",
        [
            stat(
                "Stops in ten minutes",
                {"stops": "haltline:stops:increase10m"},
                what="PAUSE, BLOCK, ROLLBACK and KILL that are enforced; HaltlineTripSpike uses it.",
            )
            .thresholds(steps(("green", None), ("orange", 1), ("red", 10)))
            .data_links(to("Open incidents in the console", "/incidents")),
            by_name(series("Decisions by level", {"{{level}}": rate("decisions_total", "level")}, "ops")).data_links(
                to("Incidents of this level in the console", "/incidents?level=${__field.labels.level}")
            ),
            series("Decisions by rule", {"{{detector}}": rate("decisions_total", "detector")}, "ops").data_links(_RULE),
            series(
                "Enforced, warned, in shadow",
                {"{{mode}}": rate("decisions_total", "mode")},
                "ops",
                "Decisions of rules in shadow are counted here and not carried out.",
            ),
            by_name(series("Findings by severity", {"{{severity}}": rate("findings_total", "severity")}, "ops")),
            series("Acts of operators and of timers", {"{{what}}": rate("followups_total", "what")}, "ops").data_links(
                to("Stops in force, in the console", "/kill")
            ),
            series(
                "Interventions by type",
                {"{{intervention_type}}": "sum by (intervention_type) (rate(pipeline_safety_intervention_total[5m]))"},
                "ops",
                "The pipeline system's three graphs, by its own names (recording rules).",
            ),
            series(
                "Intervention effectiveness",
                {"{{intervention_type}}": "avg by (intervention_type) (pipeline_safety_intervention_effectiveness)"},
                "percentunit",
            ).max(1),
            series(
                "Escalation rate", {"{{detector}}": "rate(pipeline_safety_intervention_escalation_total[5m])"}, "ops"
            ).data_links(_RULE),
        ],
    ),
    "agents": (
        "haltline: agents' side",
        [
            series(
                "From a stop to its acknowledgement",
                within("time_to_stop_seconds"),
                "s",
                "Until the agent's side reported that it stopped.",
            ),
            series(
                "Kills that were not acknowledged",
                {"{{what}}": f'sum by (what) (haltline_followups_total{{{J},what=~"kill_.*"}})'},
                what="kill_reissued: sent again; kill_unacknowledged: given up, an incident.",
                limit=("red", 1),
            ).data_links(to("Stops in force, in the console", "/kill")),
            stat(
                "Activity after a kill",
                {"acts": f'sum(haltline_followups_total{{{J},what="activity_after_kill"}})'},
                what="Events that killed sessions published after the kill.",
            )
            .thresholds(steps(("green", None), ("red", 1)))
            .data_links(to("Killed sessions in the console", "/sessions?state=killed")),
            series(
                "Approvals",
                {"{{what}}": f'sum by (what) (increase(haltline_followups_total{{{J},what=~"approval_.*"}}[1h]))'},
            ).data_links(to("Pending approvals in the console", "/approvals")),
            series(
                "Duration of the canary",
                {"seconds": f"max(haltline_canary_seconds{{{J}}})"},
                "s",
                "Above the line, the canary counts as not stopped.",
                limit=("red", 10),
            ),
            series("Canaries", {"{{result}}": f"sum by (result) (haltline_canary_flights_total{{{J}}})"}),
            series("Verdicts over HTTP", {"{{code}}": rate("intake_verdicts_total", "code")}, "ops"),
            series("Events over HTTP", {"events": rate("intake_events_total")}, "ops"),
            series(
                "Sessions of the intake",
                {"{{instance}}": f"haltline_intake_sessions{{{J}}}"},
                what="The line is the default of --max-sessions, of one intake.",
                limit=("orange", 200),
            ),
        ],
    ),
    "quality": (
        "haltline: quality of detectors",
        [
            series("Findings", {"{{detector}}": rate("findings_total", "detector")}, "ops"),
            series(
                "Decisions of a finding",
                {"{{detector}}": f"{rate('decisions_total', 'detector')} / {rate('findings_total', 'detector')}"},
                "percentunit",
                "A rule with many findings and few decisions: its findings are below the thresholds for decisions.",
            ).data_links(_RULE),
            series(
                "Interventions that helped",
                {
                    "{{detector}}": (
                        f'(sum by (detector) (haltline_interventions_judged_total{{{J},helped=~"yes|half"}})'
                        f" or 0 * sum by (detector) (haltline_interventions_judged_total{{{J}}}))"
                        f" / sum by (detector) (haltline_interventions_judged_total{{{J}}})"
                    )
                },
                "percentunit",
                "The rule stayed quiet for ten actions afterwards, or the next finding was less severe.",
            )
            .max(1)
            .data_links(_RULE),
            series(
                "Interventions by result",
                {"{{helped}}": rate("interventions_judged_total", "helped")},
                "ops",
            ).data_links(to("Precision of the rules in the console", "/precision")),
            series("Escalations", {"{{detector}}": rate("escalations_total", "detector")}, "ops").data_links(_RULE),
            series(
                "Errors of detectors",
                {"{{detector}}": f"sum by (detector) (haltline_detector_errors_total{{{J}}})"},
                what="Events on which a detector raised an exception: it may miss findings.",
                limit=("red", 1),
            ),
        ],
    ),
}
