"""An environment for each framework, in .venvs: their libraries do not fit together, nor beside our own tests'.

`python -m tests.conformance.environments [NAME ...]` makes those that are missing, or were made for other
requirements: haltline's own, those of its extra, and what deciding in the agent's process needs. Of frameworks in
JavaScript it is the package's own folder, which `make typescript` makes: what its lock file pins, and its build.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.clients.typescript import CLIENT, require_built
from tests.conformance.harness import BROWSERS, browser_program

ROOT: Final = Path(__file__).resolve().parents[2]
VENVS: Final = ROOT / ".venvs"
MAIN: Final = frozenset({"langchain", "mcp", "openai-agents"})
"""Adapters whose libraries are in .venv anyway."""
GATEWAYS: Final = {"litellm": ["litellm[proxy]"]}
"""What has no driver, and what its tests need besides: tests/streams/intake/test_litellm_proxy.py."""
PACKAGES: Final = {"typescript": CLIENT}
"""Adapters in JavaScript; their drivers run in .venv, and start Node in this folder."""
_LOCAL_MODE: Final = ("msgspec", "pyyaml")


def python_of(adapter: str) -> Path:
    """The interpreter that has the adapter's library."""
    return Path(sys.executable) if adapter in MAIN | PACKAGES.keys() else VENVS / adapter / "bin" / "python"


def requirements_of(adapter: str) -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_local_mode = [one for one in extras["processor"] if one.startswith(_LOCAL_MODE)]
    return [*project["dependencies"], *of_local_mode, *extras[adapter], *GATEWAYS.get(adapter, [])]


def stamp_of(adapter: str) -> str:
    return hashlib.sha256("\n".join([sys.version, *requirements_of(adapter)]).encode()).hexdigest()


def is_made(adapter: str) -> bool:
    stamp = VENVS / adapter / ".made-for"
    return adapter in MAIN or (stamp.is_file() and stamp.read_text() == stamp_of(adapter))


def require_environment(adapter: str) -> None:
    """Skip what cannot run without network, or without a browser, on a developer's machine; with CI=true a failure."""
    if adapter in PACKAGES:
        require_built()
        return
    if not is_made(adapter):
        why = f"expected .venvs/{adapter} for this pyproject.toml, got none; make environments"
    elif adapter == "browser-use" and browser_program() is None:
        why = f"expected a browser, one of {', '.join(BROWSERS)} on PATH; got none (Debian: apt install chromium)"
    else:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def make(adapter: str) -> None:
    """Raises CalledProcessError when a package cannot be had."""
    venv = VENVS / adapter
    uv = [sys.executable, "-m", "uv", "--quiet"]
    environ = os.environ | {"UV_SYSTEM_CERTS": "1"}
    if "PIP_INDEX_URL" in environ:  # whoever has set pip up means this as well
        environ.setdefault("UV_DEFAULT_INDEX", environ["PIP_INDEX_URL"])
    subprocess.run([*uv, "venv", "--clear", "--python", sys.executable, str(venv)], check=True, env=environ)
    install = [*uv, "pip", "install", "--python", str(venv / "bin" / "python"), *requirements_of(adapter)]
    subprocess.run(install, check=True, env=environ)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "haltline.pth").write_text(f"{ROOT / 'src'}\n{ROOT}\n", encoding="utf-8")
    (venv / ".made-for").write_text(stamp_of(adapter), encoding="utf-8")


def drivers() -> dict[str, str]:
    """The adapter of each driver, read as text: only the adapter's own environment can import it."""
    named = re.compile(r'^ADAPTER = "(.+)"$', re.MULTILINE)
    files = sorted((ROOT / "tests/conformance/drivers").glob("[a-z]*.py"))
    return {file.stem: found[1] for file in files if (found := named.search(file.read_text(encoding="utf-8")))}


def main() -> int:
    status = 0
    for adapter in sys.argv[1:] or sorted({*drivers().values(), *GATEWAYS} - PACKAGES.keys()):
        if is_made(adapter):
            continue
        began = time.monotonic()
        try:
            make(adapter)
            print(f".venvs/{adapter}: made in {time.monotonic() - began:.1f} s", flush=True)
        except subprocess.CalledProcessError as error:
            print(f".venvs/{adapter}: could not be made: {error}", file=sys.stderr)
            status = 1
    return status if os.environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main())
