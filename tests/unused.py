"""What nothing uses: `python -m tests.unused`, a part of `make check`.

Functions, classes, methods and attributes by vulture, over everything, and over everything but the tests: what only
tests use is unused, too. Then modules that nothing imports or runs, and metrics and settings that nothing names. Fields
of records, which vulture takes for variables, are formats and are left out; unused imports and local variables are
ruff's.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from vulture import Vulture

from haltline.cli.settings_table import SETTINGS
from haltline.streams.runtime.metrics import METRICS

ROOT: Final = Path(__file__).resolve().parents[1]
PRODUCT: Final = (
    "cli", "console", "detectors", "interventions", "schemas", "streams", "src", "benchmarks", "docs", "examples",
)  # fmt: skip
EVERYTHING: Final = (*PRODUCT, "tests")

REGISTERED: Final = (
    "@*.command*", "@*.callback*", "@*.get*", "@*.post*", "@*.delete*", "@*.exception_handler*", "@*.middleware*",
    "@*.agent*", "@*validator*", "@*serializer*", "@pytest.*", "@rule*", "@invariant*", "@initialize*", "@case*",
    "@own*", "@family*",
)  # fmt: skip
"""Decorators whose functions are called by what they register with: commands, routes, models, tests, cases."""


class Allowed(NamedTuple):
    """Names that something uses which vulture does not see."""

    files: str
    names: str
    """A regular expression."""
    reason: str


ALLOWED: Final = (
    Allowed("*", r"do_[A-Z]+|log_message|daemon_threads|should_exit", "http.server and uvicorn call and read them"),
    Allowed("*", r"_value_|__\w+__", "Python calls and reads them"),
    Allowed("*", r"row_factory|text_factory|follow_redirects|dont_write_bytecode|unraisablehook", "a library reads it"),
    Allowed("cli/*", r"rich_help_panel|overflow|no_wrap", "typer and rich read them"),
    Allowed("cli/*", r"doctor|demo|undo", "the command: cli/app.py has the name of its module"),
    Allowed("docs/hooks.py", r"on_\w+", "mkdocs calls it"),
    Allowed("streams/runtime/faust_overrides.py", r"\w+", "methods of Faust's classes, replaced"),
    Allowed("benchmarks/simulator/*", r"\w+", "methods of asyncio's loop and of Kafka's clients, simulated"),
    Allowed(
        "interventions/agent/integrations/*",
        r"(on|before|after|wrap)_\w+|\w*log_success_event|async_post_call_failure_hook|register_hooks|cancel_tool",
        "frameworks call and read them",
    ),
    Allowed("examples/*", r"\w+", "scripted models have the methods of a framework's"),
    Allowed("tests/conformance/drivers/*", r"\w+", "as the examples"),
    Allowed("tests/*conftest.py", r"pytest_\w+", "pytest calls it"),
    Allowed("tests/docs/test_site.py", r"handle_starttag", "html.parser calls it"),
    Allowed("tests/streams/intake/test_app_formats.py", r"\w+_unix_nano|string_value", "protobuf's fields"),
    Allowed("tests/streams/runtime/test_garbage.py", r"itself", "a cycle for the collector"),
    Allowed("tests/typing/*", r"\w+", "mypy reads it, and nothing runs it"),
)
FOR_TESTS: Final = (
    Allowed("interventions/agent/testing.py", r"\w+", "for tests of programs with a guard"),
    Allowed("*/local_decider.py", r"forget_kills", "as in another process: tests have one for many"),
    Allowed("streams/intake/otlp.py", r"rejected_spans|error_message", "protobuf's fields"),
)
"""Parts of the product that only tests use."""
_DOTTED: Final = re.compile(r"[a-z_]+(\.[a-z_]+)*")
_RUN: Final = re.compile(r"-m ([a-z_.]+)")
MODULES: Final = (
    Allowed("*", r".*(__init__|__main__|conftest|/test_\w+)\.py", "Python, pytest and `python -m` find them by name"),
    Allowed("examples/*", r".*", "programs"),
    Allowed("tests/conformance/*", r".*/(drivers|own)/\w+\.py", "imported by the name of a framework"),
    Allowed("tests/typing/*", r".*", "mypy reads it, and nothing runs it"),
    Allowed("docs/hooks.py", r".*", "mkdocs loads it by path"),
)


def tracked(*patterns: str) -> list[str]:
    """The files of the repository, whichever links lead to them."""
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def is_allowed(file: str, name: str, allowed: Iterable[Allowed]) -> bool:
    return any(fnmatchcase(file, one.files) and re.fullmatch(one.names, name) for one in allowed)


def names(folders: Iterable[str], allowed: Iterable[Allowed]) -> Iterator[str]:
    """Yield each function, class, method and attribute that no file of the folders uses."""
    vulture = Vulture(ignore_decorators=[*REGISTERED])
    vulture.scavenge([ROOT / name for name in tracked(*(f"{folder}/*.py" for folder in folders))])
    for item in vulture.get_unused_code():
        file = Path(item.filename).relative_to(ROOT).as_posix()
        if item.typ not in {"import", "variable"} and not is_allowed(file, item.name, allowed):
            yield f"{file}:{item.first_lineno}: {item.typ} {item.name}"


def modules() -> Iterator[str]:
    """Yield each module that no other file imports, names in a table of modules, or runs with `python -m`."""
    files = tracked(*(f"{folder}/*.py" for folder in EVERYTHING))
    run = {word for name in tracked("*.md", "*.toml", "Makefile", ".ci") for word in _RUN.findall(read(name))}
    imported, tables = set[str](), set[str]()
    for file in files:
        for node in ast.walk(ast.parse(read(file))):
            match node:
                case ast.Import(names=found):
                    imported |= {alias.name for alias in found}
                case ast.ImportFrom(module=str(package), names=found):
                    imported |= {package, *(f"{package}.{alias.name}" for alias in found)}
                case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text):
                    tables.add(text.rpartition(".")[2])
    for file in files:
        dotted = file.removesuffix(".py").replace("/", ".").removeprefix("src.haltline.")
        known = {dotted, f"haltline.{dotted}"} & (imported | run) or dotted.rpartition(".")[2] in tables
        if not known and not is_allowed(file, file, MODULES):
            yield f"{file}: module"


def words() -> Iterator[str]:
    """Yield each metric and setting that nothing of the product names, besides their tables."""
    tables = {"streams/runtime/metrics.py", "cli/settings_table.py"}
    text = "\n".join(read(name) for name in tracked(*(f"{folder}/*.py" for folder in PRODUCT)) if name not in tables)
    for metric in METRICS:
        if f'"{metric.name}"' not in text and metric.name != "build_info":  # the table itself sets that one
            yield f"streams/runtime/metrics.py: metric {metric.name}"
    for setting in SETTINGS:
        if not any(word in text for word in (f'"{setting.name}"', f"    {setting.key}: ", setting.variable)):
            yield f"cli/settings_table.py: setting {setting.name}"


def main() -> int:
    """Return the exit code: 1 when something is unused."""
    unused = sorted({*names(EVERYTHING, ALLOWED), *names(PRODUCT, [*ALLOWED, *FOR_TESTS]), *modules(), *words()})
    for one in unused:
        print(f"{one}: nothing uses it")
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
