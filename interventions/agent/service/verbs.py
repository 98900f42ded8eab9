"""The verbs of the local service: from the fields of a request to its answer, whatever carries both.

Their messages are in `schemas/agent_service.py`. Raises Bad for a request that cannot be used. A session ends when its
clients have: by `close`, or a lease after their last request and connection.
"""

import asyncio
import logging
import secrets
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from pydantic import ValidationError

from haltline.interventions.agent.checkpoints import Checkpoints, FolderCheckpoints, GitCheckpoints
from haltline.interventions.agent.described import DescribedError
from haltline.interventions.agent.frame import session as frame
from haltline.interventions.agent.frame.session import FrameworkSession
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.service.limited import Limited, Overdue
from haltline.interventions.agent.service.problems import Bad, bad_values
from haltline.interventions.agent.service.sessions import Caller, Sessions
from haltline.interventions.agent.stored_sessions import ORDER, StoredSessions
from haltline.interventions.levels.default_levels import HELD_CODE
from haltline.interventions.state import texts
from haltline.schemas.agent_service import PROTOCOL, Answer, Begin, Begun, Close, End, Order, Propose, Turn, Verdict
from haltline.schemas.decisions import Level
from haltline.schemas.events import Outcome
from haltline.schemas.record import Part

log: Final = logging.getLogger("haltline.agent")

UNKNOWN_TOKEN: Final = "token: expected one that begin has returned and whose lease lasts, got another"
"""Answered with status 401: the client begins again."""
DISCONNECTED_S: Final = 60.0
"""Seconds for which a session outlives the connection of its last client, or its lease if that is shorter."""
_MAX_KEPT: Final = 1024
"""Calls of one client whose answers are kept for requests that are sent again."""
_MAX_ORDERS: Final = 64
_MAX_CONNECTIONS: Final = 8
"""Of one client."""
_LOOKS_S: Final = 15.0
Orders = asyncio.Queue[Order]
_M = TypeVar("_M", bound=Part)


@dataclass(eq=False)
class _Client:
    """One `begin`."""

    session_id: str
    caller: Caller
    lease_s: float
    until_s: float = 0.0
    connections: int = 0
    """Those that show that the client is there: a connection to the socket, or a channel of orders."""
    proposed: "OrderedDict[str, tuple[bytes, asyncio.Task[Answer]]]" = field(default_factory=OrderedDict)
    ended: OrderedDict[str, None] = field(default_factory=OrderedDict)
    orders: list[Orders] = field(default_factory=list)
    told: Order | None = None


