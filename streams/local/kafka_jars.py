"""The installation of Kafka's jars by Maven, and Java commands that use them."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

_POM = files("haltline.streams.local") / "pom.xml"
_FETCH_WITHIN_S = 600.0
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

BRIEF: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for a short process, for which more optimization does not pay."""


class LocalKafkaError(RuntimeError):
    """Kafka could not be fetched, started or stopped; the message says what was missing or logged."""


def missing_tools(pom: Traversable = _POM) -> list[str]:
    """Return what must be installed before Kafka can run here; empty if nothing is missing."""
    missing = []
    if shutil.which("java") is None:
        missing.append("java (17 or newer: openjdk-17-jre-headless on Debian, temurin or openjdk elsewhere)")
    if shutil.which("mvn") is None and not _jars_folder(pom).is_dir():
        missing.append("mvn (package maven), to fetch Kafka's jars once")
    return missing


def fetch(pom: Traversable = _POM) -> Path:
    """Return the folder of a pom's jars, by default Kafka's; Maven fetches them on the first call (43 MB, seconds).

    In a checkout that is a folder under `.kafka/libs`, else under `~/.cache/haltline/kafka`, named after the pom's
    content, so that another version is another folder. Raises LocalKafkaError when Java or Maven is missing, or Maven
    fails.
    """
    if missing := missing_tools(pom):
        raise LocalKafkaError(f"Kafka: expected {' and '.join(missing)}; got no such command on PATH")
    folder = _jars_folder(pom)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as scratch:
        copy = Path(scratch, "pom.xml")
        copy.write_bytes(pom.read_bytes())
        jars = Path(scratch, "jars")
        run_to_end(
            ["mvn", "-q", "-B", "-f", str(copy), f"{_PLUGIN}:copy-dependencies", f"-DoutputDirectory={jars}"],
            what="fetch of Kafka's jars",
            within_s=_FETCH_WITHIN_S,
        )
        try:
            jars.rename(folder)  # atomic: an existing folder is complete
        except OSError:
            if not folder.is_dir():  # no other process has created it meanwhile
                raise
    return folder


def classes_of(jars: Path) -> Path:
    """Return the path of Kafka's stored classes, which may not exist."""
    return jars.with_suffix(".jsa")


def java(jars: Path, *options: str) -> list[str]:
    """Return the start of a command that runs a class of these jars."""
    archive = classes_of(jars)
    kept = [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
    return ["java", *kept, *options, "-cp", f"{jars}/*"]


def _jars_folder(pom: Traversable = _POM) -> Path:
    repository = Path(__file__).resolve().parents[2]
    if (repository / "pyproject.toml").is_file():
        cache = repository / ".kafka" / "libs"
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "haltline" / "kafka"
    return cache / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]


def run_to_end(command: Sequence[str], *, what: str, within_s: float) -> None:
    """Run a short command. Raises LocalKafkaError with its last lines when it fails or times out."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=within_s, check=False)
    except subprocess.TimeoutExpired as late:
        raise LocalKafkaError(
            f"{what}: expected it done within {within_s:.0f} s, got no end of: {' '.join(command)}"
        ) from late
    if done.returncode != 0:
        output = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).splitlines()[-15:])
        raise LocalKafkaError(f"{what}: {' '.join(command)} ended with status {done.returncode}:\n{output}")
