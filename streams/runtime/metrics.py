"""Every metric of the processor's processes, in one table; the table of docs/operate.md is made from it.

No metric has a session's or an agent's name as a label: their number has no bound.
"""

import platform
import threading
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

PREFIX: Final = "haltline_"


@dataclass(frozen=True, kw_only=True)
class MetricDef:
    """One metric: its name without the prefix, and its meaning."""

    name: str
    kind: type[Counter] | type[Gauge] | type[Histogram]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(name: str, help_: str, *labels: str) -> MetricDef:
    return MetricDef(name=name, kind=Counter, help=help_, labels=labels)


def _gauge(name: str, help_: str, *labels: str) -> MetricDef:
    return MetricDef(name=name, kind=Gauge, help=help_, labels=labels)


def _histogram(name: str, help_: str, buckets: tuple[float, ...], *labels: str) -> MetricDef:
    return MetricDef(name=name, kind=Histogram, help=help_, labels=labels, buckets=buckets)


_FROM_MILLISECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_UP_TO_MINUTES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

METRICS: Final = (
    _counter("events_processed_total", "Records applied to a state, or skipped as known.", "topic"),
    _counter(
        "decisions_total",
        "Decisions sent to the agents' side. `level` is `ASK` for a PAUSE that requests approval of an act.",
        "detector",
        "level",
        "mode",
    ),
    _counter(
        "escalations_total",
        "Decisions raised by an earlier decision of the same rule that did not help.",
        "detector",
        "level",
    ),
    _counter("model_turns_total", "Turns of models, by whether their usage is known: known, unknown.", "usage"),
    _counter("events_ahead_total", "Events more than 5 minutes ahead of the log, whose time was used instead."),
    _counter(
        "interventions_judged_total",
        "Interventions by whether they helped: yes, half, no.",
        "detector",
        "level",
        "helped",
    ),
    _counter(
        "irreversible_acts_total",
        "Irreversible acts on objects that the session did not create: destroys, spends, exposes ...",
        "effect",
    ),
    _counter("findings_total", "Findings of detectors, with or without a decision.", "detector", "severity"),
    _counter(
        "detector_errors_total",
        "Events on which a detector raised an exception; they are dead letters too.",
        "detector",
    ),
    _counter("detector_overruns_total", "Calls of other packages' detectors that took too long.", "detector"),
    _counter("dead_letters_total", "Records that could not be read, by reason.", "reason"),
    _counter(
        "followups_total",
        "Effects of commands, of answers and of timers: kill_reissued, approval_expired, turn_after_stop ...",
        "what",
    ),
    _histogram(
        "decision_latency_seconds",
        "From the time of the record on the broker to its decision being sent.",
        _FROM_MILLISECONDS,
    ),
    _histogram(
        "time_to_stop_seconds",
        "From the decision to the acknowledgement by the agent's side.",
        _UP_TO_MINUTES,
    ),
    _gauge("policy_version", "Version of the policy that is in force; 1 without a document.", "policy"),
    _counter("policies_refused_total", "Policy documents that could not be used; the previous one stayed in force."),
    _gauge("sessions", "Sessions, and agents, targets and trees of several, whose states this process keeps."),
    _gauge("consumer_lag_records", "Records that wait to be processed.", "topic", "partition"),
    _gauge(
        "consumer_lag_seconds",
        "Age of the oldest record that waits; 0 when none waits.",
        "topic",
        "partition",
    ),
    _gauge("consumer_committed_offset", "The offset that was last committed.", "topic", "partition"),
    _gauge(
        "consumer_high_watermark",
        "The end of the partition, requested independently of fetching.",
        "topic",
        "partition",
    ),
    _gauge("consumer_low_watermark", "The oldest offset that the broker still has.", "topic", "partition"),
    _gauge("assigned_partitions", "Source partitions that this process processes."),
    _gauge("ready", "1 when partitions are assigned and their states are recovered."),
    _gauge("recovery_remaining_records", "Changelog records to read before processing continues."),
    _counter(
        "topics_made_anew_total",
        "Topics that were recreated since this process last read them, and are read as new topics.",
        "topic",
    ),
    _counter("rebalances_total", "Assignments of partitions to this process."),
    _histogram(
        "checkpoint_duration_seconds",
        "From the list of processed batches to their commit.",
        _FROM_MILLISECONDS,
    ),
    _counter("state_bytes_total", "Keys and states written to the changelog, in bytes."),
    _counter("states_written_total", "Records written to the changelog."),
    _counter("sink_rows_total", "Rows committed to the audit table.", "topic"),
    _counter("sink_unreadable_rows_total", "Of these, rows whose record could not be decoded.", "topic"),
    _counter("sink_skipped_rows_total", "Records read and dropped, as the table held them already.", "topic"),
    _counter("sink_lost_records_total", "Offsets that the broker deleted before the audit read them.", "topic"),
    _counter("sink_commits_total", "Commits to the audit table."),
    _histogram("sink_commit_seconds", "Conversion of a buffer to rows, and their commit.", _UP_TO_MINUTES),
    _counter("sink_compactions_total", "Runs that merged the table's small files, by result.", "result"),
    _histogram("sink_compaction_seconds", "Duration of such a run, in a separate process.", _UP_TO_MINUTES),
    _gauge("sink_table_files", "Files of the audit table after the last such run."),
    _counter("canary_flights_total", "Canary sessions by result.", "result"),
    _gauge("canary_up", "1 when the last canary session was killed and acknowledged in time."),
    _gauge("canary_seconds", "From a canary's first call to its acknowledged kill."),
    _gauge("canary_last_flight_timestamp_seconds", "When the last canary has ended, epoch seconds."),
    _gauge("audit_chain_intact", "1 when the last verification of the audit table found nothing wrong, 0 when it did."),
    _gauge("audit_verified_rows", "Rows that the last verification checked."),
    _gauge("audit_unsigned_rows", "Of these, rows after the last signature of their partition."),
    _gauge("audit_last_verification_timestamp_seconds", "When the last verification has ended, epoch seconds."),
    _counter(
        "http_requests_total",
        "Requests answered by the console and the intake.",
        "route",
        "status",
    ),
    _histogram("http_request_seconds", "From a request to the start of its response.", _FROM_MILLISECONDS, "route"),
    _counter("intake_events_total", "Events of agents in other languages that the broker has acknowledged."),
    _counter("intake_verdicts_total", "Calls that were checked, by result: allowed, or the refusal's code.", "code"),
    _gauge("intake_sessions", "Open sessions of the intake."),
    _counter(
        "notifications_total",
        "Notifications of incidents, and calls of actuators, by outcome: sent, failed, too_old; and retries: retried.",
        "channel",
        "outcome",
    ),
    _histogram(
        "notification_seconds", "From an incident's record to the acceptance of its message.", _UP_TO_MINUTES, "channel"
    ),
    _gauge("notification_oldest_unsent_seconds", "Age of the oldest message that is not sent; 0: none.", "channel"),
    _gauge("notifications_waiting", "Messages that wait to be sent.", "channel"),
    _gauge("kills_unconfirmed", "Kills in force with an actuator that neither it nor an agent has confirmed."),
    _gauge("build_info", "1; the labels have component and versions.", "component", "version", "python"),
)

