"""OTLP over gRPC (https://opentelemetry.io/docs/specs/otlp/#otlpgrpc): `TraceService/Export`, beside OTLP/HTTP.

It has the same token, checks, limits and partial success; gzip; and gRPC's health service, which reports the broker's.
It needs grpcio, from the extra `intake`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
from aiohttp import web
from google.protobuf.message import DecodeError
from grpc import aio
from grpc_health.v1 import health_pb2

from haltline.interventions.agent.producers.publishing import Away
from haltline.streams.intake import otlp
from haltline.streams.intake.keys import MAX_BODY_BYTES, Key, May
from haltline.streams.intake.problems import Bad, Busy, TooOften
from haltline.streams.intake.requests import WITHIN_S, Admission
from haltline.streams.intake.tls import ServerTls
from haltline.streams.intake.topic_writer import TopicWriter

TRACES: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
HEALTH: Final = "grpc.health.v1.Health"
MAX_AT_ONCE: Final = 64
"""The most simultaneous gRPC requests: each may hold a message of the largest size before it is checked."""
_GRACE_S: Final = 5.0
_MAX_PORT: Final = 65_535
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_BODY_BYTES),  # also for a compressed message when it is decompressed
    ("grpc.max_metadata_size", 16 * 1024),
    ("grpc.max_concurrent_streams", MAX_AT_ONCE),
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),  # otherwise a second intake on the port would silently take half of the requests
)
_STATUS: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.INVALID_ARGUMENT,
}

Context = aio.ServicerContext[bytes, bytes]
Count = Callable[[str, str], None]


class TraceServer:
    """A server of one address that accepts traces."""

    def __init__(
        self,
        writer: TopicWriter,
        admission: Admission,
        count: Count,
        host: str,
        port: int,
        *,
        tls: ServerTls | None = None,
    ) -> None:
        """`count` gets the route and the status of each request, such as `OK`. Port 0 takes a free one.

        Raises ValueError for an invalid port.
        """
        if not 0 <= port <= _MAX_PORT:  # gRPC would use its lowest 16 bits
            raise ValueError(f"--otlp-grpc-port: expected 0 to {_MAX_PORT}, got {port}")
        self._writer = writer
        self._admission = admission
        self._count = count
        self._credentials = None if tls is None else tls.grpc_credentials()
        self._host = f"[{host}]" if ":" in host else host
        self.port = port
        """The bound port, once it serves."""
        self._server: aio.Server | None = None

    def beside(self, app: web.Application) -> None:
        """Serve from the application's start to its end; what was accepted is published before the end."""
        app.cleanup_ctx.append(self._serving)

    async def start(self) -> None:
        """Start serving. Raises OSError when the port is not available."""
        self._server = aio.server(options=_OPTIONS, maximum_concurrent_rpcs=MAX_AT_ONCE)
        self._server.add_generic_rpc_handlers(
            (
                # A stream of one message has the wire format of a single message, and is read after admission.
                _handler(TRACES, "Export", grpc.stream_unary_rpc_method_handler(self._export)),
                _handler(HEALTH, "Check", grpc.unary_unary_rpc_method_handler(self._check)),
            )
        )
        address = f"{self._host}:{self.port}"
        try:
            if self._credentials is None:
                self.port = self._server.add_insecure_port(address)
            else:
                self.port = self._server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            raise OSError(f"OTLP over gRPC: expected to listen at {address}, got: {error}") from None
        await self._server.start()

    async def stop(self) -> None:
        """Stop; active requests have five seconds."""
        if self._server is not None:
            await self._server.stop(_GRACE_S)

    async def _serving(self, _: web.Application) -> AsyncIterator[None]:
        await self.start()
        print(f"haltline intake: takes OTLP over gRPC on port {self.port}", file=sys.stderr, flush=True)
        yield
        await self.stop()

    async def _export(self, messages: AsyncIterator[bytes], context: Context) -> bytes:
        code, answer = grpc.StatusCode.OK, b""
        problems: tuple[str, ...] = ()
        try:
            key = self._admission.key(_authorization(context), May.PUBLISH)
            async with self._admission.room():
                answer = await self._accept(await _first(messages), key)
        except Bad as bad:
            code, problems = _STATUS.get(bad.status, grpc.StatusCode.FAILED_PRECONDITION), bad.problems
        except (Busy, Away, TooOften) as later:  # an exporter retries this
            code, problems = grpc.StatusCode.UNAVAILABLE, (str(later),)
        self._count(f"/{TRACES}/Export", code.name)
        if code is not grpc.StatusCode.OK:
            await context.abort(code, "; ".join(problems))
        return answer

    async def _accept(self, body: bytes, key: Key) -> bytes:
        key.check_size(len(body))
        async with self._admission.few_large(len(body)):
            good, bad_spans = self._writer.spans_of(body, otlp.PROTOBUF, key)
        await self._writer.publish(good)
        return otlp.accepted(otlp.PROTOBUF, bad_spans)

    async def _check(self, body: bytes, context: Context) -> bytes:
        """Return the health of the server, and of the traces service; without a token, like /healthz."""
        try:
            service = health_pb2.HealthCheckRequest.FromString(body).service
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "expected a HealthCheckRequest, got something else")
        if service not in {"", TRACES}:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"expected no service or {TRACES}, got {service:.80}")
        states = health_pb2.HealthCheckResponse
        status = states.SERVING if await self._writer.healthy() else states.NOT_SERVING
        answer: bytes = health_pb2.HealthCheckResponse(status=status).SerializeToString()
        return answer


def _handler(service: str, method: str, handler: Any) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(service, {method: handler})


def _authorization(context: Context) -> str:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            return value if isinstance(value, str) else value.decode(errors="replace")
    return ""


async def _first(messages: AsyncIterator[bytes]) -> bytes:
    """Return the message of the request. Raises Bad when there is none, or when it arrives too slowly."""
    try:
        async with asyncio.timeout(WITHIN_S):
            async for message in messages:
                return message
    except TimeoutError:
        raise Bad(408, f"the message: expected all of it within {WITHIN_S:g} s, got less") from None
    raise Bad(400, "the message: expected one, got none")
