"""phoenix_spans.json, phoenix_dataframe.jsonl and phoenix_otlp.json: spans of OpenInference, out of a real Phoenix.

LangChain's instrumentation of OpenInference sends its spans to a Phoenix that this script starts. `phoenix_spans.json`
is what the client's `get_spans` returns (`GET /v1/projects/NAME/spans`), `phoenix_dataframe.jsonl` its
`get_spans_dataframe` by `to_json(orient="records", lines=True)`, and `phoenix_otlp.json` the same spans as OTLP/JSON.
`python make_phoenix.py` in an environment with arize-phoenix, openinference-instrumentation-langchain, langchain and
opentelemetry-exporter-otlp-proto-http; no network.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import httpx
from google.protobuf.json_format import MessageToDict
from langchain_agent import run
from openinference.instrumentation import using_session
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from phoenix.client import Client

HERE = Path(__file__).parent
PORT = 6106
URL = f"http://127.0.0.1:{PORT}"


def recorded() -> Any:
    """The spans, which Phoenix has been sent too."""
    provider = TracerProvider(resource=Resource({"openinference.project.name": "clean-up"}))
    spans = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{URL}/v1/traces")))
    LangChainInstrumentor().instrument(tracer_provider=provider)
    with using_session("night-7"):
        run({})
    return spans.get_finished_spans()


def without_paths(value: Any) -> Any:
    """The same without where the machine's files are: a stack trace names them."""
    if isinstance(value, dict):
        return {name: without_paths(one) for name, one in value.items() if name not in ("metadata", "events")}
    if isinstance(value, list):
        return [without_paths(one) for one in value if not (isinstance(one, dict) and one.get("key") == "metadata")]
    return value.split("Traceback (most recent")[0] if isinstance(value, str) else value


def main() -> None:
    environ = os.environ | {"PHOENIX_PORT": str(PORT), "PHOENIX_WORKING_DIR": mkdtemp(), "PHOENIX_HOST": "127.0.0.1"}
    environ |= {"PHOENIX_GRPC_PORT": str(PORT + 1), "PHOENIX_TELEMETRY_ENABLED": "false"}
    server = subprocess.Popen(
        [str(Path(sys.executable).parent / "phoenix"), "serve"],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(120):
            try:
                if httpx.get(f"{URL}/healthz").status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.5)
        spans = recorded()
        client = Client(base_url=URL)
        listed: list[Any] = []
        for _ in range(60):
            listed = list(client.spans.get_spans(project_identifier="clean-up", limit=1000))
            if len(listed) == len(spans):
                break
            time.sleep(0.5)
        frame = client.spans.get_spans_dataframe(project_identifier="clean-up", limit=1000)
        (HERE / "phoenix_spans.json").write_text(json.dumps(without_paths(listed), indent=0) + "\n")
        rows = [json.loads(line) for line in frame.to_json(orient="records", lines=True).splitlines()]
        (HERE / "phoenix_dataframe.jsonl").write_text("".join(json.dumps(without_paths(row)) + "\n" for row in rows))
        otlp = MessageToDict(encode_spans(spans))
        (HERE / "phoenix_otlp.json").write_text(json.dumps(without_paths(otlp)) + "\n")
    finally:
        server.terminate()
        server.wait(timeout=20)


if __name__ == "__main__":
    main()
