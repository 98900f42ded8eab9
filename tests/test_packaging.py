import importlib.metadata
import os
import re
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import haltline
from haltline.streams.audit.query import session_story
from tests.cli.test_up import EVERYDAY, is_running, pids_of
from tests.locks import constraints, uv
from tests.programs import ended, printed
from tests.streams.scan.transcripts import stuck

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("cli", "console", "detectors", "interventions", "schemas", "streams")


def test_the_package_that_is_imported_is_the_one_of_this_repository_with_its_links_and_version() -> None:
    assert sorted(entry.name for entry in (ROOT / "src" / "haltline").iterdir() if entry.is_symlink()) == list(PACKAGES)
    hint = "run `make setup`: another haltline is installed than this checkout's"
    assert Path(haltline.__path__[0]).samefile(ROOT / "src" / "haltline"), hint
    assert haltline.__version__ == importlib.metadata.version("haltline")
    assert run(sys.executable, "-m", "haltline.cli", "--version") == f"haltline {haltline.__version__}\n"


def run(*command: object, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    without = {"XDG_CACHE_HOME", "PYTHONPATH", "SETUPTOOLS_SCM_PRETEND_VERSION"}
    environment = {name: value for name, value in os.environ.items() if name not in without} | dict(env or {})
    return printed(*command, cwd=cwd, env=environment)


def git(tree: Path, *words: str) -> str:
    return run("git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words, cwd=tree)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of what is packed and of something that is not, at the tag v9.8.7."""
    tree = tmp_path_factory.mktemp("tree") / "haltline"
    (tree / "tests").mkdir(parents=True)
    (tree / "tests" / "test_nothing.py").touch()
    texts = ("README.md", "LICENSE", "CHANGELOG.md")
    for file in ("pyproject.toml", *texts, "MANIFEST.in", ".gitattributes", ".git_archival.txt"):
        shutil.copy(ROOT / file, tree)
    for folder in ("src", *PACKAGES):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(ROOT / folder, tree / folder, symlinks=True, ignore=ignored)
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "a")
    git(tree, "tag", "v9.8.7")
    return tree


def packaged(tree: Path) -> set[str]:
    files = (file for name in PACKAGES for file in (tree / name).rglob("*") if file.is_file())
    return {f"haltline/{file.relative_to(tree).as_posix()}" for file in files}


def test_the_version_is_the_one_of_the_tag_also_in_an_archive_that_git_made_of_it(tree: Path, tmp_path: Path) -> None:
    git(tree, "archive", "--output", f"{tmp_path}/haltline.tar", "HEAD")
    with tarfile.open(f"{tmp_path}/haltline.tar") as packed:
        packed.extractall(tmp_path / "haltline", filter="data")
    for place in (tree, tmp_path / "haltline"):
        assert run(sys.executable, "-m", "setuptools_scm", cwd=place).strip() == "9.8.7"


@pytest.fixture(scope="module")
def built(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist and the wheel that is made of it, in some 5 s."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, tree)
    (sdist,) = folder.glob("haltline-9.8.7.tar.gz")
    (wheel,) = folder.glob("haltline-9.8.7-py3-none-any.whl")
    return sdist, wheel


@pytest.mark.wide  # builds the package, as a release does
def test_a_package_index_would_take_the_wheel_that_holds_every_file_of_every_package(
    built: tuple[Path, Path], tree: Path
) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *built)
    expected = packaged(tree)
    with zipfile.ZipFile(built[1]) as opened:
        actual = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert sorted(expected - actual) == [], "missing; see [tool.setuptools.package-data] in pyproject.toml"
    assert sorted(actual - expected) == ["haltline/__init__.py", "haltline/py.typed", "haltline/testing.py"]


@pytest.mark.wide  # builds the package, as a release does
def test_the_sdist_holds_the_package_as_files_and_nothing_else_of_the_repository(
    tree: Path, built: tuple[Path, Path]
) -> None:
    with tarfile.open(built[0]) as opened:
        members = opened.getmembers()
    assert not [one.name for one in members if one.issym() or one.islnk()], "links lead out of it"
    names = {one.name.removeprefix("haltline-9.8.7/") for one in members if one.isfile()}
    files = {name for name in names if not name.startswith("src/haltline.egg-info/")}
    source = {file.relative_to(tree).as_posix() for file in (tree / "src" / "haltline").glob("*.py")}
    source |= {f"src/{file}" for file in packaged(tree)} | {"src/haltline/py.typed"}
    assert files == source | {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"}


@pytest.fixture
def installed(tmp_path: Path) -> Callable[[str], Path]:
    """Installs what it is given in an environment that has nothing else, not even pip; returns its programs."""

    def install(requirement: str) -> Path:
        run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env")
        python = tmp_path / "env" / "bin" / "python"
        uv("pip", "install", "--python", python, *constraints(), requirement)
        return python.parent

    return install


@pytest.mark.wide  # installs what the other tests import
def test_the_base_alone_guards_an_agent_scans_its_histories_and_names_what_a_worker_needs(
    installed: Callable[[str], Path], built: tuple[Path, Path], tmp_path: Path
) -> None:
    programs = installed(str(built[1]))
    assert run(programs / "haltline", "--version", cwd=tmp_path) == "haltline 9.8.7\n"
    script = (
        "from haltline import Guard, __version__\n"
        "with Guard(session_id='s', mode='local') as guard:\n"
        "    guard.check()\n"
        "print(__version__)\n"
    )
    assert run(programs / "python", "-c", script, cwd=tmp_path) == "9.8.7\n"
    history = stuck().write(tmp_path / "a.jsonl")
    assert "1 went wrong" in run(programs / "haltline", "scan", history, env=EVERYDAY | {"HOME": str(tmp_path)})
    done = ended(programs / "haltline", "worker")
    needs = r"haltline: worker needs (cryptography|faust), .*: pip install 'haltline\[processor\]'\n"
    assert (done.returncode, bool(re.fullmatch(needs, done.stderr))) == (2, True), done.stderr


@pytest.mark.wide  # installs what the other tests import
def test_the_installed_wheel_runs_the_demo_outside_of_the_repository(
    installed: Callable[[str], Path], built: tuple[Path, Path], tmp_path: Path
) -> None:
    programs = installed(f"{built[1]}[processor,console,notify]")
    script = (
        "import haltline.console.app, haltline.streams.notify.config, haltline.streams.local.kafka as kafka\n"
        "import haltline.streams.local.kafka_jars as jars\n"
        "print(haltline.__path__[0], jars._jars_folder().parent, kafka._PROPERTIES.is_file(), sep='\\n')\n"
    )
    package, jars, has_properties = run(programs / "python", "-c", script, cwd=tmp_path).splitlines()
    assert Path(package).is_relative_to(programs.parent)
    assert (jars, has_properties) == (str(Path.home() / ".cache" / "haltline" / "kafka"), "True")
    kept = tmp_path / "kept"
    output = run(programs / "haltline", "demo", "--pause", "0.2", "--keep", kept, cwd=tmp_path, env=EVERYDAY)
    assert "12 of 12 facts hold" in output
    assert "FAILED" not in output
    assert not any(map(is_running, pids_of(output)))
    summaries = [str(row["summary"]) for row in session_story(kept / "audit", "sales-clean-up-1")]
    kill = r"session_killed: loop_detected, 3 deletes on asset_id=fact_sales in \ds"
    assert len([text for text in summaries if re.fullmatch(kill, text)]) == 1, summaries
