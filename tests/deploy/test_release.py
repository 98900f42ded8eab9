"""The workflows of continuous integration and of a release, and what a release takes from the repository."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from haltline.streams.local.kafka import free_port
from tests.deploy.test_deployment import BASE
from tests.deploy.tools import DEPLOY
from tests.http_server import served
from tests.programs import ended, printed

ROOT: Final = DEPLOY.parent
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DOCKERFILE: Final = (DEPLOY / "Dockerfile").read_text()
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


def test_what_others_make_is_named_by_its_digest() -> None:
    """A tag or a branch can be moved to something else, which would run with this repository's rights."""
    texts = [file.read_text() for file in WORKFLOWS]
    used = [word for text in texts for word in re.findall(r"uses: (\S+)(?:  # v[\d.]+)?$", text, re.MULTILINE)]
    assert len(used) == sum(text.count("uses: ") for text in texts), "each with its version beside it"
    assert [one for one in used if not re.fullmatch(r"\./\S+|[\w./-]+@[0-9a-f]{40}", one)] == []
    images = re.findall(r"(?:container: |^ARG PYTHON=)(\S+)", "\n".join([*texts, DOCKERFILE]), re.MULTILINE)
    assert [one for one in images if not re.fullmatch(r"python:3\.12-\w+@sha256:[0-9a-f]{64}", one)] == []
    assert (len(images), set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE))) == (2, {"$PYTHON"})
    assert DOCKERFILE.count("--require-hashes") == 2


def test_nothing_is_published_before_the_tests_have_passed() -> None:
    jobs = RELEASE["jobs"]

    def before(name: str) -> set[str]:
        direct = set(jobs[name].get("needs", []))
        return direct.union(*(before(other) for other in direct))

    writing = {name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()}
    assert writing == {"pypi", "npm", "image", "chart", "github"}
    assert all({"test", "build"} <= before(name) for name in writing)


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


AUDIT = DEPLOY.parent / ".ci" / "audit"
ADVISORY = {
    "id": "GHSA-xxxx-yyyy-zzzz",
    "aliases": ["CVE-2026-0001"],
    "summary": "it does what it should not",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "victim"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
        }
    ],
}


@contextmanager
def advisories(of: dict[str, Any]) -> Iterator[str]:
    """A service of OSV's kind that knows these, by package and version; where it is."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = of.get(f"{document['package']['name']} {document['version']}")
            body = json.dumps({} if known is None else {"vulns": [known]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with served(Handler) as address:
        yield f"{address}/v1/query"


def install(folder: Path, name: str, version: str) -> None:
    information = folder / f"{name}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def audit(folder: Path, url: str, npm: str = "") -> tuple[int, str]:
    """`npm`: what npm's registry says; empty: nothing."""
    program = folder / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat <<'EOF'\n{npm}\nEOF\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    done = ended(sys.executable, AUDIT, "--osv-url", url, "--path", folder, env=os.environ | {"PATH": path})
    return done.returncode, done.stdout + done.stderr


NPM = {"left": {"range": "<2", "severity": "high", "via": [{"title": "it runs what it reads"}]}}


def test_known_vulnerabilities_fail(tmp_path: Path) -> None:
    install(tmp_path, "victim", "1.0")
    install(tmp_path, "other", "2.0")
    answer = json.dumps({"vulnerabilities": NPM, "metadata": {"dependencies": {"total": 9}}})
    with advisories({"victim 1.0": ADVISORY}) as url:
        actual, output = audit(tmp_path, url, answer)
    assert "audit: victim 1.0: CVE-2026-0001 GHSA-xxxx-yyyy-zzzz: mended in 1.1" in output
    assert (actual, "audit: npm: left <2: high: it runs what it reads" in output) == (1, True), output


def test_without_a_service_it_says_so_and_fails_nothing(tmp_path: Path) -> None:
    install(tmp_path, "victim", "1.0")
    actual, output = audit(tmp_path, f"http://127.0.0.1:{free_port()}/v1/query")
    assert (actual, "no advisory service can be asked here" in output) == (0, True), output
    assert "npm: its registry cannot be asked here" in output
    assert "No broken requirements found" in output
