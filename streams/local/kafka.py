"""A real Kafka on this machine without a container engine: one Java process.

One node that is broker and controller, on loopback, for developer machines, the tests and the benchmarks. `haltline
kafka` runs it in the foreground; `python -m haltline.streams.local.kafka` only fetches it.
"""

import base64
import logging
import random
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import IO, Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from haltline.schemas.topics import Topics
from haltline.streams.kafka.topics import create_topics
from haltline.streams.local.kafka_jars import BRIEF, LocalKafkaError, classes_of, fetch, java, run_to_end
from haltline.streams.local.subprocesses import interruptible

DEFAULT_PORT: Final = 9092
DEFAULT_PARTITIONS: Final = 4

_PROPERTIES = files("haltline.streams.local") / "server.properties"

_FORMAT_WITHIN_S = 120.0
_ANSWER_WITHIN_S = 120.0
_STOP_WITHIN_S = 60.0
_POLL_S = 0.1

# Below the ephemeral ports of the system (from 32768 on Linux, 49152 on macOS). A client
# that keeps dialling such a port while the broker restarts can connect to itself, and then
# the broker cannot have its port back.
_FREE_PORTS = range(10_000, 32_768)

_log = logging.getLogger(__name__)


def remember_classes(jars: Path) -> None:
    """Store Kafka's classes as parsed by Java, which halves the work of every later start.

    Takes one start and stop. Raises LocalKafkaError as they do; Java itself skips what it cannot use.
    """
    archive = classes_of(jars)
    if archive.is_file():
        return
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix=".fetching-") as scratch:
        kept = Path(scratch, archive.name)
        with LocalKafka(Path(scratch, "data"), jars=jars, java_options=[f"-XX:ArchiveClassesAtExit={kept}"]):
            pass
        if kept.is_file():
            kept.rename(archive)


