"""`haltline intake`: an HTTP endpoint for agents in other languages. Needs the extra `intake`."""

import argparse
import os
import sys
from pathlib import Path

_DESCRIPTION = """\
Serve verdicts over HTTP, for agents in other languages, until SIGTERM or Ctrl-C.

  POST /v1/events    {"events": [...]}, a list, one event, JSON lines, or CloudEvents 1.0 (all modes): checked,
                     redacted, acknowledged by the broker; 400 lists the error of each, and none is accepted
  POST /v1/verdict   {"session_id", "action", "args", ...}: the verdict; {"allowed", "call_id", "message", ...}
                     {"session_id", "kind": "model.turn"}: whether the model may take its next turn
                     "mode": of this call; "session_mode": of a new session;
                     async is ignored where --mode blocking or HALTLINE_MODE=blocking is set; also in async, calls that
                     may destroy something wait
  POST /v1/result    {"session_id", "call_id", "output" or "error"}: the result of a call that was allowed; or
                     "described": {"digest", "bytes", "head"} of an output, and "outcome": ok, error, timeout, unknown
  POST /v1/turn      {"session_id", "usage", "output" or "described"}: a turn of the model was taken
  POST /v1/start     {"session_id", "agent_id", "task": {"goal"}, ...}: a session begins; a first verdict begins it too
  POST /v1/end       {"session_id"}: it has ended
  POST /v1/traces    OTLP/HTTP in JSON or protobuf, also gzip: OpenTelemetry's spans of generative AI;
                     over gRPC with --otlp-grpc-port
  POST /beta/litellm_basic_guardrail_api
                     LiteLLM's generic guardrail API: its proxy sends each turn and each tool call for a verdict
  GET  /healthz      200 when the broker answers
  GET  /metrics      for Prometheus, with the token if one is set; see also --metrics-port

A request that is sent again with its Idempotency-Key is answered once. With Prefer: wait=SECONDS, the answer is 202
{"waiting": true} when it takes longer than that, and the request is sent again.
"""


VARIABLES = (
    "HALTLINE_INTAKE_LISTEN_HOST",
    "HALTLINE_INTAKE_LISTEN_PORT",
    "HALTLINE_INTAKE_TOKEN_FILE",
    "HALTLINE_INTAKE_OTLP_GRPC_PORT",
    "HALTLINE_INTAKE_KEYS",
    "HALTLINE_INTAKE_TLS_CONFIG",
)
"""The variables of `--host`, `--port`, `--token-file`, `--otlp-grpc-port`, `--keys` and `--tls-config`."""


def options_of() -> argparse.ArgumentParser:
    """The settings of the command."""
    parser = argparse.ArgumentParser(
        prog="haltline intake",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit codes: 0 after a clean stop; 2: the configuration is wrong. "
        "Example: haltline intake --bootstrap kafka-1:9092 --port 8765",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="Kafka's address; or HALTLINE_BOOTSTRAP")
    parser.add_argument(
        "--prefix", dest="topic_prefix", metavar="TEXT", help="prefix of the topics; or HALTLINE_PREFIX"
    )
    parser.add_argument(
        "--mode",
        choices=("async", "blocking", "local"),
        help="mode of sessions without one (blocking); local: decide in this process, for its own sessions alone",
    )
    parser.add_argument("--budget", dest="budget_s", metavar="S", help="seconds to wait for a verdict (1)")
    host, port, token_file, grpc_port, keys, tls_config = (os.environ.get(name) for name in VARIABLES)
    parser.add_argument(
        "--host", default=host or "127.0.0.1", metavar="ADDRESS", help="address to listen on (%(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=port or 8765, help="port to listen on; 0 takes a free one (%(default)s)"
    )
    parser.add_argument(
        "--otlp-grpc-port",
        type=int,
        default=grpc_port or None,
        nargs="?",
        const=4317,
        metavar="PORT",
        help="also take traces over gRPC, at the same address; without a number 4317, 0 takes a free one",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        default=token_file or None,
        metavar="FILE",
        help="file with the bearer token that requests must have (or one of --keys)",
    )
    parser.add_argument(
        "--keys",
        type=Path,
        default=keys or None,
        metavar="FILE",
        help="TOML: further bearer tokens, each with its agents, sessions, routes and limits",
    )
    parser.add_argument(
        "--tls-config",
        type=Path,
        default=tls_config or None,
        metavar="FILE",
        help="serve HTTP and gRPC with TLS: ssl.certificate.location=..., ssl.key.location, ssl.key.password, and "
        "ssl.ca.location, the authority of certificates that clients must have",
    )
    parser.add_argument(
        "--metrics-port", type=int, metavar="PORT", help="also serve /metrics, without the token, on this port"
    )
    parser.add_argument(
        "--metrics-host", default="127.0.0.1", metavar="ADDRESS", help="address of --metrics-port (%(default)s)"
    )
    parser.add_argument(
        "--until-stdin-ends",
        action="store_true",
        help="also stop when standard input ends, as when the parent process ends",
    )
    parser.add_argument("--max-sessions", type=int, default=200, help="most sessions at a time (%(default)s)")
    return parser


