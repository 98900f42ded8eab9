"""The deployment files agree with the code: commands, options, ports, paths, variables."""

import asyncio
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from aiohttp import web

from haltline.console.access.keys import Keys
from haltline.console.app import create_app
from haltline.console.settings import ConsoleSettings
from haltline.interventions.agent.settings import GuardSettings
from haltline.streams.intake.app import Intake
from haltline.streams.local.embedded_broker import EmbeddedBroker
from haltline.streams.runtime.health import HealthServer, Verdict
from tests.builders import some
from tests.deploy.commands import Parsed, in_document, parsed, variables
from tests.deploy.tools import DEPLOY, is_well
from tests.programs import ended, printed

README = DEPLOY.parent / "README.md"
SYSTEMD = DEPLOY / "systemd"
KUBERNETES = DEPLOY / "kubernetes"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OURS: dict[str, Any] = {name: one for name, one in COMPOSE["services"].items() if one["image"].startswith("haltline:")}
MANIFESTS: list[tuple[str, dict[str, Any]]] = [
    (f"{file.relative_to(KUBERNETES)}: {one['kind']} {one['metadata']['name']}", one)
    for file in sorted(KUBERNETES.rglob("*.yaml"))
    if file.name != "kustomization.yaml"
    for one in yaml.safe_load_all(file.read_text())
]
WORKLOADS = [(where, one) for where, one in MANIFESTS if one["kind"] in {"StatefulSet", "Deployment", "Job"}]
CONTAINERS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (f"{where}: {container['name']}", one["spec"]["template"]["spec"], container)
    for where, one in WORKLOADS
    for container in one["spec"]["template"]["spec"]["containers"]
]
BASE: dict[str, Any] = yaml.safe_load((KUBERNETES / "base" / "kustomization.yaml").read_text())
VARIABLES = dict(literal.split("=", 1) for literal in BASE["configMapGenerator"][0]["literals"])
"""The variables of every process in Kubernetes."""
UNITS = sorted(SYSTEMD.glob("*.service"))
SECRETS: Final = re.findall(r"^\| `(haltline-[a-z-]+)` \|", (DEPLOY / "README.md").read_text(), re.MULTILINE)
"""Those that the page tells people to make."""

PORT_OF: Final = {
    "worker": "metrics_port", "audit": "metrics_port", "audit verify": "metrics_port", "canary": "metrics_port",
    "notify": "metrics_port", "console": "port", "agent": "listen",
}  # fmt: skip
OF_ALL: Final = {"app.kubernetes.io/name": "haltline", "app.kubernetes.io/instance": "haltline"}
"""Labels of every object."""
SERVES: Final = frozenset({"console", "agent"})
"""Their metrics are on a port of their own."""
HOST_OF: Final = {**dict.fromkeys(PORT_OF, "metrics_host"), "console": "host", "agent": "listen"}


def of_unit(unit: Path) -> list[str]:
    found = re.search(r"^ExecStart=/opt/haltline/bin/haltline (.*)$", unit.read_text(), re.MULTILINE)
    return some(found)[1].replace("%i", "9464").replace("%H", "host").replace("%d", "/run/credentials/unit").split()


COMMANDS = [
    *((f"compose: {name}", [str(word) for word in one["command"]]) for name, one in OURS.items()),
    *((where, [str(word) for word in container["args"]]) for where, _, container in CONTAINERS),
    *((f"systemd: {unit.name}", of_unit(unit)) for unit in UNITS),
]
PAGES = [README, *sorted(DEPLOY.rglob("*.md"))]


def port_of(command: Parsed) -> int:
    return int(str(command.values[PORT_OF[command.command]]).rpartition(":")[2])


def metrics_port_of(command: Parsed) -> int:
    return int(command.values["metrics_port"])


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=[where for where, _ in COMMANDS])
def test_each_command_that_is_started_is_one_of_ours(where: str, words: list[str]) -> None:
    command = parsed(words)
    if command.command in ("worker", "audit"):
        assert command.values["instance_id"], "after a restart its partitions would wait for its old self"
    if where.startswith("systemd"):
        return
    assert "--bootstrap" not in words, "where the broker is comes from the environment, in one place"
    if command.command in HOST_OF:
        host = command.values[HOST_OF[command.command]].removesuffix(":8765")
        assert host == "0.0.0.0", "in a container nobody else would reach it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_that_a_page_names_is_one_of_ours(page: Path) -> None:
    for words, whole in in_document(page):
        parsed(words, whole=whole)


