"""`haltline intake`: the local service's HTTP for agents of other machines, as `haltline agent --listen` serves it.

Needs the extra `intake`.
"""

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from haltline.cli.cluster import with_guard, with_options
from haltline.cli.common import Exit, MetricsHost, fail, option_of, token_in


@dataclass(frozen=True, kw_only=True)
class Served:
    """How HTTP is served for other machines."""

    mode: Literal["async", "blocking", "local"] | None = None
    budget: float | None = None
    token_file: Path | None = None
    keys: Path | None = None
    tls_config: Path | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    until_stdin_ends: bool = False
    max_sessions: int = 200


_SERVED: Final[dict[str, Any]] = {
    "mode": Annotated[
        Literal["async", "blocking", "local"] | None,
        typer.Option(
            help="Mode of sessions without one (blocking); local: decide in this process, for its own sessions alone."
        ),
    ],
    "budget": Annotated[float | None, typer.Option(help="Seconds to wait for a verdict (1).", metavar="S")],
    "token_file": Annotated[Path | None, option_of("intake.token_file")],
    "keys": Annotated[Path | None, option_of("intake.keys")],
    "tls_config": Annotated[
        Path | None,
        option_of(
            "intake.tls_config",
            more="ssl.certificate.location=..., ssl.key.location, ssl.key.password, and ssl.ca.location, the authority "
            "of certificates that clients must have.",
        ),
    ],
    "metrics_port": Annotated[
        int | None, typer.Option(help="Also serve /metrics, without the token, on this port.", metavar="PORT")
    ],
    "metrics_host": MetricsHost,
    "until_stdin_ends": Annotated[
        bool,
        typer.Option("--until-stdin-ends", help="Also stop when standard input ends, as when the parent process ends."),
    ],
    "max_sessions": Annotated[int, typer.Option(help="Most sessions at a time.")],
}


def with_served(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the command's parameter `served`, a Served, by its options."""
    return with_options("served", Served, _SERVED, vars(Served()))(command)


@with_guard(of_one_session=False)
@with_served
def intake(
    *,
    given: dict[str, Any],
    served: Served,
    host: Annotated[str, option_of("intake.host")] = "127.0.0.1",
    port: Annotated[int, option_of("intake.port")] = 8765,
) -> None:
    """Serve verdicts over HTTP, for agents in other languages, until SIGTERM or Ctrl-C.

    POST /v1/events: {"events": [...]}, a list, one event, JSON lines, or CloudEvents 1.0 (all modes):
    checked, redacted, acknowledged by the broker; 400 lists the error of each, and none is accepted.

    POST /v2/begin, /v2/propose, /v2/end, /v2/turn, /v2/close: the verbs of the local service (docs/service.md);
    async of a call or a session is ignored where --mode blocking or HALTLINE_MODE=blocking is set; also in async, calls
    that may destroy something wait. /v1/start, verdict, result, turn and end are answered for one more release.

    POST /v1/traces: OTLP/HTTP in JSON or protobuf, also gzip: OpenTelemetry's spans of generative AI.

    POST /beta/litellm_basic_guardrail_api: LiteLLM's generic guardrail API: its proxy sends each turn and
    each tool call for a verdict.

    GET /healthz: 200 when the broker answers.

    GET /metrics: for Prometheus, with the token if one is set; see also --metrics-port.

    Exit codes: 0 after a clean stop; 2: the configuration is wrong.

    Example: haltline intake --bootstrap kafka-1:9092 --port 8765
    """
    serve_http("intake", given, served, host, port)


def serve_http(command: str, given: dict[str, Any], served: Served, host: str, port: int) -> None:
    """Serve until SIGTERM or Ctrl-C. `given`: settings of the guards, besides those of the environment."""
    from confluent_kafka import KafkaException

    from haltline.interventions.agent.settings import GuardSettings, read_named_values

    chosen = {"mode": served.mode, "budget_s": served.budget}
    chosen = given | {name: value for name, value in chosen.items() if value is not None}
    try:
        from haltline.streams.intake.app import Intake
        from haltline.streams.intake.keys import read_keys
        from haltline.streams.intake.server import serve
        from haltline.streams.intake.tls import ServerTls
        from haltline.streams.runtime.health import MetricsServer

        serving = Intake(
            GuardSettings.from_env({"HALTLINE_MODE": "blocking"} | dict(os.environ), **chosen),
            token=None if served.token_file is None else token_in(served.token_file),
            keys=None if served.keys is None else read_keys(served.keys),
            max_sessions=served.max_sessions,
            holds_mode=served.mode is not None or "HALTLINE_MODE" in os.environ,
        )
        config = served.tls_config
        tls = None if config is None else ServerTls.of(read_named_values(config), config)
        app = serving.app()
        with ExitStack() as stack:
            if served.metrics_port is not None:
                metrics = MetricsServer(served.metrics_host, served.metrics_port, serving.exposition)
                stack.callback(metrics.close)
                print(f"haltline {command}: serves /metrics on port {metrics.port}", file=sys.stderr, flush=True)
            serve(app, host, port, tls=tls, until_stdin_ends=served.until_stdin_ends)
    except ValueError as error:
        from haltline.interventions.agent.service.problems import bad_values

        fail(f"{command}: {'; '.join(bad_values(error).problems)}", Exit.USAGE)
    except (OSError, KafkaException) as error:
        fail(f"{command}: {error}", Exit.USAGE)
