"""The health of a worker: alive and ready, judged by progress and not by backlog.

A large backlog that shrinks is healthy; one record that waits while nothing is processed is not. The verdict is a pure
function of samples and their times; `HealthServer` serves it.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LOOK_EVERY_S: Final = 0.1
"""The time in seconds within which a server notices its end, and at most waits to stop."""

Partition = tuple[str, int]
"""Topic and partition number."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sample of one partition at one moment."""

    next_offset: int
    """The first offset that is not processed."""
    end_offset: int
    """The end offset: the one that the next record will get."""
    last_record_ms: int | None
    """The time of the last processed record, in epoch milliseconds; None before the first."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of one partition over time. Times are in epoch seconds."""

    next_offset: int
    end_offset: int
    last_record_ms: int | None
    caught_up_s: float
    """The last time when no records waited; initially, when it was first sampled, or when the first waiting record
    was written."""
    waiting_since_s: float | None
    """The time since which records wait and none was processed; None when none wait."""

    @property
    def lag(self) -> int:
        """The number of waiting offsets."""
        return max(0, self.end_offset - self.next_offset)

    def lag_seconds(self, now_s: float) -> float:
        """Return the longest time for which a record can have waited, in seconds; 0 when none wait.

        The oldest waiting record arrived after the last processed one, and after the last moment when none waited.
        """
        if self.lag == 0:
            return 0.0
        last_record_s = 0.0 if self.last_record_ms is None else self.last_record_ms / 1000
        return max(0.0, now_s - max(last_record_s, self.caught_up_s))


def follow(before: Progress | None, sample: Sample, now_s: float) -> Progress:
    """Return the progress of a partition after one more sample."""
    waits = sample.end_offset > sample.next_offset
    if not waits:
        waiting_since_s = None
    elif before is None or before.waiting_since_s is None or before.next_offset != sample.next_offset:
        waiting_since_s = now_s
    else:
        waiting_since_s = before.waiting_since_s
    return Progress(
        next_offset=sample.next_offset,
        end_offset=sample.end_offset,
        last_record_ms=sample.last_record_ms,
        caught_up_s=now_s if before is None or not waits else before.caught_up_s,
        waiting_since_s=waiting_since_s,
    )


def waits_since(progress: Progress, record_ms: int) -> Progress:
    """Return the progress, given the time when the first waiting record was written (epoch milliseconds).

    So a process that restarts in a loop without progress does not reset its waiting time.
    """
    return replace(progress, caught_up_s=min(progress.caught_up_s, record_ms / 1000))


@dataclass(frozen=True, kw_only=True)
class Stuck:
    """A partition whose records wait while none is processed."""

    topic: str
    partition: int
    next_offset: int
    lag_records: int
    since_s: float
    """Epoch seconds."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on the process's health."""

    alive: bool
    ready: bool
    reasons: tuple[str, ...]
    """Human-readable reasons why it is not alive or not ready."""
    partitions: int
    lag_records: int
    stuck: tuple[Stuck, ...]
    notes: tuple[str, ...] = ()
    """Human-readable notes of events that an operator should know, also when the process is healthy."""


def judge(
    progress: Mapping[Partition, Progress],
    now_s: float,
    *,
    stuck_after_s: float,
    recovered: bool,
    troubles: Sequence[str] = (),
) -> Verdict:
    """Return a verdict: alive unless a partition is stuck; ready when partitions are assigned, recovered and not stuck.

    `troubles` are problems of the topics: with any, it is not ready, and a restart would not help.

    No progress is expected of a partition whose state is being recovered: it is not stuck.
    """
    stuck = tuple(
        Stuck(
            topic=topic,
            partition=partition,
            next_offset=seen.next_offset,
            lag_records=seen.lag,
            since_s=seen.waiting_since_s,
        )
        for (topic, partition), seen in sorted(progress.items())
        if recovered and seen.waiting_since_s is not None and now_s - seen.waiting_since_s >= stuck_after_s
    )
    reasons = [
        f"{s.topic} partition {s.partition}: {s.lag_records} records wait at offset {s.next_offset}, "
        f"and none was processed for {now_s - s.since_s:.0f} s"
        for s in stuck
    ]
    reasons += troubles
    if not progress:
        reasons.append("no partitions are assigned")
    elif not recovered:
        reasons.append("the state is being recovered")
    return Verdict(
        alive=not stuck,
        ready=not reasons,
        reasons=tuple(reasons),
        partitions=len(progress),
        lag_records=sum(seen.lag for seen in progress.values()),
        stuck=stuck,
    )


class _Server:
    """An HTTP server of some paths, in threads of its own until `close`.

    `port` is the bound port. Raises OSError when the requested port is not available.
    """

    def __init__(self, host: str, port: int, answers: "Mapping[str, Callable[[], _Answer]]", what: str) -> None:
        handler = type("Handler", (_Handler,), {"answers": answers})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as refused:
            raise OSError(f"{what}: cannot serve on {host} port {port}: {refused}") from refused
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        serve = self._server.serve_forever
        self._thread = threading.Thread(target=serve, args=(_LOOK_EVERY_S,), name=what, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class MetricsServer(_Server):
    """Serves /metrics, on an address of its own."""

    def __init__(self, host: str, port: int, exposition: Callable[[], bytes]) -> None:
        super().__init__(host, port, {"/metrics": lambda: (HTTPStatus.OK, METRICS_TYPE, exposition())}, "metrics")


def _always_ready() -> Verdict:
    return Verdict(alive=True, ready=True, reasons=(), partitions=0, lag_records=0, stuck=())


class HealthServer(_Server):
    """Serves /healthz, /readyz and /metrics. Without a `verdict` it reports the process as alive and ready."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        verdict: Callable[[], Verdict] = _always_ready,
        exposition: Callable[[], bytes],
    ) -> None:
        answers: Mapping[str, Callable[[], _Answer]] = {
            "/healthz": lambda: _of_verdict(now := verdict(), now.alive),
            "/readyz": lambda: _of_verdict(now := verdict(), now.ready),
            "/metrics": lambda: (HTTPStatus.OK, METRICS_TYPE, exposition()),
        }
        super().__init__(host, port, answers, "health")


_Answer = tuple[HTTPStatus, str, bytes]


def _of_verdict(verdict: Verdict, good: bool) -> _Answer:
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return status, "application/json", json.dumps(asdict(verdict)).encode()


class _Handler(BaseHTTPRequestHandler):
    answers: Mapping[str, Callable[[], _Answer]]
    timeout = 10.0  # seconds until a request must have arrived: each holds a thread

    def do_GET(self) -> None:  # the name that http.server calls
        """Serve one of the paths."""
        answer = self.answers.get(self.path.partition("?")[0])
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", f"expected one of {', '.join(self.answers)}\n".encode())
        else:
            self._send(*answer())

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base class
        """Log nothing: probes arrive every few seconds."""
        _log.debug(format, *args)
