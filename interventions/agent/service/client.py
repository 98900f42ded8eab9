"""A session of the local service, for front ends in Python: the calls of `FrameworkSession`, asked over the socket.

    session = ServiceSession(reach, {"agent_id": "cleaner"})
    verdict = session.before(call_id, "send", args)      # Refused: the session was killed, end the run

`reach` connects to the service, and starts one if none runs. Where it cannot be reached, calls follow the fail policy
by what they would do, and one line says so. A service that was started anew goes on with the session.
"""

import asyncio
import itertools
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from haltline.interventions.agent.call import error_text
from haltline.interventions.agent.calls.argument_changes import NOT_CHANGED, Changes
from haltline.interventions.agent.enforcement.refusal_cause import NOBODY
from haltline.interventions.agent.frame.session import (
    Allowed,
    Denied,
    ResultUnknown,
    arguments_of,
    not_checked,
    with_hints,
)
from haltline.interventions.agent.redaction.payload_encoding import Whole
from haltline.interventions.agent.refused import Refused
from haltline.interventions.agent.service.unavailable import is_closed
from haltline.interventions.state import texts
from haltline.schemas.agent_service import Order
from haltline.schemas.events import Effect, Outcome, Usage

log: Final = logging.getLogger("haltline.agent")

OnOrder = Callable[[Order], object]
"""Called, in a thread, when the session is held, killed or freed."""
_CONNECT_S: Final = 10.0
_ASKING: Final = ThreadPoolExecutor(512, thread_name_prefix="haltline-ask")
"""Many: a call may wait for a person."""
_UNKNOWN_TOKEN, _NO_VERDICTS = 401, 503
_ATTEMPTS, _PAUSE_S = 4, 0.1
_MADE: Final = frozenset({"allow", "change", "reinforce"})


class ServiceGone(OSError):
    """The service cannot be reached, or has ended."""


class ServiceRefused(Exception):
    """The service cannot use a request; its status is as in HTTP."""

    def __init__(self, status: int, problems: str) -> None:
        super().__init__(problems)
        self.status = status


