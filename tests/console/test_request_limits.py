"""The limits before a request's body is read, alone and before the console's own routes."""

import asyncio
import gzip
from typing import Any

from fastapi import HTTPException, Request
from fastapi.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from haltline.console.access.keys import Role, Who
from haltline.console.request_limits import LARGE_BYTES, MAX_BODY_BYTES, MAX_LARGE, RequestLimits
from haltline.streams.json_text import MAX_VALUES
from tests.builders import cases

JSON = {"Content-Type": "application/json"}


def test_a_body_without_a_key_is_not_read(client: TestClient) -> None:
    for path in ("/api/v1/interventions", "/api/v1/policies/check", "/nowhere", "/healthz"):
        for key in ("", "Bearer hl_nobody"):
            method = "GET" if path == "/healthz" else "POST"
            answer = client.request(method, path, content=b"{" * 1000, headers={**JSON, "Authorization": key})
            assert (answer.status_code, answer.headers["connection"]) == (401, "close"), (path, key)


def test_what_is_too_long_or_of_too_many_values_is_refused_unparsed(client: TestClient) -> None:
    for path in ("/api/v1/interventions", "/api/v1/policies/check", "/healthz"):
        answer = client.post(path, content=b"x" * (MAX_BODY_BYTES + 1), headers=JSON)
        assert answer.status_code == 413, path
        assert f"expected at most {MAX_BODY_BYTES} bytes" in answer.json()["detail"]
    answer = client.post("/api/v1/interventions", content=b"[" + b"[]," * MAX_VALUES + b"[]]", headers=JSON)
    assert (answer.status_code, "values" in answer.json()["detail"]) == (413, True)


def test_numbers_that_json_and_queries_do_not_have_are_422_and_told_without_the_body(client: TestClient) -> None:
    numbers = (b"NaN", b"Infinity", b"-Infinity", b"1e999")
    recorded = [("/api/v1/interventions", b'{"context": {"cost": %s}}' % number) for number in numbers]
    for path, body in (
        *recorded,
        ("/api/v1/interventions", b'{"estimated_cost_usd": NaN}'),
    ):
        assert client.post(path, content=body, headers=JSON).status_code == 422, (path, body)
    for number in ("nan", "inf", "-inf"):
        assert client.get("/api/v1/interventions", params={"min_prevented_usd": number}).status_code == 422
        assert client.get("/api/v1/approvals/pending", params={"limit": number}).status_code in {200, 422}
    answer = client.post("/api/v1/interventions", content=b"[" + b"[]," * 10_000 + b"[]]", headers=JSON)
    assert answer.status_code == 422
    assert len(answer.content) < 1000
    short = client.get("/api/v1/interventions", params={"limit": "many"}).json()["detail"][0]
    assert (short["loc"], short["input"]) == (["query", "limit"], "many")


def test_what_is_packed_is_refused_unread(client: TestClient) -> None:
    packed = JSON | {"Content-Encoding": "gzip"}
    assert client.post("/api/v1/interventions", content=gzip.compress(b""), headers=packed).status_code == 415


# By itself


class Asked:
    """A request to a door, whose body comes as it is told and whose route ends when it is told."""

    def __init__(self, door: RequestLimits, path: str = "/api/v1/wait", key: str = "ada", **headers: str) -> None:
        self.status: int | None = None
        self.came: asyncio.Queue[Message] = asyncio.Queue()
        result = {"authorization": key, "transfer-encoding": "chunked", **headers}
        encoded = [(name.encode(), value.encode()) for name, value in result.items()]
        scope = {"type": "http", "method": "POST", "path": path, "headers": encoded, "query_string": b""}
        self.task = asyncio.create_task(door(scope, self.came.get, self._sent))

    def send(self, size: int, *, more: bool = False) -> "Asked":
        self.came.put_nowait({"type": "http.request", "body": b"x" * size, "more_body": more})
        return self

    async def _sent(self, message: Message) -> None:
        self.status = message.get("status", self.status)


class Route:
    """Reads its body whole, as FastAPI does, and then waits until it is told."""

    def __init__(self, **options: Any) -> None:
        self.go = asyncio.Event()
        self.within = 0
        self.door = RequestLimits(self._serve, self._who, **({"requests": 8, "streams": 1, "within_s": 60.0} | options))

    async def _serve(self, _: Scope, receive: Receive, send: Send) -> None:
        try:
            while (await receive()).get("more_body"):
                pass
            self.within += 1
            await self.go.wait()
            status = 200
        except HTTPException as refused:  # as FastAPI answers it
            status = refused.status_code
        await send({"type": "http.response.start", "status": status})

    def _who(self, request: Request) -> Who:
        name = request.headers["authorization"]
        if name == "nobody":
            raise HTTPException(401, "nobody who is known")
        return Who(name, Role.ADMIN)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@cases(
    "path, most",
    {"requests": ("/api/v1/wait", 8), "streams": ("/api/v1/events", 1)},
)
def test_a_key_has_so_many_at_a_time_and_another_key_its_own(path: str, most: int) -> None:
    async def run() -> list[int | None]:
        route = Route()
        requests = [Asked(route.door, path).send(1) for _ in range(most + 1)]
        other = Asked(route.door, path, key="bob").send(1)
        await settled()
        assert [one.status for one in requests] == [None] * most + [429]
        route.go.set()
        await asyncio.gather(*(one.task for one in [*requests, other]))
        again = Asked(route.door, path).send(1)
        await again.task
        return [requests[0].status, other.status, again.status]

    assert asyncio.run(run()) == [200, 200, 200]


def test_large_bodies_are_read_by_few_at_a_time_one_of_a_key_and_small_ones_beside_them() -> None:
    async def run() -> None:
        route = Route()
        keys = ["ada", "ada", *(f"key {n}" for n in range(MAX_LARGE))]
        large = [Asked(route.door, key=key).send(LARGE_BYTES + 1) for key in keys]
        small = Asked(route.door).send(10)
        await settled()
        assert route.within == MAX_LARGE + 1
        assert [one.status for one in large] == [None] * len(large)
        route.go.set()
        await asyncio.gather(*(one.task for one in [*large, small]))
        assert [one.status for one in large] == [200] * len(large)

    asyncio.run(run())


@cases("sizes, within_s, status", {"too long, in parts": ([MAX_BODY_BYTES, 1], 60, 413), "too slow": ([10], 0.05, 408)})
def test_a_body_without_a_length_is_read_so_far_and_no_longer(sizes: list[int], within_s: float, status: int) -> None:
    async def run() -> int | None:
        request = Asked(Route(within_s=within_s).door)
        for size in sizes:
            request.send(size, more=True)
        await request.task
        return request.status

    assert asyncio.run(run()) == status
