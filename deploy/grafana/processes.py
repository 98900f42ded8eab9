"""Dashboards of haltline's own processes: health, backlog, and the audit."""

from typing import Final

from panels import (
    BY_COMPONENT,
    OF_WORKERS,
    RATE,
    J,
    of,
    rate,
    series,
    stat,
    steps,
    to,
    within,
    yes_no,
)

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
                "The canary was stopped",
                f"min(haltline_canary_up{{{J}}})",
                "stopped",
                "NOT STOPPED",
                "Whether the last test session was killed, with an acknowledgement by its agent.",
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
                "Without rules in shadow, for which no call waits.",
            ),
            series(
                "Records that could not be used",
                {"{{reason}}": rate("dead_letters_total", "reason")},
                "ops",
                "Dead letters: their events are not evaluated.",
                limit=("red", 0.001),
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
                what="Workers that differ for long decide differently.",
            ).data_links(to("Policies in the console", "/policies?name=${__field.labels.policy:percentencode}")),
            series(
                "Requests a second", {"{{route}} {{status}}": rate("http_requests_total", "route, status")}, "reqps"
            ),
            series(
                "Response time (99 %)",
                {
                    "{{route}}": (
                        "histogram_quantile(0.99, sum by (le, route) "
                        f"(rate(haltline_http_request_seconds_bucket{{{J}}}{RATE})))"
                    )
                },
                "s",
                limit=("orange", 1),
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
            series(
                "Age of the oldest waiting record",
                {"{{topic}}": f"max by (topic) ({of('worker', 'consumer_lag_seconds')})"},
                "s",
                "HaltlineBehind fires above the line: decisions are late.",
                limit=("orange", 30),
            ).data_links(to("Lag in the console", "/fleet")),
            series(
                "Behind, by process",
                {"{{component}}": f"max by (component) (haltline_consumer_lag_seconds{{{J}}} {BY_COMPONENT})"},
                "s",
            ),
            series(
                "Records produced a second",
                {"{{topic}}": f"sum by (topic) (rate(haltline_consumer_high_watermark{{{J}}}{RATE}) {OF_WORKERS})"},
                "ops",
                "By the ends of the partitions, which move whether or not a worker reads.",
            ),
            series(
                "Records processed a second",
                {"{{topic}}": f"sum by (topic) (rate(haltline_consumer_committed_offset{{{J}}}{RATE}) {OF_WORKERS})"},
                "ops",
            ),
            series("Partitions of each process", {"{{instance}}": f"haltline_assigned_partitions{{{J}}}"}),
            series("State to recover", {"{{instance}}": f"haltline_recovery_remaining_records{{{J}}}"}),
            series("Rebalances", {"{{instance}}": f"increase(haltline_rebalances_total{{{J}}}[10m])"}),
            series("Checkpoint duration", within("checkpoint_duration_seconds"), "s", limit=("orange", 10)),
            series("State written", {"bytes": rate("state_bytes_total")}, "Bps"),
            series("States written", {"states": rate("states_written_total")}, "ops"),
        ],
    ),
    "sink": (
        "haltline: audit",
        [
            series("Rows a second", {"{{topic}}": rate("sink_rows_total", "topic")}, "ops").data_links(
                to("Records of this topic in the console", "/audit?topic=${__field.labels.topic:percentencode}")
            ),
            series(
                "Behind",
                {"{{topic}}": f"max by (topic) ({of('audit', 'consumer_lag_seconds')})"},
                "s",
                "HaltlineSinkBehind fires above the line.",
                limit=("orange", 300),
            ),
            series("Records that wait", {"{{topic}}": f"sum by (topic) ({of('audit', 'consumer_lag_records')})"}),
            series(
                "Offsets left before the broker deletes",
                {
                    "{{topic}}[{{partition}}]": (
                        f"haltline_consumer_committed_offset{{{J}}} - haltline_consumer_low_watermark"
                        ' and on (job, instance) haltline_build_info{component="audit"}'
                    )
                },
                what="Offsets between the oldest of the broker and the position of the sink. At 0 with records that "
                "wait, the audit loses records.",
            ),
            series("Commit duration", within("sink_commit_seconds"), "s"),
            series("Commits a second", {"commits": rate("sink_commits_total")}, "ops"),
            series(
                "Lost to retention",
                {"{{topic}}": f"sum by (topic) (haltline_sink_lost_records_total{{{J}}})"},
                what="Records that the broker deleted before the sink read them.",
                limit=("red", 1),
            ),
            series("Could not be decoded", {"{{topic}}": rate("sink_unreadable_rows_total", "topic")}, "ops"),
            series("Read again, and dropped", {"{{topic}}": rate("sink_skipped_rows_total", "topic")}, "ops"),
            yes_no(
                "Chains are intact",
                f"min(haltline_audit_chain_intact{{{J}}})",
                "intact",
                "BROKEN",
                "Whether the last verification found the table unchanged.",
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
}
