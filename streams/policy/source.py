"""The policy source of a running worker: read at the start, then followed, from a file or the topic.

A document that cannot be used is refused, logged and counted, and the previous one stays in force. Documents are
checked in their own thread; the main path applies news between two micro-batches.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from confluent_kafka import KafkaException, Message

from haltline.detectors.framework.plugins import NO_PLUGINS, Plugins
from haltline.interventions.outage import Outage
from haltline.schemas.policy import Policy
from haltline.streams.engine.core import Core
from haltline.streams.engine.groups import Runs
from haltline.streams.kafka.client_settings import ClientSetting
from haltline.streams.kafka.log_reader import LogReader, NoSuchTopic, Unreachable
from haltline.streams.kafka.log_record import LogRecord, record_of
from haltline.streams.policy.loader import BadPolicy, in_vain, may_be_cut, parse_policy, read_file

DEFAULT_NAME: Final = Policy().name
LOOK_EVERY_S: Final = 1.0
"""The interval in seconds of checking a file. A changed file is read once it is unchanged for that long."""

_POLL_S = 0.5
_AGAIN_AFTER_S = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refusal:
    """A refused document: where, what was expected, what was given."""

    detail: str
    record: LogRecord | None = None
    """The record to keep; None for a file, which stays where it is."""


News = Core | Refusal
"""A new core that is in force from now on, or a refusal."""


class PolicySource(Protocol):
    """The source of a worker's policy."""

    core: Core
    """The core at the start."""

    def take(self) -> list[News]:
        """Return the news since the last call, oldest first. Thread-safe, and fast.

        Raises RuntimeError when the source can no longer be followed.
        """

    def close(self) -> None:
        """Stop following."""


class _Followed:
    """The common part of the sources: a thread that checks, and a queue of its news."""

    def __init__(self, plugins: Plugins, runs: Runs) -> None:
        self._plugins = plugins
        self._runs = runs
        self._news: deque[News] = deque()
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="policies", daemon=True)

    def take(self) -> list[News]:
        """Return the news since the last call, oldest first."""
        if self._failure is not None:
            raise RuntimeError(f"policies: expected to follow them, got {self._failure!r}") from self._failure
        return [self._news.popleft() for _ in range(len(self._news))]

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._look()
        except BaseException as failure:
            self._failure = failure

    def _look(self) -> None:
        raise NotImplementedError

    def _accept(self, policy: Policy, source: str) -> None:
        self._news.append(self._core(policy))
        log.info("policy: %s version %d is in force from now on (%s)", policy.name, policy.version, source)

    def _core(self, policy: Policy) -> Core:
        for line in in_vain(policy, self._plugins):
            log.warning("policy: %s version %d: %s", policy.name, policy.version, line)
        return Core(policy, self._plugins, runs=self._runs)

    def _refuse(self, detail: str, record: LogRecord | None = None) -> None:
        self._news.append(Refusal(detail, record))
        log.error("policy: refused, the previous one stays in force: %s", detail)


class PolicyFile(_Followed):
    """A policy document on disk, read again after a change, or when `look` is called."""

    def __init__(self, path: Path, plugins: Plugins = NO_PLUGINS, runs: Runs = Runs.ALL) -> None:
        """Read the file; its rules may refer to detectors of `plugins`.

        Raises:
            BadPolicy: it cannot be used.
            OSError: it cannot be read.

        """
        super().__init__(plugins, runs)
        self._path = path
        self._wake = threading.Event()
        self._read = self._seen = self._stat()
        text = read_file(path)
        self._ends = not may_be_cut(text)
        """Whether the current text ends as a complete document does: then one that does not was truncated."""
        self.core = self._core(parse_policy(text, str(path), plugins))
        self._thread.start()

    def look(self) -> None:
        """Read it again at once, changed or not. Safe in a signal handler."""
        self._wake.set()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def _look(self) -> None:
        woken = self._wake.wait(LOOK_EVERY_S)
        self._wake.clear()
        before, self._seen = self._seen, self._stat()
        if self._stop.is_set() or not (woken or before == self._seen != self._read):
            return  # unchanged, or still being written
        self._read = self._seen
        try:
            text = read_file(self._path)
            policy = parse_policy(text, str(self._path), self._plugins)
            if self._ends and may_be_cut(text):
                raise BadPolicy(  # noqa: TRY301  # one way out
                    f"{self._path}:{text.count(chr(10)) + 1}: expected a line break at the end, as before, got none: "
                    "it may have been cut while it was saved"
                )
            self._accept(policy, str(self._path))
        except (BadPolicy, OSError) as bad:
            self._refuse(str(bad))

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_size, stat.st_mtime_ns


