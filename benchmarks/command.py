"""The options' texts and the exit codes shared by the benchmarks' commands."""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from haltline.streams.local.kafka_jars import LocalKafkaError


def options(command: str, description: str | None, example: str) -> argparse.ArgumentParser:
    """The options of `python -m COMMAND`, none yet; `example` is what may follow it."""
    return argparse.ArgumentParser(
        prog=f"python -m {command}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"example: python -m {command} {example}",
    )


def run(main: Callable[[], int]) -> NoReturn:
    """Ends the process with the code that `main` returns; 1 where there is no local Kafka, 130 after Ctrl-C."""
    try:
        sys.exit(main())
    except LocalKafkaError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