def main(arguments: list[str]) -> int:
    """Run the command with the arguments after `intake`. Returns the exit code."""
    options = vars(options_of().parse_args(arguments))
    from confluent_kafka import KafkaException

    from haltline.interventions.agent.settings import GuardSettings, read_client_config

    host, port, file = options.pop("host"), options.pop("port"), options.pop("token_file")
    max_sessions, metrics_host = options.pop("max_sessions"), options.pop("metrics_host")
    metrics_port, grpc_port = options.pop("metrics_port"), options.pop("otlp_grpc_port")
    keys_file, tls_file = options.pop("keys"), options.pop("tls_config")
    until_stdin_ends = options.pop("until_stdin_ends")
    given = {name: value for name, value in options.items() if value is not None}
    try:
        from haltline.streams.intake.app import Intake
        from haltline.streams.intake.keys import read_keys
        from haltline.streams.intake.server import serve
        from haltline.streams.intake.tls import ServerTls
        from haltline.streams.runtime.health import MetricsServer

        token = file.read_text(encoding="utf-8").strip() if file is not None else None
        if token == "":
            raise ValueError(f"{file}: expected a token, got an empty file")  # noqa: TRY301  # one way out
        keys = None if keys_file is None else read_keys(keys_file)
        tls = None if tls_file is None else ServerTls.of(read_client_config(tls_file), tls_file)
        settings = GuardSettings.from_env({"HALTLINE_MODE": "blocking"} | dict(os.environ), **given)
        is_mode_set = "mode" in given or "HALTLINE_MODE" in os.environ
        intake = Intake(settings, token=token, keys=keys, max_sessions=max_sessions, holds_mode=is_mode_set)
        app = intake.app()
        if grpc_port is not None:
            from haltline.streams.intake.otlp_grpc import TraceServer

            traces = TraceServer(intake.writer, intake.admission, intake.count_request, host, grpc_port, tls=tls)
            traces.beside(app)
        metrics = None if metrics_port is None else MetricsServer(metrics_host, metrics_port, intake.exposition)
        if metrics is not None:
            print(f"haltline intake: serves /metrics on port {metrics.port}", file=sys.stderr, flush=True)
        try:
            serve(app, host, port, tls=tls, until_stdin_ends=until_stdin_ends)
        finally:
            if metrics is not None:
                metrics.close()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in {
            "aiohttp",
            "google",
            "grpc",
            "grpc_health",
            "prometheus_client",
        }:
            raise
        return _fail(f"needs {missing.name}, which is not installed: pip install 'haltline[intake]'")
    except ValueError as error:
        from haltline.streams.intake.problems import bad_values

        return _fail("; ".join(bad_values(error).problems))
    except (OSError, KafkaException) as error:
        return _fail(str(error))
    return 0


def _fail(why: str) -> int:
    print(f"haltline: intake: {why}", file=sys.stderr)
    return 2
