import json
import os
from pathlib import Path

from tests.clients.typescript import CLIENT, require_built
from tests.programs import intake, printed


def test_the_package_passes_its_own_tests() -> None:
    require_built()
    printed("npm", "test", cwd=CLIENT, timeout=600)


TRANSPILE = """
import ts from "typescript";
import { readFileSync, writeFileSync } from "node:fs";
const [, file, url] = process.argv;
const [, program] = readFileSync("README.md", "utf8").match(/```ts\\n(.*?)```/s);
const script = ts.transpile(program, { target: "ES2023", module: "ESNext" });
writeFileSync(file, script.replace("http://127.0.0.1:8765", url));
"""
"""The first program of the page, as JavaScript."""


def test_the_program_of_the_page_is_stopped_by_an_intake_that_needs_no_broker(tmp_path: Path) -> None:
    node = require_built()
    program = CLIENT / "build" / f"readme-{tmp_path.parent.name}.mjs"  # in the package, whose name it imports
    with intake("--mode", "local") as url:
        try:
            printed(node, "--input-type=module", "--eval", TRANSPILE, program, url, cwd=CLIENT)
            lines = printed(node, program, cwd=CLIENT).splitlines()
        finally:
            program.unlink(missing_ok=True)
    assert lines[:3] == ["fact_sales still exists", "fact_sales still exists", ""]
    assert lines[3].startswith('You have already done this to "asset_id=fact_sales"'), "the hint for the model"
    assert lines[-1].startswith("haltline stopped this session at ")


def test_the_package_has_its_types_and_nothing_of_its_tests() -> None:
    require_built()
    (packed,) = json.loads(printed("npm", "pack", "--dry-run", "--json", "--ignore-scripts", cwd=CLIENT))
    files = {file["path"] for file in packed["files"]}
    assert {"package.json", "README.md", "dist/index.js", "dist/index.d.ts", "dist/service.js"} <= files
    assert {file.split("/")[0] for file in files} <= {"package.json", "README.md", "LICENSE", "dist"}
    assert not [file for file in files if "test" in file.removeprefix("dist/testing")]
    assert not {name for name in os.listdir(CLIENT) if name.endswith(".tgz")}