class Link(Protocol):
    """A connection to a service. Thread safe."""

    def ask(self, verb: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Raises ServiceRefused, and ServiceGone."""

    def close(self) -> None:
        """End the connection."""


Reach = Callable[[OnOrder], Link]
"""Connects to a service. Raises OSError if there is none, and none can be started."""


class Connection:
    """A connection to the socket. Thread safe; a thread reads the answers and orders."""

    def __init__(self, path: Path, on_order: OnOrder) -> None:
        """Raises OSError if nobody serves this path."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_CONNECT_S)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(None)
        self._on_order = on_order
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._is_open = True
        threading.Thread(target=self._read, name="haltline-service", daemon=True).start()

    def ask(self, verb: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Raises ServiceRefused, and ServiceGone."""
        answer: Future[dict[str, Any]] = Future()
        with self._lock:
            number = next(self._numbers)
            line = encoded({"id": number, "verb": verb, **fields}) + b"\n"
            if not self._is_open:
                raise ServiceGone("the connection to the service has ended")
            self._waiting[number] = answer
            try:
                self._socket.sendall(line)
            except OSError as error:
                del self._waiting[number]
                raise ServiceGone(str(error)) from None
        reply = answer.result()
        if (failed := reply.get("error")) is not None:
            raise ServiceRefused(failed["status"], "; ".join(failed["problems"]))
        result: dict[str, Any] = reply["result"]
        return result

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _read(self) -> None:
        with suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                try:
                    self._take(orjson.loads(line))
                except Exception:  # of `on_order`, or in a message of another release: callers would wait without end
                    log.exception("haltline: a message of the service could not be read")
        with self._lock:
            self._is_open = False
            waiting_for, self._waiting = [*self._waiting.values()], {}
        self._socket.close()
        for one in waiting_for:
            one.set_exception(ServiceGone("the service ended before it answered"))

    def _take(self, message: dict[str, Any]) -> None:
        if "order" in message:
            self._on_order(Order.model_validate(message))
        elif (waiting := self._waiting.pop(message.get("id") or 0, None)) is not None:
            waiting.set_result(message)


class ServiceSession:
    """One session. Thread safe."""

    def __init__(
        self,
        reach: Reach,
        begins: Mapping[str, Any],
        *,
        effects: Mapping[str, Effect | str] | None = None,
        changes_arguments: bool = True,
        closed_from: Effect | None = Effect.DESTRUCTIVE,
        on_order: OnOrder = lambda _: None,
    ) -> None:
        """`begins`: the fields of `Begin`. `closed_from`: what is refused without a service; None: nothing."""
        self._reach = reach
        self._effects = dict(effects or {})
        self._changes_arguments = changes_arguments
        self._closed_from = closed_from
        self._on_order = on_order
        self._begins = {name: value for name, value in begins.items() if value}
        self._lock = threading.Lock()
        self._connection: Link | None = None
        self._token = ""
        self._open: dict[str, str] = {}
        """Hints by the ids of open calls."""
        self._kept: list[str] = []
        self._unasked: set[str] = set()
        """Open calls that were made without the service."""
        self._prefix = uuid.uuid4().hex[:12]
        self._numbers = itertools.count(1)
        self._is_told = False
        self._has_ended = False
        self.session_id: str = begins.get("session_id") or ""

    def begin(self) -> None:
        """Begin the session now instead of with its first call; a service that cannot be reached is told once."""
        self._ask("turn", {})

    def before(
        self, call_id: str | None, name: str, args: Any = None, *, effect: Effect | str | None = None, **options: Any
    ) -> Allowed | Denied:
        """Return whether the call may be made; waits according to the service's mode. The options are those of Propose.

        Raises Refused: the session was killed, so its run has to end.
        """
        named = arguments_of(args)
        call_id = call_id or self._new_id()
        effect = effect or self._effects.get(name)
        fields = {"call_id": call_id, "action": name or "unknown", "args": named, **options}
        if effect is not None:
            fields["effect"] = str(effect)
        while True:
            try:
                answer = self._ask("propose", fields)
            except ServiceRefused as refused:
                log.error("haltline: session %s: a call could not be checked: %s", self.session_id, refused)  # noqa: TRY400 - its text says all
                return Denied.of(not_checked())
            if answer is None:
                return self._by_policy(call_id, name, named)
            if answer["answer"] != "wait":
                return self._verdict(call_id, named, answer)
            time.sleep(answer["wait_ms"] / 1000)

    async def before_async(
        self, call_id: str | None, name: str, args: Any = None, *, effect: Effect | str | None = None, **options: Any
    ) -> Allowed | Denied:
        """Like `before`, without blocking the event loop."""
        call_id = call_id or self._new_id()
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(_ASKING, partial(self.before, call_id, name, args, effect=effect, **options))
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            loop.run_in_executor(_ASKING, self._take_back, call_id)
            raise

    def after(
        self,
        call_id: str,
        output: Any = None,
        *,
        error: BaseException | str | None = None,
        children: Sequence[str] = (),
    ) -> str:
        """Report the end of a call with its output, or its error. Returns the hints to add to the output.

        `children`: sessions that were stopped with this one.
        """
        with self._lock:
            hints = self._open.pop(call_id, None)
            was_asked = call_id not in self._unasked
            self._unasked.discard(call_id)
        if hints is None:
            return ""
        fields: dict[str, Any] = {"call_id": call_id, "output": output, "children": children}
        if isinstance(error, BaseException):
            fields |= {"error": error_text(error), "outcome": _outcome_of(error)}
        elif error is not None:
            fields["error"] = error
        if was_asked:
            with suppress(ServiceRefused):  # of a call that a service which was started anew does not know
                self._ask("end", fields)
        return hints

    def failed(self, call_id: str, error: BaseException | str) -> None:
        """Report a failed call whose result cannot have hints: they are added to the next one."""
        if hints := self.after(call_id, error=error):
            with self._lock:
                self._kept.append(hints)

    def before_turn(self) -> None:
        """Raises Refused if the session was stopped: no more tokens are spent."""
        answer = self._ask("turn", {"asks": True})
        if answer is not None and answer["answer"] not in _MADE:
            raise _refused(answer)

    def turn(self, usage: Usage | None = None, output: str | None = None) -> None:
        """Publish a turn of the model."""
        fields: dict[str, Any] = {"output": output or ""}
        if usage is not None:
            fields["usage"] = usage.model_dump(exclude_defaults=True)
        self._ask("turn", fields)

    def hints_of(self, call_id: str) -> str:
        """Return the hints of an open call; empty without any."""
        with self._lock:
            return self._open.get(call_id, "")

    def abandon(self, *, but: str | None = None) -> int:
        """Give up the open calls, except `but`: their results will not be reported. Returns their number."""
        with self._lock:
            left = [call_id for call_id in self._open if call_id != but]
        for call_id in left:
            self.failed(call_id, ResultUnknown("its result was not reported"))
        return len(left)

    def end(self) -> None:
        """End the session."""
        self.abandon()
        with self._lock:
            connection, self._connection, self._has_ended = self._connection, None, True
        if connection is not None:
            with suppress(ServiceGone, ServiceRefused):
                connection.ask("close", {"token": self._token})
            connection.close()

    async def end_async(self) -> None:
        """Like `end`, without blocking the event loop."""
        await asyncio.to_thread(self.end)

    # Internal.

    def _new_id(self) -> str:
        return f"{self._prefix}-{next(self._numbers)}"

    def _take_back(self, call_id: str) -> None:
        """Report that a call which waits for its verdict, or has just got it, is not made."""
        with suppress(ServiceRefused):
            self._ask("end", {"call_id": call_id, "error": "not made: it was taken back"})
        with self._lock:
            self._open.pop(call_id, None)

    def _ask(self, verb: str, fields: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answer; None: there is none, and this was said. A service that ended is reached anew.

        Raises ServiceRefused for a request that it cannot use.
        """
        why: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if self._has_ended:  # a call that still waits must not begin it anew
                break
            try:
                connection, token = self._connected()
                return connection.ask(verb, {"token": token, **fields})
            except ServiceRefused as refused:
                why = refused
                if refused.status == _NO_VERDICTS:
                    break
                if refused.status != _UNKNOWN_TOKEN:
                    raise
                self._forget(connection)  # its lease ended, or another process serves now
            except OSError as gone:
                why = gone
                self._forget(None)
                time.sleep(_PAUSE_S * attempt)  # one that is being killed may accept connections for a moment
        if not self._is_told:
            self._is_told = True
            log.warning("haltline: %s: calls follow the fail policy: %s", self.session_id or "a session", why)
        return None

    def _connected(self) -> tuple[Link, str]:
        with self._lock:
            if self._connection is None:
                connection = self._reach(self._on_order)
                begins = self._begins | ({"session_id": self.session_id} if self.session_id else {})
                try:
                    begun = connection.ask("begin", begins)
                except BaseException:
                    connection.close()
                    raise
                self._connection, self._token, self.session_id = connection, begun["token"], begun["session_id"]
            return self._connection, self._token

    def _forget(self, connection: Link | None) -> None:
        with self._lock:
            if self._connection is not None and connection in {None, self._connection}:
                self._connection.close()
                self._connection = None

    def _verdict(self, call_id: str, args: dict[str, Any], answer: Mapping[str, Any]) -> Allowed | Denied:
        with self._lock:
            kept, self._kept = self._kept, []
        hints = "\n".join(filter(None, (*kept, answer.get("hints"))))
        if answer["answer"] not in _MADE:
            refused = _refused(answer)
            refused.hints = hints
            if answer["answer"] == "stop":
                raise refused
            return Denied.of(refused)
        with self._lock:
            self._open[call_id] = hints
        changes = Changes(answer.get("put", {}), tuple(answer.get("remove", ())))
        changed = changes.of(args)
        if self._changes_arguments or not changes:
            return Allowed(call_id, changed, changed=bool(changes))
        self.after(call_id, error="not made: other arguments were required")
        text = texts.not_changed(changed)
        return Denied(with_hints(text, hints), Refused(NOT_CHANGED, text))

    def _by_policy(self, call_id: str, name: str, args: Mapping[str, Any]) -> Allowed | Denied:
        if is_closed(name, dict(args), self._closed_from):
            return Denied.of(NOBODY.refusal())
        with self._lock:
            self._open[call_id] = ""
            self._unasked.add(call_id)
        return Allowed(call_id, dict(args))


def _outcome_of(error: BaseException) -> Outcome:
    if isinstance(error, ResultUnknown):
        return Outcome.UNKNOWN
    return Outcome.TIMEOUT if isinstance(error, TimeoutError) else Outcome.ERROR


def _refused(answer: Mapping[str, Any]) -> Refused:
    return Refused(str(answer.get("code", "")), str(answer.get("message", "")))


def encoded(fields: Mapping[str, Any]) -> bytes:
    """Return the fields as JSON; values that JSON does not have as their parts, or as texts."""
    try:
        return orjson.dumps(fields)
    except (TypeError, ValueError, RecursionError):
        return Whole(fields).json()[0]