def test_every_variable_that_is_set_is_read() -> None:
    known = variables() | {"HALTLINE_INTAKE_URL"}  # of the npm package
    for file in (path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix not in {".json", ".pyc"}):
        result = set(re.findall(r"\bHALTLINE_[A-Z_]+\b", file.read_text(encoding="utf-8")))
        assert result <= known, f"{file}: {result - known}"


def test_what_a_health_check_asks_for_is_served(embedded: EmbeddedBroker) -> None:
    verdict = Verdict(alive=True, ready=True, reasons=(), partitions=1, lag_records=0, stuck=())
    server = HealthServer("127.0.0.1", 0, verdict=lambda: verdict, exposition=lambda: b"")
    try:
        served = {path for path in PATHS if is_well(f"http://127.0.0.1:{server.port}{path}")}
    finally:
        server.close()
    console = create_app(ConsoleSettings(bootstrap="", keys=Keys.of([]), database="sqlite://"))
    routes = {getattr(route, "path", "") for route in console.routes}
    found = asyncio.run(_routes(embedded.bootstrap))
    by_command = {**dict.fromkeys(PORT_OF, served), "console": routes, "agent": found}
    for where, _, container in CONTAINERS:
        command = parsed([str(word) for word in container["args"]])
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                assert container[probe]["httpGet"]["path"] in by_command[command.command], where
    for name, service in OURS.items():
        for port, path in _asked(service):
            command = parsed(service["command"])
            assert (port, path in by_command[command.command]) == (port_of(command), True), name
    assert all("/metrics" in paths for paths in by_command.values())


PATHS = ("/healthz", "/readyz", "/metrics")


async def _routes(bootstrap: str) -> set[str]:
    intake = Intake(GuardSettings(bootstrap=bootstrap)).app()
    runner = web.AppRunner(intake)
    await runner.setup()
    await runner.cleanup()
    return {resource.canonical for resource in intake.router.resources()}


