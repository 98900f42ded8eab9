"""Options and exit codes that the benchmarks' commands share."""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from haltline.streams.local.kafka_jars import LocalKafkaError


def options(command: str, description: str | None, example: str) -> argparse.ArgumentParser:
    """A parser for `python -m COMMAND` without options; `example`: possible arguments."""
    return argparse.ArgumentParser(
        prog=f"python -m {command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: python -m {command} {example}",
    )


def run(main: Callable[[], int]) -> NoReturn:
    """End the process with the exit code of `main`; 1 without a local Kafka, 130 after Ctrl-C."""
    try:
        sys.exit(main())
    except LocalKafkaError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
