"""langsmith_runs.jsonl and langsmith_upload.jsonl: what the LangSmith client lists, and what it uploads.

LangChain's tracer and the LangSmith client upload to a server of this process; `langsmith_upload.jsonl` has the runs of
the client's batches. `langsmith_runs.jsonl` has them as `client.list_runs()` gives them: each is made into the
client's `Run` and written with `model_dump_json()`, its tokens and their cost as the service adds them.
`python make_langsmith.py` in an environment with langsmith and langchain; no network.
"""

import gzip
import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
UPLOADED: list[dict[str, Any]] = []


class Service(BaseHTTPRequestHandler):
    """LangSmith's ingestion, as far as the client asks it; batches in JSON."""

    def log_message(self, *_: Any) -> None: ...

    def answer(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        limits = {"size_limit": 100, "size_limit_bytes": 20_000_000, "scale_up_nthreads_limit": 1}
        scaling = {"scale_up_qsize_trigger": 1000, "scale_down_nempty_trigger": 4}
        self.answer({"batch_ingest_config": {"use_multipart_endpoint": False, **limits, **scaling}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        batch = json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
        UPLOADED.extend([*batch.get("post", []), *batch.get("patch", [])])
        self.answer({})


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    from langchain_agent import run
    from langchain_core.tracers import LangChainTracer  # reads the environment
    from langsmith import Client
    from langsmith.schemas import Run

    client = Client(api_url=f"http://127.0.0.1:{server.server_port}", api_key="none", auto_batch_tracing=True)
    tracer = LangChainTracer(client=client, project_name="clean-up")
    run({"callbacks": [tracer], "metadata": {"thread_id": "night-7"}})
    client.flush()
    client.cleanup()
    server.shutdown()
    (HERE / "langsmith_upload.jsonl").write_text("".join(json.dumps(shown(one)) + "\n" for one in UPLOADED))
    whole: dict[str, dict[str, Any]] = {}
    for one in UPLOADED:
        whole.setdefault(one["id"], {}).update({name: value for name, value in shown(one).items() if value is not None})
    lines = []
    for one in whole.values():
        run_ = Run(**{**one, "status": "error" if one.get("error") else "success", **counted(one)})
        lines.append(run_.model_dump_json(exclude={"attachments"}))
    (HERE / "langsmith_runs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def shown(one: dict[str, Any]) -> dict[str, Any]:
    """A run without what tells of the machine, and of how its parts are made."""
    metadata = {"thread_id": "night-7"} | {
        name: value for name, value in one.get("extra", {}).get("metadata", {}).items() if name.startswith("ls_")
    }
    error = one.get("error")
    shortened = {"error": error.splitlines()[0]} if isinstance(error, str) else {}
    return one | {"serialized": None, "extra": {"metadata": metadata}} | shortened


def counted(one: dict[str, Any]) -> dict[str, Any]:
    """The fields of a run of a model that the service adds."""
    if one["run_type"] != "llm":
        return {}
    (((message,),),) = ([[g["message"]["kwargs"] for g in gs] for gs in one["outputs"]["generations"]],)
    used = message["usage_metadata"]
    return {
        "prompt_tokens": used["input_tokens"],
        "completion_tokens": used["output_tokens"],
        "total_tokens": used["total_tokens"],
        "prompt_token_details": used["input_token_details"],
        "total_cost": "0.004",
    }


if __name__ == "__main__":
    os.environ["LANGSMITH_HIDE_METADATA"] = "false"
    main()
