"""An environment for each framework, in .venvs: their libraries do not fit together, nor beside our own tests'.

`python -m tests.conformance.environments [NAME ...]` makes those that are missing, or were made of another lock:
`locks/frameworks/NAME.txt` (tests/locks.py). Of frameworks in JavaScript it is the package's own folder, which
`make typescript` makes: what its lock file pins, and its build.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browsers import NO_BROWSER, program
from tests.clients.typescript import CLIENT, require_built
from tests.locks import ADDED, IN_DEVELOPMENT, NEWEST, ROOT, adapters, lock_of, requirements_of, uv
from tests.programs import missing

VENVS: Final = ROOT / (".venvs-newest" if NEWEST else ".venvs")
GATEWAYS: Final = tuple(ADDED)
"""Environments without a driver, for tests/streams/intake/test_litellm_proxy.py."""
PACKAGES: Final = {"typescript": CLIENT}
"""Adapters in JavaScript; their drivers run in .venv, and start Node in this folder."""
OWN: Final = "haltline"
"""The adapter of drivers that have no framework: a program that asks the guard, or the local service, itself."""
EVERYDAY: Final = IN_DEVELOPMENT | PACKAGES.keys() | {OWN}
"""Adapters that need no environment of their own: what they show is enough for every day, and the others are `wide`."""
SAME_ADAPTER: Final = ("langgraph", "langgraph_js", "openai_agents_js", "service_http")
"""Drivers that are `wide` too: another driver of every day has their adapter, package or verbs."""
_AT_A_TIME: Final = 4
"""Environments that are made beside each other: uv waits for the network and the disk, and runs no Python."""


def python_of(adapter: str) -> Path:
    """The interpreter that has the adapter's library."""
    return Path(sys.executable) if adapter in EVERYDAY else VENVS / adapter / "bin" / "python"


def case_of(adapter: str, *values: object, **options: Any) -> Any:
    """A parameter set of a test about this adapter, `wide` unless it is one of every day."""
    is_wide = adapter not in EVERYDAY or any(value in SAME_ADAPTER for value in values)
    return pytest.param(*values, marks=pytest.mark.wide if is_wide else (), **options)


def stamp_of(adapter: str) -> str:
    contents = "\n".join(requirements_of(adapter)) if NEWEST else lock_of(adapter).read_text(encoding="utf-8")
    return hashlib.sha256(f"{sys.version}\n{contents}".encode()).hexdigest()


def is_made(adapter: str) -> bool:
    stamp = VENVS / adapter / ".made-for"
    return adapter in IN_DEVELOPMENT | {OWN} or (stamp.is_file() and stamp.read_text() == stamp_of(adapter))


def require_environment(adapter: str) -> None:
    """Skip what cannot run without network, or without a browser."""
    if adapter in PACKAGES:
        require_built()
        return
    if not is_made(adapter):
        missing(f"expected {VENVS.name}/{adapter} of locks/frameworks/{adapter}.txt, got none; make environments")
    if adapter == "browser-use" and program() is None:
        missing(NO_BROWSER)


def make(adapter: str) -> None:
    """Raises CalledProcessError when a package cannot be had."""
    venv = VENVS / adapter
    what = (
        requirements_of(adapter)
        if NEWEST
        else ["--no-deps", "--require-hashes", "--requirements", str(lock_of(adapter))]
    )
    uv("venv", "--clear", "--python", sys.executable, venv)
    uv("pip", "install", "--python", venv / "bin" / "python", *what)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "haltline.pth").write_text(f"{ROOT / 'src'}\n{ROOT}\n", encoding="utf-8")
    (venv / ".made-for").write_text(stamp_of(adapter), encoding="utf-8")


def drivers() -> dict[str, str]:
    """The adapter of each driver, read as text: only the adapter's own environment can import it."""
    named = re.compile(r'^ADAPTER = "(.+)"$', re.MULTILINE)
    files = sorted((ROOT / "tests/conformance/drivers").glob("[a-z]*.py"))
    return {file.stem: found[1] for file in files if (found := named.search(file.read_text(encoding="utf-8")))}


def _made(adapter: str) -> bool:
    began = time.monotonic()
    try:
        make(adapter)
    except subprocess.CalledProcessError as error:
        print(f"{VENVS.name}/{adapter}: could not be made: {error}", file=sys.stderr)
        return False
    print(f"{VENVS.name}/{adapter}: made in {time.monotonic() - began:.1f} s", flush=True)
    return True


def main() -> int:
    wanted = [adapter for adapter in sys.argv[1:] or adapters() if not is_made(adapter)]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        all_made = all(list(pool.map(_made, wanted)))
    return 0 if all_made or os.environ.get("CI") != "true" else 1


if __name__ == "__main__":
    sys.exit(main())
