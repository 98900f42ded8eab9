import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import haltline

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("cli", "console", "detectors", "interventions", "schemas", "streams")


@pytest.mark.parametrize("name", PACKAGES)
def test_the_package_is_the_folder_at_the_root(name: str) -> None:
    link = ROOT / "src" / "haltline" / name
    hint = (
        f"src/haltline/{name} must be a link to {name}/ at the root. On Windows: allow links "
        "(developer mode), `git config core.symlinks true`, and check the repository out again"
    )
    assert (link / "__init__.py").is_file(), hint
    assert link.samefile(ROOT / name), hint


def test_every_link_of_the_package_is_tested_here() -> None:
    assert sorted(entry.name for entry in (ROOT / "src" / "haltline").iterdir() if entry.is_symlink()) == list(PACKAGES)


def test_the_package_that_is_imported_is_the_one_of_this_repository() -> None:
    hint = "run `make setup`: another haltline is installed than this checkout's"
    assert Path(haltline.__path__[0]).samefile(ROOT / "src" / "haltline"), hint


def test_the_installed_version_is_the_one_of_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert importlib.metadata.version("haltline") == project["version"], "run `make setup` after a new version"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packed, so that nothing of an older build is packed with it."""
    tree = tmp_path_factory.mktemp("tree") / "haltline"
    tree.mkdir()
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    for folder in ("src", *PACKAGES):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / folder, tree / folder, symlinks=True, ignore=ignored)
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that pip makes of it, some 5 s."""
    wheels = tmp_path_factory.mktemp("wheels")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(tree)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = wheels.glob("haltline-*.whl")
    return built


def test_the_wheel_holds_every_file_of_every_package(tree: Path, wheel: Path) -> None:
    expected = {
        f"haltline/{file.relative_to(tree).as_posix()}"
        for name in PACKAGES
        for file in (tree / name).rglob("*")
        if file.is_file()
    }
    with zipfile.ZipFile(wheel) as archive:
        actual = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert sorted(expected - actual) == [], "missing; see [tool.setuptools.package-data] in pyproject.toml"
    assert sorted(actual - expected) == ["haltline/__init__.py", "haltline/py.typed", "haltline/testing.py"]


def test_an_installed_wheel_works_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    script = (
        "import haltline.schemas.topics, haltline.streams.local.kafka_jars as j, haltline.streams.local.kafka as k; "
        "print(haltline.__path__[0]); print(j._jars_folder()); print(k._PROPERTIES.is_file())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    output = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(site), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert output[0] == str(site / "haltline")
    assert Path(output[1]).parent == tmp_path / ".cache" / "haltline" / "kafka"
    assert output[2] == "True"
