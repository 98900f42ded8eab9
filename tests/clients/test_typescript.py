import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from haltline.streams.local.subprocesses import Children
from tests.clients.typescript import CLIENT, require_built


@contextmanager
def intake(folder: Path, *options: str) -> Iterator[str]:
    """The address of `haltline intake`."""
    with Children(folder) as children:
        child = children.start_module("intake", "haltline.cli", ["intake", "--port", "0", "--budget", "20", *options])
        children.wait_until(lambda: "http://" in child.log_file.read_text(), "the intake to serve", within_s=60)
        yield next(line for line in child.log_file.read_text().splitlines() if line.startswith("http://"))


def test_the_package_passes_its_own_tests() -> None:
    require_built()
    done = subprocess.run(["npm", "test"], cwd=CLIENT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


TRANSPILE = """
import ts from "typescript";
import { readFileSync, writeFileSync } from "node:fs";
const [, file, url] = process.argv;
const [, program] = readFileSync("README.md", "utf8").match(/```ts\\n(.*?)```/s);
const script = ts.transpile(program, { target: "ES2023", module: "ESNext" });
writeFileSync(file, script.replace("http://127.0.0.1:8765", url));
"""
"""The first program of the page, as JavaScript."""


def said_by(*command: str) -> list[str]:
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_program_of_the_page_is_stopped_by_an_intake_that_needs_no_broker(tmp_path: Path) -> None:
    node = require_built()
    program = CLIENT / "build" / f"readme-{tmp_path.parent.name}.mjs"  # in the package, whose name it imports
    with intake(tmp_path, "--mode", "local") as url:
        try:
            said_by(node, "--input-type=module", "--eval", TRANSPILE, str(program), url)
            printed = said_by(node, str(program))
        finally:
            program.unlink(missing_ok=True)
    assert printed[:3] == ["fact_sales still exists", "fact_sales still exists", ""]
    assert printed[3].startswith("You have done this to asset_id=fact_sales before"), "the hint for the model"
    assert printed[-1].startswith("session_killed_loop_guard: This session was stopped.")


def test_the_package_has_its_types_and_nothing_of_its_tests() -> None:
    require_built()
    npm = shutil.which("npm")
    assert npm is not None
    done = subprocess.run(
        [npm, "pack", "--dry-run", "--json", "--ignore-scripts"], cwd=CLIENT, capture_output=True, text=True, check=True
    )
    (packed,) = json.loads(done.stdout)
    files = {file["path"] for file in packed["files"]}
    assert {"package.json", "README.md", "dist/index.js", "dist/index.d.ts", "dist/http.js"} <= files
    assert {file.split("/")[0] for file in files} <= {"package.json", "README.md", "LICENSE", "dist"}
    assert not [file for file in files if "test" in file.removeprefix("dist/testing")]
    assert not {name for name in os.listdir(CLIENT) if name.endswith(".tgz")}


def test_the_locked_packages_name_no_address() -> None:
    locked = json.loads((CLIENT / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert not {name for name, package in locked.items() if "resolved" in package}
    assert all("integrity" in package for name, package in locked.items() if name)