_DEFINITIONS: Final = {definition.name: definition for definition in METRICS}


class Metrics:
    """The metrics of the table, in their own registry.

    A metric is exposed once it is first requested. Otherwise a process would expose the metrics that it does not keep
    as 0: a canary that never ran would look like one that failed.
    """

    def __init__(self, component: str = "") -> None:
        """`component` is the process: worker, shadow, audit, console, canary, verifier, intake, notify."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._lock = threading.Lock()
        self._metrics: dict[str, _Metric] = {}
        labels = {"component": component, "version": version("haltline"), "python": platform.python_version()}
        self.gauge("build_info").labels(**labels).set(1)

    def counter(self, name: str) -> Counter:
        """Return a counter by its name without the prefix. Raises KeyError, TypeError."""
        return _of_kind(name, self._get(name), Counter)

    def gauge(self, name: str) -> Gauge:
        """Return a gauge by its name without the prefix. Raises KeyError, TypeError."""
        return _of_kind(name, self._get(name), Gauge)

    def histogram(self, name: str) -> Histogram:
        """Return a histogram by its name without the prefix. Raises KeyError, TypeError."""
        return _of_kind(name, self._get(name), Histogram)

    def children(self, name: str) -> "Children":
        """Return the cached children of a counter, for hot paths. Raises KeyError, TypeError."""
        return Children(self.counter(name))

    def _get(self, name: str) -> "_Metric":
        with self._lock:
            if name not in self._metrics:
                self._metrics[name] = _make(_DEFINITIONS[name], self.registry)
            return self._metrics[name]

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class Children(dict[tuple[str, ...], Counter]):
    """A counter's children by label values, with the cost of a dict look-up."""

    def __init__(self, parent: Counter) -> None:
        super().__init__()
        self._parent = parent

    def __missing__(self, labels: tuple[str, ...]) -> Counter:
        child = self._parent.labels(*labels) if labels else self._parent
        self[labels] = child
        return child


_Metric = Counter | Gauge | Histogram


def _make(definition: MetricDef, registry: CollectorRegistry) -> _Metric:
    more: dict[str, Any] = {"buckets": definition.buckets} if definition.buckets else {}
    return definition.kind(PREFIX + definition.name, definition.help, definition.labels, registry=registry, **more)


_M = TypeVar("_M", Counter, Gauge, Histogram)


def _of_kind(name: str, metric: _Metric, kind: type[_M]) -> _M:
    if not isinstance(metric, kind):
        raise TypeError(f"metric {name}: expected a {kind.__name__}, got a {type(metric).__name__}")
    return metric
