import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.sdk.trace.export import SpanExportResult

from haltline.streams.intake.app import Intake
from haltline.streams.intake.otlp_grpc import HEALTH, TRACES
from haltline.streams.intake.requests import MAX_BODY_BYTES
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.interventions.agent.stand_in import StandIn
from tests.streams.intake.test_app_formats import recorded, request_of
from tests.streams.intaking import taking
from tests.waiting import wait_until

EXPORT = f"/{TRACES}/Export"
TOKEN = (("authorization", "Bearer secret"),)


def method(channel: aio.Channel, path: str) -> Callable[..., Awaitable[bytes]]:
    """As bytes: what a client of protobuf would not send is sent as well."""
    unary: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    return unary


def answered(bootstrap: str, talk: Callable[[aio.Channel, Intake], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with taking(bootstrap, token="secret") as (_, port, intake):
            options = [("grpc.max_send_message_length", -1)]
            async with aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
                return await talk(channel, intake)

    return asyncio.run(run())


OTHER = (("authorization", "Bearer other"),)
BAD: list[tuple[str, bytes, Any, bool, str, str]] = [
    ("no token", b"", (), False, "UNAUTHENTICATED", "expected the bearer token"),
    ("another token", b"", OTHER, False, "UNAUTHENTICATED", "none or another"),
    ("no protobuf", b"\xff\xff", TOKEN, False, "INVALID_ARGUMENT", "expected an OTLP request"),
    ("another message", b"\x28\x01", TOKEN, False, "INVALID_ARGUMENT", "got other fields"),
    ("many spans", request_of(10_001).SerializeToString(), TOKEN, True, "INVALID_ARGUMENT", "at most 10000"),
    ("a large message", bytes(MAX_BODY_BYTES + 1), TOKEN, False, "RESOURCE_EXHAUSTED", "larger than max"),
    ("one that is packed", bytes(8 * MAX_BODY_BYTES), TOKEN, True, "RESOURCE_EXHAUSTED", "larger than max"),
]


def test_what_cannot_be_taken_has_a_code_and_a_reason(embedded: EmbeddedBroker) -> None:
    async def talk(channel: aio.Channel, intake: Intake) -> list[tuple[aio.AioRpcError, str]]:
        found = []
        for _, body, metadata, packed, *_ in BAD:
            compression = grpc.Compression.Gzip if packed else None
            with pytest.raises(aio.AioRpcError) as raised:
                await method(channel, EXPORT)(body, metadata=metadata, compression=compression)
            found.append((raised.value, intake.exposition().decode()))
        return found

    counts: Counter[str] = Counter()
    for (name, *_, code, problem), (error, metrics) in zip(BAD, answered(embedded.bootstrap, talk), strict=True):
        counts[code] += 1
        details = error.details() or ""
        assert (error.code().name, problem in details) == (code, True), (name, details)
        if code != "RESOURCE_EXHAUSTED":  # refused before it reaches the intake
            assert f'requests_total{{route="{EXPORT}",status="{code}"}} {counts[code]}.0' in metrics, name


def test_what_cannot_be_read_of_a_request_is_reported_as_a_partial_success_and_so_is_a_request_of_none(
    embedded: EmbeddedBroker,
) -> None:
    async def talk(channel: aio.Channel, intake: Intake) -> tuple[bytes, str]:
        answer = await method(channel, EXPORT)(request_of(5, without_id=2).SerializeToString(), metadata=TOKEN)
        stream: aio.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(EXPORT)
        with pytest.raises(aio.AioRpcError) as raised:
            await stream(iter(()), metadata=TOKEN)
        return answer, raised.value.details() or ""

    with StandIn(embedded.bootstrap) as worker:
        body, problem = answered(embedded.bootstrap, talk)
        answer = pb.ExportTraceServiceResponse.FromString(body)
        assert answer.partial_success.rejected_spans == 2
        assert "span '0000000000000000'" in answer.partial_success.error_message
        assert problem == "the message: expected one, got none"
        wait_until(lambda: len(worker.events) == 3, "the others are events")


def test_its_health_is_that_of_the_broker(embedded: EmbeddedBroker) -> None:
    async def asked(channel: aio.Channel, service: str) -> str:
        request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
        try:
            answer = await method(channel, f"/{HEALTH}/Check")(request)
        except aio.AioRpcError as error:
            return error.code().name
        states = health_pb2.HealthCheckResponse
        return states.ServingStatus.Name(states.FromString(answer).status)

    async def talk(channel: aio.Channel, intake: Intake) -> list[str]:
        return [await asked(channel, service) for service in ("another", TRACES, "")]

    async def ask(channel: aio.Channel, intake: Intake) -> str:
        return await asked(channel, "")

    assert answered(embedded.bootstrap, talk) == ["NOT_FOUND", "SERVING", "SERVING"]
    with socket.create_server(("127.0.0.1", 0)) as nobody:  # a port that nobody answers at
        assert answered(f"127.0.0.1:{nobody.getsockname()[1]}", ask) == "NOT_SERVING"


def test_the_command_serves_both(embedded: EmbeddedBroker) -> None:
    environ = os.environ | {"HALTLINE_INTAKE_OTLP_GRPC_PORT": "0"}
    command = [sys.executable, "-m", "haltline.cli", "intake", "--bootstrap", embedded.bootstrap, "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environ) as intake:
        assert intake.stdout is not None
        assert intake.stderr is not None
        assert intake.stdout.readline().startswith("http://127.0.0.1:")
        said = intake.stderr.readline()
        port = said.rpartition(" ")[2].strip()
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{port}", insecure=True)
        assert exporter.export(recorded()) is SpanExportResult.SUCCESS
        exporter.shutdown()
        taken = subprocess.run([*command, "--otlp-grpc-port", port], capture_output=True, text=True, check=False)
        assert (taken.returncode, f"expected to listen at 127.0.0.1:{port}" in taken.stderr) == (2, True), taken.stderr
        intake.send_signal(signal.SIGTERM)
    assert intake.returncode == 0
    none = subprocess.run([*command, "--otlp-grpc-port", "70000"], capture_output=True, text=True, check=False)
    assert (none.returncode, "expected 0 to 65535, got 70000" in none.stderr) == (2, True), none.stderr