class PolicyTopic(_Followed):
    """The documents of one name on the compacted topic; the defaults if there are none."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        name: str = DEFAULT_NAME,
        plugins: Plugins = NO_PLUGINS,
        runs: Runs = Runs.ALL,
        *,
        client: Mapping[str, ClientSetting] | None = None,
        fetch_wait_ms: int = 500,
    ) -> None:
        """Read the topic to its end; the rules may refer to detectors of `plugins`.

        Raises:
            BadPolicy: there are documents of this name, but no usable one.
            Unreachable, NoSuchTopic: the topic cannot be read.

        """
        super().__init__(plugins, runs)
        self._name = name
        self._open: Callable[[], LogReader] = partial(
            LogReader, bootstrap, [topic], client=client, fetch_wait_ms=fetch_wait_ms
        )
        self._seen = -1
        """The offset of the last record of this name; all of them are in one partition."""
        self._outage = Outage(log, "policy: the topic")
        self._reader: LogReader | None = self._open()
        try:
            self.core = self._first(self._reader)
        except BaseException:
            self._reader.close()
            raise
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        self._thread.join()
        if self._reader is not None:
            self._reader.close()

    def _first(self, reader: LogReader) -> Core:
        policy: Policy | None = None
        refused: BadPolicy | None = None
        for message in reader.to_end():
            record = _record(message)
            if record.key == self._name.encode():
                self._seen = record.offset
                try:
                    policy, refused = policy_of(record, self._name, self._plugins), None
                except BadPolicy as bad:
                    refused = bad
                    log.warning("policy: skipped at the start: %s", bad)
        if refused is not None and policy is None:
            raise refused
        return self._core(policy or Policy(name=self._name))

    def _look(self) -> None:
        try:
            if self._reader is None:
                self._reader = self._open()  # from the beginning: the topic is short
            message = self._reader.poll(_POLL_S)
            self._outage.back()
        except (KafkaException, Unreachable, NoSuchTopic) as failed:
            self._outage.away(f"{failed}; tries again, the policy stays in force")
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            self._stop.wait(_AGAIN_AFTER_S)
            return
        if message is None or message.key() != self._name.encode():
            return
        record = _record(message)
        if record.offset <= self._seen:
            return
        self._seen = record.offset
        try:
            self._accept(
                policy_of(record, self._name, self._plugins), f"{record.topic} {record.partition}:{record.offset}"
            )
        except BadPolicy as bad:
            self._refuse(str(bad), record)


def policy_of(record: LogRecord, name: str, plugins: Plugins) -> Policy:
    """Return the policy in a record of this name; the defaults if the record removes it. Raises BadPolicy."""
    source = f"{record.topic} {record.partition}:{record.offset}"
    if record.value is None:
        return Policy(name=name)
    try:
        policy = parse_policy(record.value.decode(), source, plugins)
    except UnicodeDecodeError as error:
        raise BadPolicy(f"{source}: expected UTF-8 text, got {error}") from None
    if policy.name != name:
        raise BadPolicy(f"{source}:1: name: expected {name!r} as the record's key says, got {policy.name!r}")
    return policy


def current(bootstrap: str, topic: str, *, client: Mapping[str, ClientSetting] | None = None) -> dict[str, LogRecord]:
    """Return the last record of each name on the topic, without removed ones. Raises Unreachable, NoSuchTopic."""
    found: dict[str, LogRecord] = {}
    with LogReader(bootstrap, [topic], client=client) as reader:
        for message in reader.to_end():
            record = _record(message)
            name = (record.key or b"").decode(errors="replace")
            found.pop(name, None)
            if record.value is not None:
                found[name] = record
    return found


def _record(message: Message) -> LogRecord:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    record = record_of(message)
    return record if record.timestamp else record._replace(timestamp=time.time_ns() // 1_000_000)