class Verbs:
    """The clients of one service and their sessions. For its event loop only."""

    def __init__(
        self,
        sessions: Sessions,
        release: str,
        *,
        why: str = "",
        stored: StoredSessions | None = None,
        count: Callable[[Refused | None], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`why`: the reason that there are no verdicts, if so. `clock`: monotonic seconds.

        `count` gets the refusal of each call and turn; None: it was allowed. `stored`: where stops are kept, which are
        in force in the next process until the control topic has been read.
        """
        self._sessions = sessions
        self._release = release
        self._why = why
        self._stored = stored
        self._count = count
        self._clock = clock
        self._clients: dict[str, _Client] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def routes(self) -> dict[str, Callable[[Mapping[str, Any], Caller], Awaitable[Part]]]:
        """The verbs by name."""
        return {
            "begin": self._begin,
            "propose": self._propose,
            "end": self._end,
            "turn": self._turn,
            "close": self._close,
        }

    async def answer(self, verb: str, fields: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """Return the answer to a request. Raises Bad."""
        route = self.routes.get(verb)
        if route is None:
            got = repr(verb)[:80] if verb else "none"
            raise Bad(404, f"verb: expected one of {', '.join(self.routes)}, got {got}")
        if self._why:
            raise Bad(503, self._why)
        return (await route(fields, caller)).model_dump(mode="json", exclude_none=True)

    # Who is there.

    def connect(self, token: str, caller: Caller) -> Orders:
        """Return the orders for a client from now on; its lease lasts until `disconnect`. Raises Bad."""
        client = self._client(token, caller)
        if client.connections >= _MAX_CONNECTIONS:
            raise Bad(409, f"token: expected at most {_MAX_CONNECTIONS} connections of one client, got one more")
        client.connections += 1
        orders: Orders = asyncio.Queue()
        client.orders.append(orders)
        if client.told is not None:
            orders.put_nowait(client.told)
        return orders

    def disconnect(self, token: str, orders: Orders) -> None:
        """End what `connect` began: the client has a while to come back."""
        client = self._clients.get(token)
        if client is not None:
            client.connections -= 1
            client.orders.remove(orders)
            client.until_s = self._clock() + min(client.lease_s, DISCONNECTED_S)

    async def keep_ending(self, ended: Callable[[], object] = lambda: None) -> None:
        """End the sessions whose clients are gone, until cancelled; `ended` is called when some have."""
        while True:
            await asyncio.sleep(_LOOKS_S)
            if await self.end_expired():
                ended()

    async def end_expired(self) -> int:
        """End the sessions whose clients are gone. Returns the number of clients."""
        now_s = self._clock()
        gone = [token for token, one in self._clients.items() if not one.connections and one.until_s <= now_s]
        for token in gone:
            await self._give_up(token)
        return len(gone)

    async def close(self) -> None:
        """End all sessions."""
        for token in [*self._clients]:
            await self._give_up(token)
        await self._sessions.close()

    # The verbs.

    async def _begin(self, fields: Mapping[str, Any], caller: Caller) -> Begun:
        asked = _read(Begin, fields)
        if asked.protocol != PROTOCOL:
            raise Bad(400, f"protocol: expected {PROTOCOL} of this release ({self._release}), got {asked.protocol}")
        of_session = asked.model_dump(exclude_none=True, exclude={"protocol", "client", "mode", "prompt", "lease_s"})
        session_id = asked.session_id or uuid.uuid4().hex
        of_session |= {"session_id": session_id, "ancestors": [*asked.ancestors]}
        if asked.mode is not None:
            of_session["session_mode"] = asked.mode
        session = self._sessions.of(of_session, caller, checkpoints=_checkpoints_of(asked, caller))
        guard, self._loop = session.guard, asyncio.get_running_loop()
        guard.start()
        guard.on_change(self._changed)
        if asked.prompt is not None:
            guard.prompt(asked.prompt)
        if not guard.ready:
            await asyncio.to_thread(guard.wait_until_ready)
        token = secrets.token_urlsafe(16)
        client = self._clients[token] = _Client(session_id, caller, asked.lease_s)
        self._renew(client)
        client.told = self._stop_of(session, session_id)
        if client.told is None and guard.ready:  # it may have been released meanwhile
            self._keep(Order(order="go_on", session_id=session_id))
        stop = client.told
        return Begun(
            token=token,
            session_id=session_id,
            protocol=PROTOCOL,
            release=self._release,
            answer="allow" if stop is None or stop.order == "go_on" else stop.order,
            code=None if stop is None else stop.code,
            message=None if stop is None else stop.message,
        )

    async def _propose(self, fields: Mapping[str, Any], caller: Caller) -> Answer:
        asked = _read(Propose, fields)
        client, session = self._of(asked.token, caller)
        call_id = asked.call_id or uuid.uuid4().hex
        if call_id in client.ended:
            raise Bad(409, f"call_id: expected that of a call that has not ended, got {call_id!r:.80}")
        digest = _digest(asked)
        known = client.proposed.get(call_id)
        if known is not None and known[0] != digest:
            raise Bad(409, f"call_id: expected the call that it was first sent with, got another ({call_id!r:.80})")
        if not session.guard.ready and (stop := self._stop_of(session, client.session_id)) is not None:
            return Answer(answer=stop.order, call_id=call_id, code=stop.code, message=stop.message)
        if known is None:
            pause_s = session.guard.pause_s(asked.action, asked.args or {})
            if pause_s > 0:
                return Answer(answer="wait", call_id=call_id, wait_ms=max(1, round(pause_s * 1000)))
            task = asyncio.create_task(self._decided(session, asked, call_id))
            client.proposed[call_id] = known = (digest, task)
            while len(client.proposed) > _MAX_KEPT:
                client.proposed.popitem(last=False)
        task = known[1]
        await asyncio.wait({task}, timeout=asked.wait_s)  # decided even if no client waits
        self._renew(client)
        if not task.done():
            return Answer(answer="pending", call_id=call_id)
        try:
            answer = task.result()
        except asyncio.CancelledError:
            raise Bad(409, f"call_id: expected a call that is not taken back, got {call_id!r:.80}") from None
        except Exception:
            client.proposed.pop(call_id, None)
            raise
        if answer.code is None and (refused := session.guard.stopped) is not None and not session.is_open(call_id):
            return answer_of(frame.Answer(refused), call_id, session)  # a permission ends with its session
        return answer

    async def _decided(self, session: FrameworkSession, asked: Propose, call_id: str) -> Answer:
        try:
            found = await Limited(
                session.propose_async(
                    call_id,
                    asked.action,
                    asked.args or {},
                    targets=asked.targets,
                    effect=asked.effect,
                    mode=asked.mode,
                    loop_key=asked.loop_key,
                    folder=asked.folder,
                    asks=True,
                )
            )
        except Overdue as overdue:
            raise Bad(503, str(overdue)) from None
        except ValueError as error:
            raise bad_values(error) from None
        except Exception:
            log.exception("haltline: session %s: a call could not be checked", session.guard.session_id)
            return Answer(answer="refuse", call_id=call_id, code=frame.NOT_CHECKED, message=texts.NOT_CHECKED)
        self._count(found.refused)
        return answer_of(found, call_id, session)

    async def _end(self, fields: Mapping[str, Any], caller: Caller) -> Answer:
        asked = _read(End, fields)
        client, session = self._of(asked.token, caller)
        answer = Answer(answer="allow", call_id=asked.call_id)
        if asked.call_id in client.ended:
            return answer
        error: DescribedError | str | None = asked.error
        if asked.outcome is Outcome.OK:
            error = None
        elif asked.outcome is not None:
            error = DescribedError(asked.outcome, asked.error or "")
        known = client.proposed.get(asked.call_id)
        if known is not None and not known[1].done():  # it is taken back while it waits
            known[1].cancel()
            await asyncio.wait({known[1]})
            client.proposed.pop(asked.call_id, None)
            return answer
        session.guard.tell_children(asked.children)
        if not session.complete(asked.call_id, asked.output, error=error):
            raise Bad(404, f"call_id: expected a call that was allowed and has not ended, got {asked.call_id!r:.80}")
        client.proposed.pop(asked.call_id, None)
        client.ended[asked.call_id] = None
        while len(client.ended) > _MAX_KEPT:
            client.ended.popitem(last=False)
        return answer

    async def _turn(self, fields: Mapping[str, Any], caller: Caller) -> Answer:
        asked = _read(Turn, fields)
        _, session = self._of(asked.token, caller)
        if asked.prompt is not None:
            session.guard.prompt(asked.prompt)
        if asked.usage is not None or asked.output is not None:
            session.turn(asked.usage, asked.output)
        kept = None
        if asked.keep is not None:
            kept = await asyncio.to_thread(session.guard.keep, asked.keep) is not None
        refused = session.guard.stopped
        if not asked.asks:
            return answer_of(frame.Answer(refused), None, session).model_copy(update={"kept": kept})
        refused = None
        try:
            await session.before_turn_async()
        except Refused as why:
            refused = why
        self._count(refused)
        return answer_of(frame.Answer(refused), None, session).model_copy(update={"kept": kept})

    async def _close(self, fields: Mapping[str, Any], caller: Caller) -> Answer:
        asked = _read(Close, fields)
        self._client(asked.token, caller)
        await self._give_up(asked.token)
        return Answer(answer="allow")

    # Internal.

    def _of(self, token: str, caller: Caller) -> tuple[_Client, FrameworkSession]:
        client = self._client(token, caller)
        session = self._sessions.known(client.session_id, caller)
        if session is None:  # evicted
            del self._clients[token]
            raise Bad(401, UNKNOWN_TOKEN)
        self._renew(client)
        return client, session

    def _client(self, token: str, caller: Caller) -> _Client:
        client = self._clients.get(token)
        if client is None or client.caller is not caller:
            raise Bad(401, UNKNOWN_TOKEN)
        return client

    def _renew(self, client: _Client) -> None:
        client.until_s = max(client.until_s, self._clock() + client.lease_s)

    async def _give_up(self, token: str) -> None:
        """Forget a client; its session ends with its last one."""
        client = self._clients.pop(token)
        for _, task in client.proposed.values():
            if not task.done():
                task.cancel()
        if not any(other.session_id == client.session_id for other in self._clients.values()):
            await self._sessions.end(client.session_id, client.caller)

    def _changed(self) -> None:
        """Tell the clients what has changed; called in any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell)

    def _stop_of(self, session: FrameworkSession, session_id: str) -> Order | None:
        """Return how the session is stopped, by what is in force, or was when that could last be read."""
        if (order := _order_of(session, session_id)) is not None or session.guard.ready or self._stored is None:
            return order
        kept = self._stored.read(session_id, ORDER)
        return None if kept is None else Order.model_validate_json(kept)

    def _keep(self, order: Order) -> None:
        if self._stored is not None:
            if order.order == "go_on":
                self._stored.remove(order.session_id, ORDER)
            else:
                self._stored.write(order.session_id, ORDER, order.model_dump_json().encode())

    def _tell(self) -> None:
        for client in self._clients.values():
            session = self._sessions.known(client.session_id, client.caller)
            order = None if session is None else self._stop_of(session, client.session_id)
            if order is None and client.told is not None and client.told.order != "go_on":
                order = Order(order="go_on", session_id=client.session_id)
            if order is not None and order != client.told:
                client.told = order
                self._keep(order)
                for orders in client.orders:
                    if orders.qsize() < _MAX_ORDERS:
                        orders.put_nowait(order)


def answer_of(found: frame.Answer, call_id: str | None, session: FrameworkSession) -> Answer:
    """Return the answer to a call or a turn."""
    return Answer(answer=_verdict_of(found, session), **fields_of(found, call_id))


def _verdict_of(found: frame.Answer, session: FrameworkSession) -> Verdict:
    refused = found.refused
    if refused is None:
        if found.changes:
            return "change"
        return "reinforce" if any(one.level is Level.REINFORCE for one in found.advice) else "allow"
    if session.guard.killed:
        return "stop"
    if refused.code == HELD_CODE or session.guard.stopped is not None:
        return "hold"
    decision = refused.decision
    return "roll_back" if decision is not None and decision.level is Level.ROLLBACK else "refuse"


def fields_of(found: frame.Answer, call_id: str | None) -> dict[str, Any]:
    """Return what an answer says besides its verdict, each once."""
    fields: dict[str, Any] = {} if call_id is None else {"call_id": call_id}
    if (refused := found.refused) is not None:
        fields |= {"code": refused.code, "message": refused.reason}
        approval = None if refused.decision is None else refused.decision.approval
        if approval is not None:
            fields |= {"request_id": approval.request_id, "expires": approval.expires}
    if found.hints:
        fields["hints"] = found.hints
    if found.changes:
        fields |= {"put": found.changes.put, "remove": found.changes.remove}
    limits = {name: value for one in found.advice for name, value in one.limits.items()}
    return fields | ({"limits": limits} if limits else {})


def _order_of(session: FrameworkSession, session_id: str) -> Order | None:
    """Return how the session is stopped; None: it may go on."""
    refused = session.guard.stopped
    if refused is None:
        return None
    order: Any = "stop" if session.guard.killed else "hold"
    return Order(order=order, session_id=session_id, code=refused.code, message=refused.reason)


def _checkpoints_of(asked: Begin, caller: Caller) -> Checkpoints | None:
    """Return what saves and restores the files of a folder. Raises Bad for a caller of another machine."""
    if asked.checkpoints is None:
        return None
    if not caller.is_local or not Path(asked.checkpoints).is_absolute():
        raise Bad(400, f"checkpoints: expected an absolute path on this machine, got {asked.checkpoints!r:.80}")
    try:
        return GitCheckpoints(asked.checkpoints)
    except ValueError:
        pass  # no git work tree
    try:
        return FolderCheckpoints(asked.checkpoints)
    except ValueError as error:
        raise Bad(400, f"checkpoints: {error}") from None


def _read(model: type[_M], fields: Mapping[str, Any]) -> _M:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise bad_values(error) from None


def _digest(asked: Propose) -> bytes:
    fields = asked.model_dump(mode="json", exclude={"token", "wait_s"})
    return blake2b(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
