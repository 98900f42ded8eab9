"""The machine of a measurement, and the speed of its processor at the time."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import orjson

_PACKAGES: Final = ("haltline", "confluent-kafka", "faust-streaming", "aiokafka", "pydantic", "msgspec", "orjson")
_ROOT: Final = Path(__file__).parents[2]
_KAFKA_POM: Final = _ROOT / "streams" / "local" / "pom.xml"
_CALIBRATION_ROUNDS: Final = 7
_CALIBRATION_STEPS: Final = 4_000
_DOCUMENT: Final = orjson.dumps({"id": "a" * 24, "list": list(range(20)), "nested": {"key": "value", "number": 1.5}})


def machine() -> dict[str, Any]:
    """Processor, memory, system, and the versions of all software involved; None if the system does not report it."""
    return {
        "cpu": _first_match("/proc/cpuinfo", r"(?m)^model name\s*: (.+)$") or platform.processor() or None,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory_bytes("MemTotal"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "distribution": _first_match("/etc/os-release", r'(?m)^PRETTY_NAME="?([^"\n]+)"?$'),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES}
        | {"librdkafka": confluent_kafka.libversion()[0], "kafka": kafka_version(), "java": _java()},
        "commit": _commit(),
    }


def kafka_version() -> str | None:
    """Return the version of the Kafka that the benchmarks start."""
    return _first_match(_KAFKA_POM, r"<artifactId>kafka_2\.13</artifactId>\s*<version>([\d.]+)<")


def calibration() -> float:
    """Processor time of a fixed piece of Python and JSON, in microseconds per step: the best of some rounds (70 ms).

    Every result contains it. Processor times of two runs are compared as multiples of it, because the same code takes
    longer on slower or shared cores.
    """
    return min(_timed(_steps) for _ in range(_CALIBRATION_ROUNDS)) * 1e6 / _CALIBRATION_STEPS


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _steps() -> int:
    counts: dict[str, int] = {}
    for number in range(_CALIBRATION_STEPS):
        read = orjson.loads(_DOCUMENT)
        key = f"{read['id']}-{number & 255}"
        counts[key] = counts.get(key, 0) + len(read["list"])
    return sum(counts.values())


def _memory_bytes(name: str) -> int | None:
    kib = _first_match("/proc/meminfo", rf"(?m)^{name}:\s+(\d+) kB$")
    return None if kib is None else int(kib) * 1024


def _first_match(file: str | Path, pattern: str) -> str | None:
    try:
        found = re.search(pattern, Path(file).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return found[1] if found else None


def _java() -> str | None:
    result = _said_by("java", "-version")
    return result.splitlines()[0] if result else None


def _commit() -> str | None:
    """Return the commit of the checkout, marked when it has local changes."""
    commit = _said_by("git", "-C", str(_ROOT), "rev-parse", "--short=12", "HEAD")
    changed = _said_by("git", "-C", str(_ROOT), "status", "--porcelain", "--untracked-files=no")
    return commit and commit + (" and changes" if changed else "")


def _said_by(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout + done.stderr).strip() or None
