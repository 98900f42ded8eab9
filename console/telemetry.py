"""The console's own metrics: its requests, and the lag of its read model."""

import hmac
import logging
from typing import Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import Response

from haltline.console.context import ContextDep, admitted
from haltline.console.http.middleware import RequestMetricsMiddleware
from haltline.console.read_model.feeder import Feeder
from haltline.console.settings import ConsoleSettings
from haltline.streams.runtime.health import METRICS_TYPE
from haltline.streams.runtime.lag import LagWatch
from haltline.streams.runtime.metrics import Metrics

log: Final = logging.getLogger("haltline.console")

_LOOK_EVERY_S: Final = 5.0
_STUCK_AFTER_S: Final = 60.0


def install(app: FastAPI, settings: ConsoleSettings) -> Metrics:
    """Counts every request, and serves `/metrics` to callers with a key or the metrics token."""
    metrics = app.state.metrics = Metrics("console")
    token = settings.metrics_token
    requests = metrics.children("http_requests_total")
    seconds = metrics.histogram("http_request_seconds")

    def count(route: str, status: int, took_s: float) -> None:
        requests[route, str(status)].inc()
        seconds.labels(route).observe(took_s)

    app.add_middleware(RequestMetricsMiddleware, count=count)

    @app.get("/metrics", tags=["health"], response_class=Response)
    def serve_metrics(request: Request, here: ContextDep) -> Response:
        """Metrics in Prometheus' format, for a key with read permission or the metrics token. See `--metrics-port`."""
        authorization = request.headers.get("authorization", "").encode()
        if token is None or not hmac.compare_digest(authorization, f"Bearer {token}".encode()):
            who = admitted(request, here)
            if not who.may("look"):
                raise HTTPException(403, f"look: expected a role that may, got {who.role} of {who.name}")
        return Response(metrics.exposition(), media_type=METRICS_TYPE)

    return metrics


def follow(feeder: Feeder, settings: ConsoleSettings, metrics: Metrics) -> LagWatch:
    """Start a watch that measures the read model's lag until it is closed."""
    return LagWatch(
        {**settings.client, "bootstrap.servers": settings.bootstrap},
        feeder,
        metrics,
        interval_s=_LOOK_EVERY_S,
        stuck_after_s=_STUCK_AFTER_S,
        on_failure=lambda failure: log.error("the lag of the read model is no longer measured: %r", failure),
    )
