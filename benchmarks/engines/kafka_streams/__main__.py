"""Compiles the program and execs it, so that its processor time and memory are those of this process."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.engines.kafka_streams import SOURCE, jars
from haltline.schemas.topics import Topics


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--group", required=True)
    args = parser.parse_args(arguments)
    scratch = tempfile.mkdtemp(prefix="kafka-streams-")
    classes = f"{jars()}/*"
    subprocess.run(["javac", "-cp", classes, "-d", scratch, str(SOURCE)], check=True)
    program = ["java", "-cp", f"{scratch}:{classes}", "CountSessions"]
    program += [args.bootstrap, Topics(args.prefix).actions, args.group, f"{scratch}/state"]
    os.execvp(program[0], program)


if __name__ == "__main__":
    sys.exit(main())
