"""The workflows of continuous integration and of a release, and what a release takes from the repository."""

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.test_deployment import BASE
from tests.deploy.tools import DEPLOY
from tests.programs import ended, printed

ROOT: Final = DEPLOY.parent
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE: Final[dict[str, Any]] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())


def test_the_workflows_are_ones_of_github() -> None:
    checks = ("-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows")
    printed(sys.executable, *checks, *WORKFLOWS)
    assert len(WORKFLOWS) == 2


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_there_is_with_rights_to_read_only(workflow: Path) -> None:
    document = yaml.safe_load(workflow.read_text())
    assert document["permissions"] == {"contents": "read"}
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text()))
    for job in document["jobs"].values():
        assert "uses" in job or job["timeout-minutes"] <= 60
        for script in (step["run"] for step in job.get("steps", []) if "run" in step):
            assert set(re.findall(r"(?m)^make ([\w-]+)", script)) <= targets
            assert all((ROOT / file).exists() for file in re.findall(r"(?:\.ci|deploy)/\S+", script))
    if "workflow_call" in document[True]:  # YAML reads `on` as a boolean
        assert document["jobs"]["test"]["steps"][-1]["run"] == "bash .ci/run"


def test_nothing_is_published_before_the_tests_have_passed() -> None:
    jobs = RELEASE["jobs"]

    def before(name: str) -> set[str]:
        direct = set(jobs[name].get("needs", []))
        return direct.union(*(before(other) for other in direct))

    writing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert writing == {"pypi", "npm", "image", "chart", "github"}
    assert all({"test", "build"} <= before(name) for name in writing)


def test_the_notes_of_a_release_are_its_section_of_the_changelog(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "changelog"
    script.write_text((ROOT / ".ci" / "changelog").read_text())
    newer, older = "## [0.2.0] - 2026-12-01\n\n### Added\n\n- One.\n\n", "## [0.1.0] - 2026-11-30\n\n- Two.\n"
    sections = f"# Changelog\n\n## [Unreleased]\n\n{newer}{older}"
    (tmp_path / "CHANGELOG.md").write_text(sections)
    assert printed(sys.executable, script, "0.2.0") == "### Added\n\n- One.\n"
    for empty in ("0.3.0", "Unreleased"):
        done = ended(sys.executable, script, empty)
        expected = f"CHANGELOG.md: expected a section '## [{empty}]' with changes, got none\n"
        assert (done.returncode, done.stderr) == (1, expected)


def test_image_chart_and_helm_of_a_release_are_those_that_are_tested_and_pushed(tmp_path: Path) -> None:
    chart = yaml.safe_load((DEPLOY / "helm" / "haltline" / "Chart.yaml").read_text())
    images = set(re.findall(r"haltline:(\d[\w.]*)", (DEPLOY / "compose.yaml").read_text()))
    assert images == {chart["version"]} == {chart["appVersion"]} == {BASE["images"][0]["newTag"]}
    (script,) = [step["run"] for step in RELEASE["jobs"]["build"]["steps"] if "sed -i" in step.get("run", "")]
    values = tmp_path / "deploy" / "helm" / "haltline" / "values.yaml"
    values.parent.mkdir(parents=True)
    values.write_text((DEPLOY / "helm" / "haltline" / "values.yaml").read_text())
    environment = {"REGISTRY": RELEASE["env"]["REGISTRY"], "GITHUB_REPOSITORY": "Owner/Haltline", "PATH": os.defpath}
    printed("bash", "-c", script.splitlines()[0], cwd=tmp_path, env=environment)
    assert yaml.safe_load(values.read_text())["image"]["repository"] == "ghcr.io/owner/haltline"
    steps = [step for job in RELEASE["jobs"].values() for step in job.get("steps", [])]
    versions = {step["with"]["version"] for step in steps if "setup-helm" in step.get("uses", "")}
    assert versions == set(re.findall(r"cmd/helm@(v[\d.]+)", (ROOT / "Makefile").read_text()))
