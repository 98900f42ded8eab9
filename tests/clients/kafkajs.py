"""Node's binding of librdkafka in .tools/kafkajs, which the TypeScript client over Kafka is tested with.

`python -m tests.clients.kafkajs` (`make kafkajs`) installs what locks/kafkajs names, unless it is there. Where its
binary cannot be fetched it is built, some two minutes of a processor: that takes a C++ compiler, and Debian's
libcurl4-openssl-dev libssl-dev libsasl2-dev zlib1g-dev libzstd-dev.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.programs import missing
from tests.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / ".tools/kafkajs"
BUILDING: Final = ROOT / ".tools/building-kafkajs"
NAME: Final = "@confluentinc/kafka-javascript"
LOCK: Final = ROOT / "locks/kafkajs"
_FETCH_WITHIN_S: Final = 60
_BUILD_WITHIN_S: Final = 1800


def is_made() -> bool:
    stamp = FOLDER / ".made-for"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == _stamp()


def require_kafkajs() -> Path:
    """The folder for NODE_PATH."""
    if BUILDING.exists():
        wait_until(lambda: not BUILDING.exists(), "Node's binding of librdkafka is built", deadline_s=_BUILD_WITHIN_S)
    if not is_made():
        missing(f"expected {NAME} for this Node.js in .tools/kafkajs, got none; make kafkajs")
    return FOLDER / "node_modules"


def make() -> None:
    """Raises CalledProcessError or TimeoutExpired when it cannot be had, and FileNotFoundError without npm."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file in LOCK.glob("package*.json"):
        shutil.copy(file, FOLDER)
    _run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
    package = FOLDER / "node_modules" / NAME
    if not _is_fetched(package):
        print(f"{NAME}: its binary cannot be fetched here, and is built", flush=True)
        _build(package)
    shutil.rmtree(package / "build/Release/obj.target", ignore_errors=True)  # 200 MB that nobody needs
    shutil.rmtree(package / "deps", ignore_errors=True)
    _run("node", "-e", f"require('{NAME}')")
    (FOLDER / ".made-for").write_text(_stamp(), encoding="utf-8")


def _is_fetched(package: Path) -> bool:
    fetch = [str(FOLDER / "node_modules/.bin/node-pre-gyp"), "install"]
    try:
        done = subprocess.run(fetch, cwd=package, check=False, capture_output=True, timeout=_FETCH_WITHIN_S)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _build(package: Path) -> None:
    npm = Path(shutil.which("npm") or "npm").resolve()
    gyp = next((folder / "node_modules/node-gyp/bin/node-gyp.js" for folder in npm.parents if _has_gyp(folder)), None)
    node = Path(shutil.which("node") or "node").resolve().parents[1]
    # The headers of the Node.js that runs, where they are installed; else node-gyp fetches them.
    headers = [f"--nodedir={node}"] if (node / "include/node/node.h").is_file() else []
    command = ["node", str(gyp)] if gyp is not None else ["node-gyp"]
    environ = os.environ | {"CKJS_LINKING": "dynamic", "MAKEFLAGS": f"-j{os.cpu_count() or 1}"}
    for step in (
        # Its own makefile begins with these as well, with as many jobs at a time as there are files, and some of them
        # do not wait for the first one's result.
        ["node", "util/configure"],
        ["make", "-C", "deps/librdkafka", "libs"],
        [*command, "rebuild", "--loglevel=error", *headers],
    ):
        done = subprocess.run(
            step, cwd=package, check=False, env=environ, timeout=_BUILD_WITHIN_S, capture_output=True, text=True
        )
        if done.returncode:
            print(done.stderr[-4000:], file=sys.stderr)
            done.check_returncode()


def _has_gyp(folder: Path) -> bool:
    return (folder / "node_modules/node-gyp/bin/node-gyp.js").is_file()


def _stamp() -> str:
    node = shutil.which("node")
    if node is None:
        return "no Node.js"
    said = subprocess.run([node, "-p", "process.versions.modules"], check=True, capture_output=True, text=True)
    locked = hashlib.sha256((LOCK / "package-lock.json").read_bytes()).hexdigest()
    return f"{locked}, ABI {said.stdout.strip()}\n"


def _run(*command: str) -> None:
    subprocess.run(command, cwd=FOLDER, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    if is_made():
        return 0
    try:
        make()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, FileNotFoundError) as error:
        print(f"{NAME}: {error}; tests of the TypeScript client over Kafka are skipped", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
