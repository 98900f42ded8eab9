"""`make explore`: property tests with new random seeds and more examples than `make test` has, until time is over.

Each round has one seed for all tests; the first round with a failure is the last one.
"""

import argparse
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit code: that of the first round that fails, or 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="no round begins after this time (10)")
    args, of_pytest = parser.parse_known_args(words)
    over_s = time.monotonic() + 60 * args.minutes
    number = 0
    while number == 0 or time.monotonic() < over_s:
        number += 1
        seed = f"--hypothesis-seed={secrets.randbits(64)}"
        command = ["-m", "pytest", "--hypothesis-profile=explore", seed]
        print(f"round {number}: {seed}", flush=True)
        code = subprocess.run([sys.executable, *command, "-m", "hypothesis", *of_pytest], check=False).returncode
        if code:
            print(f"again: {shlex.join(['python', *command])} TEST", flush=True)
            return code
    print(f"{number} rounds found nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
