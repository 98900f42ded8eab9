"""A count per session in Kafka Streams: a JVM stream processor on the same topic."""

import shutil
from pathlib import Path
from typing import Final

from haltline.streams.local.kafka_jars import fetch

_FOLDER: Final = Path(__file__).parent
SOURCE: Final = _FOLDER / "CountSessions.java"
POM: Final = _FOLDER / "pom.xml"


def jars() -> Path:
    """The folder with its jars; fetched by Maven on the first call (100 MB). Raises LocalKafkaError."""
    return fetch(POM)


def missing() -> str:
    """The reason why it cannot run here; empty if it can."""
    return "" if shutil.which("javac") else "no javac on PATH (a JDK, 17 or newer)"