class LocalKafka:
    """One Kafka node on loopback with a data folder of its own.

    Nothing runs before `start` (or the `with` block). `port` None takes a free one, and keeps it over restarts.
    `partitions` is the default for topics. Kafka's log is `data_dir/kafka.log`. A new folder is formatted; one with
    data is used unchanged. One folder serves one node at a time. `properties` are added at the end of its
    server.properties and so take precedence; $port, $controller_port and $log_dir are replaced. `java_options` are
    Java's own.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        jars: Path | None = None,
        partitions: int = DEFAULT_PARTITIONS,
        properties: str = "",
        java_options: Sequence[str] = (),
    ) -> None:
        self._properties = properties
        self._java_options = java_options
        self.data_dir = data_dir.absolute()
        self.port = free_port() if port is None else port
        self.log_file = self.data_dir / "kafka.log"
        self._jars = jars
        self._partitions = partitions
        self._java: subprocess.Popen[bytes] | None = None
        self._log_begins_at = 0

    @property
    def bootstrap(self) -> str:
        """The address for clients, "127.0.0.1:port"."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running Java. Raises LocalKafkaError when Kafka is not started."""
        return self._started().pid

    def start(self) -> Self:
        """Start Kafka and wait until it answers.

        Raises LocalKafkaError with what Kafka logged when it dies or does not answer in time.
        """
        if self._java is not None:
            raise LocalKafkaError(f"Kafka at {self.bootstrap}: expected it stopped, got one that was started")
        jars = self._jars = self._jars or fetch()
        if not _is_free(self.port):
            raise LocalKafkaError(f"Kafka: expected port {self.port} of 127.0.0.1 free, got one in use")
        self._log_begins_at = self.log_file.stat().st_size if self.log_file.exists() else 0
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with (self.data_dir / "lock").open("wb") as lock, self.log_file.open("ab") as log:
            self._lock(lock)
            properties = self._prepare_data_dir(jars)
            self._java = subprocess.Popen(
                [
                    *java(jars, "-Xms512m", "-Xmx1G", "-Dlog4j2.level=INFO", *self._java_options),
                    *("kafka.Kafka", str(properties)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[lock.fileno()],  # Java holds the lock from here on, and its end releases it
                start_new_session=True,  # only we receive Ctrl-C, and stop Kafka in order
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self._kill()
            raise
        return self

    def stop(self, *, within_s: float = _STOP_WITHIN_S) -> None:
        """Stop Kafka in order; kill it, and log a warning, when that takes too long."""
        java = self._started()
        java.terminate()
        try:
            java.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            _log.warning(
                "Kafka at %s: expected it to stop within %.0f s of SIGTERM, got nothing; killed it. Its log: %s",
                *(self.bootstrap, within_s, self.log_file),
            )
        finally:
            self._kill()

    def kill(self) -> None:
        """End Kafka at once with SIGKILL, like a crash; acknowledged records are in its files."""
        self._started()
        self._kill()

    def restart(self, *, hard: bool = False) -> None:
        """Stop Kafka, in order or `hard` by SIGKILL, and start it on the same port and data."""
        if hard:
            self.kill()
        else:
            self.stop()
        self.start()

    def wait(self) -> None:
        """Wait while Kafka runs. Raises LocalKafkaError with what it logged when it ends by itself."""
        status = self._started().wait()
        raise LocalKafkaError(f"Kafka at {self.bootstrap} ended with status {status}.\n{self._log_excerpt()}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._java is not None:
            self.stop()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._java is None:
            raise LocalKafkaError(f"Kafka at {self.bootstrap}: expected one that was started, got none")
        return self._java

    def _kill(self) -> None:
        if self._java is not None:
            self._java.kill()  # a no-op if it has ended
            self._java.wait()
            self._java = None

    def _lock(self, file: IO[bytes]) -> None:
        """Lock the folder for one node.

        Kafka's own lock comes too late: a second node in the folder writes to the cluster's metadata before it notices,
        and the first never recovers.
        """
        import fcntl  # noqa: PLC0415 - not on Windows, where the command line can still be imported

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalKafkaError(
                f"Kafka: expected the data folder {self.data_dir} for itself, got another Kafka that uses it"
            ) from None

    def _prepare_data_dir(self, jars: Path) -> Path:
        """Write the properties of this start, and format the folder when it is new."""
        log_dir = self.data_dir / "log"
        log_dir.mkdir(parents=True, exist_ok=True)
        properties = self.data_dir / "server.properties"
        properties.write_text(
            Template(_PROPERTIES.read_text(encoding="utf-8") + self._properties).substitute(
                name="$name",
                port=self.port,
                controller_port=free_port(),
                log_dir=str(log_dir).replace("\\", "\\\\"),
                partitions=self._partitions,
            ),
            encoding="utf-8",
        )
        if not (log_dir / "meta.properties").exists():
            cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            run_to_end(
                [
                    *java(jars, *BRIEF),
                    *("kafka.tools.StorageTool", "format", "--standalone"),
                    *(f"--cluster-id={cluster_id}", "-c", str(properties)),
                ],
                what=f"format of Kafka's data folder {log_dir}",
                within_s=_FORMAT_WITHIN_S,
            )
        return properties

    def _wait_until_it_answers(self) -> None:
        java = self._started()
        admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=_log)
        deadline = time.monotonic() + _ANSWER_WITHIN_S
        while not self._answers(admin):
            if java.poll() is not None:
                raise LocalKafkaError(
                    f"Kafka at {self.bootstrap}: expected it to start, got its end with status "
                    f"{java.returncode}.\n{self._log_excerpt()}"
                )
            if time.monotonic() > deadline:
                raise LocalKafkaError(
                    f"Kafka at {self.bootstrap}: expected an answer within {_ANSWER_WITHIN_S:.0f} s of its "
                    f"start, got none.\n{self._log_excerpt()}"
                )

    def _answers(self, admin: AdminClient) -> bool:
        if _is_free(self.port):  # not listening yet; librdkafka's own retries back off and are slower
            time.sleep(_POLL_S)
            return False
        try:
            metadata = admin.list_topics(timeout=1.0)
        except KafkaException:
            return False
        return metadata.controller_id in metadata.brokers

    def _log_excerpt(self) -> str:
        """Return the errors that this start logged, or else its last lines."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_begins_at)
            lines = log.read().decode(errors="replace").splitlines()
        errors = [line for line in lines if "ERROR" in line or "FATAL" in line or "Exception" in line]
        excerpt = errors[:15] or lines[-15:] or ["(nothing was logged)"]
        return "\n".join([f"From {self.log_file}:", *(f"  {line}" for line in excerpt)])


def free_port() -> int:
    """Return a free port of loopback. Raises LocalKafkaError when there is none."""
    for port in random.sample(_FREE_PORTS, k=200):
        if _is_free(port):
            return port
    raise LocalKafkaError(f"Kafka: expected a free port in {_FREE_PORTS}, got 200 in use")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Like Kafka: connections that were just closed do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def run_foreground(data_dir: Path, port: int = DEFAULT_PORT, partitions: int = DEFAULT_PARTITIONS) -> None:
    """Run Kafka with haltline's topics until Ctrl-C or SIGTERM, and stop it in order.

    Prints its progress. Raises LocalKafkaError when Kafka cannot be started, or ends by itself.
    """
    try:
        print("Fetching Kafka's jars (only the first time takes a while) and starting it ...", flush=True)
        with interruptible(), LocalKafka(data_dir, port, partitions=partitions) as kafka:
            reports = create_topics(
                AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=_log), Topics(), partitions, 1
            )
            for difference in (difference for report in reports for difference in report.differences):
                print(f"warning: {difference}", flush=True)
            print(f"Kafka answers at {kafka.bootstrap} with {len(reports)} topics of haltline.", flush=True)
            print(f"Data: {kafka.data_dir}   Log: {kafka.log_file}", flush=True)
            print("Ctrl-C (or SIGTERM to this process) stops it; the data stays.", flush=True)
            kafka.wait()
    except KeyboardInterrupt:
        print("\nKafka is stopped.", flush=True)


def main() -> int:
    """Fetch Kafka's jars, and store its classes. Returns the exit code."""
    try:
        jars = fetch()
        remember_classes(jars)
    except LocalKafkaError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Kafka's jars are in {jars}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
