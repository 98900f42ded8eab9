"""Makes the dashboards beside it with Grafana's own SDK: `make dashboards`.

tests/deploy asks a Prometheus that scraped real processes for every query, and compares the links with the console's
pages. Thresholds are those of the alerts in deploy/prometheus/haltline.rules.yml where there is one.
"""

import json
import sys
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
    TextBoxVariable,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardLinkType, VariableOption, VariableRefresh
from panels import (
    BY_COMPONENT,
    OF_WORKERS,
    RATE,
    SOURCE,
    J,
    by_name,
    marked,
    of,
    rate,
    series,
    stat,
    steps,
    to,
    within,
    yes_no,
)

CONSOLE: Final = "http://127.0.0.1:8460"
"""What the variable `console` begins with; the Helm chart puts the console's address there."""

_RULE: Final = to("Interventions by this rule", "/interventions?policy_id=${__field.labels.detector:percentencode}")


def _unanswered(outcome: str) -> str:
    """Requests of these outcomes in a second; 0 where there are only others."""
    return f"sum(rate(haltline_opinions_total{{{J},{outcome}}}{RATE})) or 0 * {rate('opinions_total')}"


DASHBOARDS: Final = {
    "fleet": (
        "haltline: fleet",
        [
            stat(
                "Sessions watched",
                {"sessions": f"sum({of('worker', 'sessions')})"},
                what="Sessions, and agents, targets and trees of several, whose states the workers keep.",
            ).data_links(to("Sessions in the console", "/sessions")),
            stat(
                "Workers ready",
                {"ready": f"sum({of('worker', 'ready')})"},
                what="0: nothing is decided.",
            ).thresholds(steps(("red", None), ("green", 1))),
            yes_no(
                stat(
                    "The canary was stopped",
                    {"stopped": f"min(haltline_canary_up{{{J}}})"},
                    what="Whether the last session that had to be killed was, and its agent acknowledged it.",
                ),
                "stopped",
                "NOT STOPPED",
            ).data_links(to("Stops in force, in the console", "/kill")),
            series(
                "Events a second",
                {"{{topic}}": f"sum by (topic) (rate(haltline_events_processed_total{{{J}}}{RATE}) {OF_WORKERS})"},
                "ops",
            ),
            series(
                "From record to decision",
                within("decision_latency_seconds", f" {OF_WORKERS}"),
                "s",
                "Without what rules in shadow would have decided, for which nobody waits.",
            ),
            marked(
                series(
                    "Records that could not be used",
                    {"{{reason}}": rate("dead_letters_total", "reason")},
                    "ops",
                    "Dead letters: the activity in them is not watched.",
                ),
                0.001,
                "red",
            ),
            series(
                "Processor time",
                {"{{component}}": f"sum by (component) (rate(process_cpu_seconds_total{{{J}}}{RATE}) {BY_COMPONENT})"},
                "percentunit",
            ),
            series(
                "Memory",
                {"{{component}}": f"sum by (component) (process_resident_memory_bytes{{{J}}} {BY_COMPONENT})"},
                "bytes",
            ),
            series(
                "Policy in force",
                {"{{policy}} at {{instance}}": f"haltline_policy_version{{{J}}}"},
                what="Workers that differ for long are at odds on what to stop.",
            ).data_links(to("Policies in the console", "/policies?name=${__field.labels.policy:percentencode}")),
            series(
                "Requests a second", {"{{route}} {{status}}": rate("http_requests_total", "route, status")}, "reqps"
            ),
            marked(
                series(
                    "Answers within (99 %)",
                    {
                        "{{route}}": (
                            "histogram_quantile(0.99, sum by (le, route) "
                            f"(rate(haltline_http_request_seconds_bucket{{{J}}}{RATE})))"
                        )
                    },
                    "s",
                ),
                1,
            ),
            series(
                "What runs",
                {"{{component}} {{version}}": f"count by (component, version) (haltline_build_info{{{J}}})"},
                what="More than one version of a component: an upgrade is under way.",
            ),
        ],
    ),
    "lag": (
        "haltline: lag",
        [
            series(
                "Records that wait for the workers",
                {"{{topic}}": f"sum by (topic) ({of('worker', 'consumer_lag_records')})"},
            ),
            marked(
                series(
                    "The oldest has waited",
                    {"{{topic}}": f"max by (topic) ({of('worker', 'consumer_lag_seconds')})"},
                    "s",
                    "HaltlineBehind warns from the line on: decisions are late.",
                ),
                30,
            ).data_links(to("Lag in the console", "/fleet")),
            series(
                "Behind, by process",
                {"{{component}}": f"max by (component) (haltline_consumer_lag_seconds{{{J}}} {BY_COMPONENT})"},
                "s",
            ),
            series(
                "Records that come, a second",
                {"{{topic}}": f"sum by (topic) (rate(haltline_consumer_high_watermark{{{J}}}{RATE}) {OF_WORKERS})"},
                "ops",
                "By the ends of the partitions, which move whether or not a worker reads.",
            ),
            series(
                "Records that are done, a second",
                {"{{topic}}": f"sum by (topic) (rate(haltline_consumer_committed_offset{{{J}}}{RATE}) {OF_WORKERS})"},
                "ops",
            ),
            series("Partitions of each process", {"{{instance}}": f"haltline_assigned_partitions{{{J}}}"}),
            series("State to be recovered", {"{{instance}}": f"haltline_recovery_remaining_records{{{J}}}"}),
            series("Rebalances", {"{{instance}}": f"increase(haltline_rebalances_total{{{J}}}[10m])"}),
            marked(series("A checkpoint takes", within("checkpoint_duration_seconds"), "s"), 10),
            series("State written", {"bytes": rate("state_bytes_total")}, "Bps"),
            series("States written", {"states": rate("states_written_total")}, "ops"),
        ],
    ),
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
                "What a rule in shadow would have done is counted here, and done by nobody.",
            ),
            by_name(series("Findings by severity", {"{{severity}}": rate("findings_total", "severity")}, "ops")),
            series("What operators and the clock did", {"{{what}}": rate("followups_total", "what")}, "ops").data_links(
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
    "sink": (
        "haltline: audit",
        [
            series("Rows a second", {"{{topic}}": rate("sink_rows_total", "topic")}, "ops").data_links(
                to("Records of this topic in the console", "/audit?topic=${__field.labels.topic:percentencode}")
            ),
            marked(
                series(
                    "Behind",
                    {"{{topic}}": f"max by (topic) ({of('audit', 'consumer_lag_seconds')})"},
                    "s",
                    "HaltlineSinkBehind warns from the line on.",
                ),
                300,
            ),
            series("Records that wait", {"{{topic}}": f"sum by (topic) ({of('audit', 'consumer_lag_records')})"}),
            series(
                "Left before the broker deletes",
                {
                    "{{topic}}[{{partition}}]": (
                        f"haltline_consumer_committed_offset{{{J}}} - haltline_consumer_low_watermark"
                        ' and on (job, instance) haltline_build_info{component="audit"}'
                    )
                },
                what="Offsets between the oldest that the broker has and where the sink is. At 0 with records that "
                "wait, the audit loses records.",
            ),
            series("A commit takes", within("sink_commit_seconds"), "s"),
            series("Commits a second", {"commits": rate("sink_commits_total")}, "ops"),
            marked(
                series(
                    "Lost to retention",
                    {"{{topic}}": f"sum by (topic) (haltline_sink_lost_records_total{{{J}}})"},
                    what="Records that the broker deleted before the sink read them.",
                ),
                1,
                "red",
            ),
            series("Could not be decoded", {"{{topic}}": rate("sink_unreadable_rows_total", "topic")}, "ops"),
            series("Read again, and dropped", {"{{topic}}": rate("sink_skipped_rows_total", "topic")}, "ops"),
            yes_no(
                stat(
                    "Chains are intact",
                    {"intact": f"min(haltline_audit_chain_intact{{{J}}})"},
                    what="Whether the last verification found the table as the sink wrote it.",
                ),
                "intact",
                "BROKEN",
            ).data_links(to("Verify in the console", "/audit")),
            stat(
                "Since the last verification",
                {"age": f"time() - max(haltline_audit_last_verification_timestamp_seconds{{{J}}})"},
                "s",
            ).thresholds(steps(("green", None), ("orange", 43_200), ("red", 129_600))),
            series(
                "Rows verified, and not signed yet",
                {
                    "verified": f"max(haltline_audit_verified_rows{{{J}}})",
                    "not signed": f"max(haltline_audit_unsigned_rows{{{J}}})",
                },
            ),
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
            marked(
                series(
                    "Kills that were not acknowledged",
                    {"{{what}}": f'sum by (what) (haltline_followups_total{{{J},what=~"kill_.*"}})'},
                    what="kill_reissued: sent again; kill_unacknowledged: given up, an incident.",
                ),
                1,
                "red",
            ).data_links(to("Stops in force, in the console", "/kill")),
            stat(
                "Activity after a kill",
                {"acts": f'sum(haltline_followups_total{{{J},what="activity_after_kill"}})'},
                what="Events that killed sessions published nevertheless.",
            )
            .thresholds(steps(("green", None), ("red", 1)))
            .data_links(to("Killed sessions in the console", "/sessions?state=killed")),
            series(
                "Approvals",
                {"{{what}}": f'sum by (what) (increase(haltline_followups_total{{{J},what=~"approval_.*"}}[1h]))'},
            ).data_links(to("Approvals that wait, in the console", "/approvals")),
            marked(
                series(
                    "The canary took",
                    {"seconds": f"max(haltline_canary_seconds{{{J}}})"},
                    "s",
                    "Longer than the line: the canary counts as not stopped.",
                ),
                10,
                "red",
            ),
            series("Canaries", {"{{result}}": f"sum by (result) (haltline_canary_flights_total{{{J}}})"}),
            series("Verdicts over HTTP", {"{{code}}": rate("intake_verdicts_total", "code")}, "ops"),
            series("Events over HTTP", {"events": rate("intake_events_total")}, "ops"),
            marked(
                series(
                    "Sessions of the intake",
                    {"{{instance}}": f"haltline_intake_sessions{{{J}}}"},
                    what="The line is the default of --max-sessions, of one intake.",
                ),
                200,
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
                "A rule that finds much and decides little: its findings are below what is acted on.",
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
                "Interventions by what followed",
                {"{{helped}}": rate("interventions_judged_total", "helped")},
                "ops",
            ).data_links(to("Precision of the rules in the console", "/precision")),
            series("Escalations", {"{{detector}}": rate("escalations_total", "detector")}, "ops").data_links(_RULE),
            marked(
                series(
                    "Errors of detectors",
                    {"{{detector}}": f"sum by (detector) (haltline_detector_errors_total{{{J}}})"},
                    what="Events on which a detector raised: what it looks for may be missed.",
                ),
                1,
                "red",
            ),
        ],
    ),
    "opinions": (
        "haltline: second opinions",
        [
            series(
                "Agreement with the rules",
                {
                    "{{detector}}": (
                        f'(sum by (detector) (haltline_opinions_total{{{J},outcome="runaway"}})'
                        f' or 0 * sum by (detector) (haltline_opinions_total{{{J},outcome="sound"}}))'
                        f' / sum by (detector) (haltline_opinions_total{{{J},outcome=~"runaway|sound"}})'
                    )
                },
                "percentunit",
                "Of the verdicts since the process began, those that take the session for a runaway as the rule does.",
            )
            .max(1)
            .data_links(_RULE),
            series("Requests by outcome", {"{{outcome}}": rate("opinions_total", "outcome")}, "ops"),
            series(
                "Without an answer",
                {
                    "timeouts": _unanswered('outcome="timeout"'),
                    "over the cost limit": _unanswered('outcome="over_limit"'),
                    "others": _unanswered('outcome!~"runaway|sound|timeout|over_limit"'),
                },
                "ops",
                "What follows is in the policy: opinion.without_answer.",
            ),
            series("From request to answer", within("opinion_seconds"), "s", "At most the policy's opinion.timeout_s."),
            series(
                "Cost in an hour",
                {"cost": f"sum(increase(haltline_opinion_cost_usd_total{{{J}}}[1h]))"},
                "currencyUSD",
                "By the policy's prices; opinion.max_usd_per_hour is its limit.",
            ),
            series("Tokens", {"{{kind}}": rate("opinion_tokens_total", "kind")}, "ops"),
            series(
                "Opinions that workers took in",
                {"{{what}}": f'sum by (what) (rate(haltline_followups_total{{{J},what=~"opinion_.*"}}{RATE}))'},
                "ops",
                "opinion_late: the answer came after the time of its request, and changed nothing.",
            ),
        ],
    ),
}


def dashboard(name: str) -> Dashboard:
    """One of them by the name of its file."""
    title, panels = DASHBOARDS[name]
    made = Dashboard(title).uid(f"haltline-{name}").tags(["haltline"]).editable().refresh("30s").time("now-3h", "now")
    made.variables(
        [
            DatasourceVariable("datasource").label("Data source").type("prometheus"),
            QueryVariable("job")
            .label("Job")
            .datasource(SOURCE)
            .query("label_values(haltline_build_info, job)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(VariableOption(text="All", value="$__all")),
            TextBoxVariable("console").label("Console").default_value(CONSOLE),
        ]
    )
    dashboards = DashboardLink("haltline").type(DashboardLinkType.DASHBOARDS).tags(["haltline"]).as_dropdown(True)
    console = DashboardLink("Console").type(DashboardLinkType.LINK).url("${console}/fleet").target_blank(True)
    made.links([dashboards, console])
    for number, panel in enumerate(panels, 1):
        made.with_panel(panel.id(number))
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "dashboards")
    for name in DASHBOARDS:
        text = json.dumps(dashboard(name).build(), cls=JSONEncoder, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
