"""Every lock satisfies pyproject.toml on each Python and system, and names versions with their hashes alone."""

import json
import re
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from tests import locks
from tests.conformance.environments import GATEWAYS, OWN, PACKAGES, drivers

PYTHONS = ("3.11.0", "3.11.13", "3.12.11", "3.13.5")
SYSTEMS = (("linux", "Linux", "x86_64"), ("linux", "Linux", "aarch64"), ("darwin", "Darwin", "arm64"))
_HERE: dict[str, str] = {name: str(value) for name, value in default_environment().items()}
UPGRADE = "run `make locks`, or `make upgrade` for the newest of everything"


def environments() -> Iterator[dict[str, str]]:
    for python in PYTHONS:
        for sys_platform, system, machine in SYSTEMS:
            yield _HERE | {
                "python_full_version": python,
                "python_version": python.rpartition(".")[0],
                "sys_platform": sys_platform,
                "platform_system": system,
                "platform_machine": machine,
            }


def lines(lock: Path) -> list[str]:
    assert lock.is_file(), f"{lock.relative_to(locks.ROOT)}: expected a lock, got none; {UPGRADE}"
    text = lock.read_text(encoding="utf-8").replace(" \\\n", "")
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def locked(lock: Path, environment: dict[str, str]) -> dict[NormalizedName, Version]:
    pins = [Requirement(line.partition(" --hash=")[0].strip()) for line in lines(lock)]
    there = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(environment)]
    found = {canonicalize_name(pin.name): Version(str(pin.specifier).removeprefix("==")) for pin in there}
    assert len(found) == len(there), "two versions of one package"
    return found


@pytest.mark.parametrize("lock", [pytest.param(lock, id=lock.stem) for lock in locks.required()])
def test_a_lock_satisfies_what_is_required(lock: Path) -> None:
    for environment in environments():
        found = locked(lock, environment)
        for line in locks.required()[lock]:
            asked = Requirement(line)
            if asked.marker is not None and not asked.marker.evaluate(environment):
                continue
            version = found.get(canonicalize_name(asked.name))
            assert version is not None, f"{lock.name}: expected {asked}, got nothing of that name; {UPGRADE}"
            fits = asked.specifier.contains(version, prereleases=True)
            assert fits, f"{lock.name}: expected {asked}, got {version}; {UPGRADE}"


def test_locks_are_of_something_exact_and_name_no_index_path_or_registry() -> None:
    assert sorted(locks.LOCKS.rglob("*.txt")) == sorted(locks.required()), UPGRADE
    tested = {*drivers().values(), *GATEWAYS} - PACKAGES.keys() - {OWN}
    assert {*locks.adapters(), *locks.IN_DEVELOPMENT} == tested
    pin = re.compile(r"[a-z0-9-]+==[0-9][^ ;/@]*( ; [^/@]+?)?( +--hash=sha256:[0-9a-f]{64})+")
    assert [line for lock in locks.required() for line in lines(lock) if not pin.fullmatch(line)] == []
    for folder in ("clients/typescript", "locks/coding-agents"):
        text = (locks.ROOT / folder / "package-lock.json").read_text(encoding="utf-8")
        assert "resolved" not in text
        assert all("integrity" in package for name, package in json.loads(text)["packages"].items() if name)


@pytest.mark.skipif(locks.NEWEST, reason="make newest: nothing is locked in .venv-newest")
def test_what_is_installed_here_is_what_is_locked() -> None:
    expected = locked(locks.DEVELOPMENT, _HERE)
    installed = {canonicalize_name(one.name): Version(one.version) for one in distributions()}
    differing = {name: installed.get(name) for name, version in expected.items() if installed.get(name) != version}
    assert differing == {}, "run `make setup`: another version is installed than locks/development.txt has"
