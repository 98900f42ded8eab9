"""langfuse_observations.json and langfuse_trace.json: what the API of Langfuse gives of a trace.

The SDK's callback handler of LangChain sends its spans to a server of this process: a real Langfuse needs ClickHouse.
What Langfuse makes of a span's attributes is made here, by the documented names, into the SDK's own models of the API:
with langfuse 5 `GET /api/public/v2/observations`, with langfuse 3 `GET /api/public/traces/ID`.
`python make_langfuse.py` in an environment with langfuse and langchain, of each of both releases; no network.
"""

import gzip
import json
import os
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

HERE = Path(__file__).parent
SPANS: list[Any] = []


class Service(BaseHTTPRequestHandler):
    """Langfuse's ingestion of spans."""

    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        request = ExportTraceServiceRequest()
        request.ParseFromString(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
        SPANS.extend(s for r in request.resource_spans for scope in r.scope_spans for s in scope.spans)
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["LANGFUSE_PUBLIC_KEY"] = os.environ["LANGFUSE_SECRET_KEY"] = "none"
    os.environ["LANGFUSE_BASE_URL"] = os.environ["LANGFUSE_HOST"] = f"http://127.0.0.1:{server.server_port}"
    from langchain_agent import run  # imports langchain
    from langfuse import get_client  # reads the environment
    from langfuse.langchain import CallbackHandler

    run({"callbacks": [CallbackHandler()], "metadata": {"langfuse_session_id": "night-7"}})
    get_client().flush()
    server.shutdown()
    observations = [observation_of(span) for span in SPANS]
    try:
        write_v2(observations)
    except ImportError:
        write_trace(observations)


def observation_of(span: Any) -> dict[str, Any]:
    """What Langfuse keeps of a span, by the names of its API."""
    get = {one.key: one.value.string_value for one in span.attributes}.get
    usage = json.loads(get("langfuse.observation.usage_details") or "{}")
    error = get("langfuse.observation.status_message")
    if span.status.code == 2:
        error = error or span.status.message
    return {
        "id": span.span_id.hex(),
        "traceId": span.trace_id.hex(),
        "parentObservationId": span.parent_span_id.hex() or None,
        "type": (get("langfuse.observation.type") or "span").upper(),
        "name": span.name,
        "startTime": datetime.fromtimestamp(span.start_time_unix_nano / 1e9, tz=UTC),
        "endTime": datetime.fromtimestamp(span.end_time_unix_nano / 1e9, tz=UTC),
        "input": read(get("langfuse.observation.input")),
        "output": read(get("langfuse.observation.output")),
        "level": "ERROR" if error else "DEFAULT",
        "statusMessage": error,
        "sessionId": get("session.id"),
        "traceName": get("langfuse.trace.name"),
        "model": get("langfuse.observation.model.name"),
        "usageDetails": usage,
        "costDetails": {"total": 0.004} if usage else {},  # Langfuse knows the models' prices
    }


def read(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def raw(value: Any) -> str | None:
    """This API has inputs and outputs as texts."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def write_v2(observations: list[dict[str, Any]]) -> None:
    from langfuse.api.core.pydantic_utilities import parse_obj_as  # of langfuse 5
    from langfuse.api.observations.types import ObservationsV2Response

    listed = [
        one
        | {"projectId": "clean-up", "environment": "default", "input": raw(one["input"]), "output": raw(one["output"])}
        for one in observations
    ]
    answer = parse_obj_as(ObservationsV2Response, {"data": listed, "meta": {}})
    (HERE / "langfuse_observations.json").write_text(answer.json() + "\n", encoding="utf-8")


def write_trace(observations: list[dict[str, Any]]) -> None:
    from langfuse.api import ObservationsView, TraceWithFullDetails, Usage  # of langfuse 3

    views = []
    for one in observations:
        details, cost = one["usageDetails"], one["costDetails"]
        used = {"input": details.get("input", 0), "output": details.get("output", 0), "total": details.get("total", 0)}
        prices = {"calculatedTotalCost": cost["total"]} if cost else {}
        views.append(ObservationsView(**one, **prices, usage=Usage(**used, unit="TOKENS"), environment="default"))
    first = observations[0]
    trace = TraceWithFullDetails(
        id=first["traceId"], timestamp=min(one["startTime"] for one in observations), name="cleaner", tags=[],
        public=False, environment="default", sessionId="night-7", htmlPath="/project/clean-up", latency=0.1,
        totalCost=0.03,
        observations=views, scores=[],
    )  # fmt: skip
    (HERE / "langfuse_trace.json").write_text(trace.json() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