def _asked(service: dict[str, Any]) -> list[tuple[int, str]]:
    test = " ".join(service.get("healthcheck", {}).get("test", []))
    return [(int(port), path) for port, path in re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", test)]


# Compose


def test_compose_publishes_and_asks_where_is_served_and_gives_each_no_more_than_it_needs() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (targets,) = [one["targets"] for job in config["scrape_configs"] for one in job["static_configs"]]
    serves = {name: parsed(service["command"]) for name, service in OURS.items()}
    ours = {name: command for name, command in serves.items() if command.command in PORT_OF}
    assert set(targets) == {f"{name}:{metrics_port_of(command)}" for name, command in ours.items()}
    assert all((DEPLOY / "prometheus" / file).exists() for file in config["rule_files"])
    for name, service in COMPOSE["services"].items():
        for port in service.get("ports", []):
            address, outside, inside = port.split(":")
            assert address == "127.0.0.1", "there are no credentials"
            if name in OURS:
                assert int(outside) == int(inside) == port_of(parsed(service["command"]))
    named = {volume.split(":")[0] for one in COMPOSE["services"].values() for volume in one.get("volumes", [])}
    assert {volume for volume in named if not volume.startswith(".")} == set(COMPOSE["volumes"])
    assert all((DEPLOY / volume).exists() for volume in named if volume.startswith("."))
    for service in OURS.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert set(service["depends_on"]) <= set(COMPOSE["services"])
    listeners = COMPOSE["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INTERNAL://{OURS['worker']['environment']['HALTLINE_BOOTSTRAP']}" in listeners.split(",")


def test_the_image_takes_in_what_the_package_is_made_of() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    taken = {line.removeprefix("!") for line in lines if line.startswith("!")}
    links = {link.name for link in (DEPLOY.parent / "src" / "haltline").iterdir() if link.is_symlink()}
    assert links | {"src", "pyproject.toml", "README.md"} <= taken
    docker = (DEPLOY / "Dockerfile").read_text()
    user = some(re.search(r"--uid (\d+)", docker))[1]
    assert f"USER {user}:{user}" in docker
    assert {pod["securityContext"]["runAsUser"] for _, pod, _ in CONTAINERS} == {int(user)}


def test_docker_itself_reads_the_compose_file() -> None:
    compose = ["docker", "compose"]
    if shutil.which("docker") is None or ended(*compose, "version").returncode:
        pytest.skip("needs docker with its compose plugin")
    base = ("--file", DEPLOY / "compose.yaml")
    for more in ((), ("--file", DEPLOY / "compose.signed.yaml"), ("--file", DEPLOY / "compose.one-group.yaml")):
        printed(*compose, *base, *more, "config", "--quiet")


# Kubernetes


@pytest.mark.parametrize(("where", "pod", "container"), CONTAINERS, ids=[where for where, _, _ in CONTAINERS])
def test_a_container_may_do_nothing_that_it_need_not(where: str, pod: Any, container: Any) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]


def test_services_budgets_and_network_policies_choose_pods_and_ports_that_there_are() -> None:
    pods: dict[str, dict[str, int]] = {}
    for _, one in WORKLOADS:
        name = one["metadata"]["name"].removeprefix("haltline-")
        labels = {**OF_ALL, "app.kubernetes.io/component": name}
        assert one["spec"]["template"]["metadata"]["labels"] == labels
        containers = one["spec"]["template"]["spec"]["containers"]
        pods[name] = {p["name"]: p["containerPort"] for container in containers for p in container.get("ports", [])}
        if one["kind"] != "Job":
            assert one["spec"]["selector"]["matchLabels"] == labels
    metrics = {port for ports in pods.values() for name, port in ports.items() if name != "http"}
    services = {one["metadata"]["name"] for _, one in MANIFESTS if one["kind"] == "Service"}
    for where, one in MANIFESTS:
        spec = one.get("spec", {})
        match one["kind"]:
            case "Service":
                ports = pods[spec["selector"]["app.kubernetes.io/component"]]
                assert {p["targetPort"]: p["port"] for p in spec["ports"]} == ports, where
            case "StatefulSet":
                assert spec["serviceName"] in services, where
            case "PodDisruptionBudget":
                assert spec["selector"]["matchLabels"]["app.kubernetes.io/component"] in pods, where
            case "NetworkPolicy":
                chosen = spec["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/component")
                for rule in spec.get("ingress", []):
                    ports_in = {port["port"] for port in rule["ports"]}
                    assert ports_in == (metrics if chosen is None else {pods[chosen]["http"]}), where
            case "PodMonitor":
                named = {name for ports in pods.values() for name in ports if name != "http"}
                assert {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]} == named
    budgets = {one["metadata"]["name"] for _, one in MANIFESTS if one["kind"] == "PodDisruptionBudget"}
    assert budgets >= {"haltline-worker", "haltline-audit", "haltline-console", "haltline-intake"}


# systemd

HARDENED = ("NoNewPrivileges=yes", "ProtectSystem=strict", "PrivateTmp=yes", "CapabilityBoundingSet=", "UMask=0077")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_may_do_nothing_that_it_need_not(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    assert set(HARDENED) <= set(lines)
    assert "User=haltline" in lines
    assert "EnvironmentFile=/etc/haltline/haltline.env" in lines


def test_systemd_itself_reads_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    for unit in UNITS:
        name = unit.name.replace("@", "@9464")  # an instance; a template is not looked at
        (tmp_path / name).write_text(unit.read_text().replace("/opt/haltline/bin/haltline", sys.executable))
    for drop_in in SYSTEMD.glob("*.service.d/*.conf"):
        folder = tmp_path / drop_in.parent.name.replace("@", "@9464")
        folder.mkdir()
        (folder / drop_in.name).write_text(drop_in.read_text())
    files = sorted(map(str, tmp_path.glob("*.service")))
    lines = ended(analyze, "verify", *files).stderr.splitlines()
    assert not [line for line in lines if str(tmp_path) in line or "haltline" in line], lines
