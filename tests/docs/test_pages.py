"""The documentation agrees with itself and the product: links, commands, tables, the example, the words."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import typer
import yaml

from haltline.cli import settings_file
from haltline.cli.app import app
from haltline.detectors import ALL
from haltline.detectors.cross_session import ACROSS_BY_ID
from haltline.interventions.levels.default_levels import default_mode
from haltline.schemas.topics import LAYOUT
from haltline.streams.notify.config import load_config
from haltline.streams.policy.loader import parse_policy
from tests.builders import call, findings
from tests.deploy.commands import in_document, parsed
from tests.deploy.tools import DEPLOY
from tests.docs.pages import DOCS, PAGES, README, ROOT, anchors, between, fences, fences_of, links, prose, rows
from tests.docs.retired import RETIRED

ALL_PAGES = [*PAGES, *sorted(DEPLOY.rglob("*.md"))]
EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
RULES = {detector.id for detector in ALL} | ACROSS_BY_ID.keys()


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_and_anchor_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert ROOT in (target, *target.parents), f"{page.name}: {link} leaves the repository"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}: expected one of {sorted(anchors(target))}"


@EACH
def test_each_command_of_a_page_parses(page: Path) -> None:
    for words, whole in in_document(page):
        parsed(words, whole=whole)


@EACH
def test_each_make_target_and_module_of_a_page_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert set(re.findall(r"(?m)(?:`|^\$ |^)make ([a-z][a-z-]*)", text)) <= targets
    for module in re.findall(r"python -m ([a-z_.]+)", text):
        assert importlib.util.find_spec(module.rstrip(".")) is not None, module


def test_the_readme_s_example_runs_as_it_stands(tmp_path: Path) -> None:
    (example, result) = next(
        (one, other) for (language, one), (_, other) in pairwise(fences(README)) if language == "python"
    )
    script = tmp_path / "agent.py"
    script.write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    shown, printed = (re.sub(r"[\d-]+ [\d:]+ UTC", "...", text) for text in (result, done.stdout))
    assert (done.returncode, printed, done.stderr) == (0, shown.removeprefix("$ python agent.py\n"), "")


def test_the_tables_of_detectors_topics_and_folders_name_what_there_is() -> None:
    named = [name for row in rows(between(README, "detectors")) for name in re.findall(r"`(\w+)`", row[0])]
    assert len(set(named)) == 10
    assert set(named) <= RULES
    assert all(default_mode(name).value == "enforce" for name in named)
    topics = [row[0] for row in rows(between(DOCS / "topics.md", "topics"))]
    assert topics == [f"`haltline.{layout.name}`" for layout in LAYOUT]
    folders = {*re.findall(r"`([\w/]+)/`", between(README, "folders"))}
    hidden = {".git", ".venv", "build", "dist"}
    packages = {file.relative_to(ROOT).parts[0] for file in ROOT.glob("*/*.py")} - hidden
    assert packages <= folders
    assert all((ROOT / name).is_dir() for name in folders)


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_retired_word(page: Path) -> None:
    text = prose(page)
    text = re.sub(r"<!-- refusals -->.*?<!-- /refusals -->", "", text, flags=re.DOTALL)  # the product's own words
    text = re.sub(r"`[^`\n]*`", "", text)
    found = {match[0]: instead for pattern, instead in RETIRED.items() for match in re.finditer(pattern, text, re.I)}
    assert found == {}, f"{page.name}: retired, with what to write instead"


def test_documents_of_the_pages_are_read(tmp_path: Path) -> None:
    for part in ("policy", "correlations", "author rules", "interventions", "judgement", "experiment"):
        ((_, text),) = fences_of(between(DOCS / "policy.md", part))
        parse_policy(text)
    document = "".join(content for language, content in fences(DOCS / "notifications.md") if language == "yaml")
    file = tmp_path / "notify.yaml"
    file.write_text(document, encoding="utf-8")
    config = load_config(file)
    names = [*config.channels, *config.actuators]
    assert (names, config.gone) == (["ops-hook", "alerts", "phone", "suspend", "delete", "report"], "")
    (document,) = (content for language, content in fences(DOCS / "configuration.md") if language == "toml")
    file = tmp_path / "haltline.toml"
    file.write_text(document, encoding="utf-8")
    assert settings_file.read(str(file))["HALTLINE_AUDIT_TABLE"].value == "s3://audit/haltline"


def test_the_detector_of_the_contributors_page_finds() -> None:
    ((_, code),) = fences_of(between(DOCS / "contributing.md", "detector"))
    script = f"""
from dataclasses import dataclass as plain
from typing import Annotated, ClassVar
from pydantic import Field
from pydantic.dataclasses import dataclass
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.detectors.framework.strictness import Stricter
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity

@plain
class Calls:
    count: int = 0

{code}
"""
    module = ModuleType("calls_guard")
    exec(compile(script, "contributing.md", "exec"), vars(module))
    found = findings(module.TooManyCalls(limit=1), [call(second) for second in (1, 2)])
    assert [finding.reason for _, finding in found] == ["2 calls"]


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_block_is_of_its_language(page: Path) -> None:
    readers: dict[str, Callable[[str], object]] = {
        "python": lambda text: compile(text, page.name, "exec"),
        "yaml": yaml.safe_load,
        "toml": tomllib.loads,
    }
    for language, content in fences(page):
        readers.get(language, str)(content)


def test_each_command_stands_on_some_page() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in ALL_PAGES)
    commands = {*typer.main.get_command(app).commands}  # type: ignore[attr-defined]  # a group
    assert {name for name in commands if not re.search(rf"haltline {name}\b", text)} == set()
