"""The Helm chart, by Helm itself: what it refuses, its objects, and the manifests that are written out of it."""

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import yaml

from haltline.streams.policy.loader import parse_policy
from tests.builders import cases
from tests.deploy.commands import parsed, variables
from tests.deploy.test_deployment import (
    KUBERNETES,
    MANIFESTS,
    OURS,
    PORT_OF,
    SERVES,
    VARIABLES,
    metrics_port_of,
    port_of,
)
from tests.deploy.tools import DEPLOY, RULES, helm, tool
from tests.docs.pages import fences
from tests.locks import IN_IMAGE
from tests.programs import ended, printed

CHART = DEPLOY / "helm" / "haltline"
DASHBOARDS = DEPLOY / "grafana" / "dashboards"
OF_OTHERS: Final = {"ScaledObject", "TriggerAuthentication", "PodMonitor", "PrometheusRule"}
"""Kinds that an operator brings: KEDA's and Prometheus'."""
EVERYTHING: Final[dict[str, Any]] = {
    "image": {"repository": "registry.example.org/haltline", "tag": "1.2.3"},
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"name": "watchers", "annotations": {"example.org/role": "audit"}},
    "kafka": {"bootstrap": "a.example.org:9093,b.example.org:9093", "prefix": "eu."},
    "env": {"HALTLINE_GROUP": "eu-workers"},
    "policy": {"name": "default", "rules": {"repetition": {"enabled": False}}},
    "sealing": {"enabled": True},
    "worker": {
        "nodeSelector": {"pool": "kafka"},
        "tolerations": [{"key": "kafka", "operator": "Exists"}],
        "podAnnotations": {"example.org/team": "agents"},
        "extraArgs": ["--checkpoint-interval", "2"],
    },
    "audit": {
        "replicas": 3,
        "table": {"url": "s3://bucket/audit", "options": {"AWS_REGION": "eu-north-1"}, "secret": "bucket"},
    },
    "console": {
        "replicas": 2,
        "oidcSecret": "provider",
        "linkKeySecret": "links",
        "database": {"secret": "postgresql"},
        "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "certificate", "annotations": {"a": "b"}},
    },
    "networkPolicy": {"kafka": {"namespace": ""}, "extraEgress": [{"ports": [{"port": 4317}]}]},
    "intake": {"keysSecret": "keys", "tlsSecret": "certificate", "clientCertificates": True},
    "keda": {"enabled": True},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "runbooks": "https://wiki.example.org/runbooks/"},
    "dashboards": {
        "enabled": True,
        "annotations": {"grafana_folder": "haltline"},
        "console": "https://haltline.example.org",
    },
}
MINIMAL: Final[dict[str, Any]] = {
    **{name: {"enabled": False} for name in ("topics", "shadow", "audit", "console", "canary", "intake", "notify")},
    "networkPolicy": {"enabled": False},
    "serviceAccount": {"create": False},
}
PAGE: Final[dict[str, Any]] = yaml.safe_load(
    next(content for language, content in fences(DEPLOY / "README.md") if language == "yaml")
)
CASES: Final[dict[str, dict[str, Any]]] = {
    "the values as they are": {},
    "everything switched on": EVERYTHING,
    "workers alone": MINIMAL,
    "the values that the page shows": PAGE,
    "a table on a volume that several pods mount": {"audit": {"storage": {"accessModes": ["ReadWriteMany"]}}},
    "a console without the audit table": {"console": {"auditTable": False}},
    "an intake with TLS, without certificates of its clients": {"intake": {"tlsSecret": "certificate"}},
    "another name": {"fullnameOverride": "watch", "nameOverride": "watch"},
}


def template(values: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    command = [helm(), "template", "haltline", str(CHART), "--kube-version", "1.30.0", "--values", "-", *options]
    return ended(*command, input=json.dumps(values))


def objects(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in yaml.load_all(_made(json.dumps(values)), yaml.CSafeLoader) if one]


@cache
def _made(values: str) -> str:
    done = template(json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


def of(found: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (one,) = [one for one in found if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return one


@cases("values", CASES)
def test_helm_itself_finds_nothing_wrong(values: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    printed(helm(), "lint", "--strict", "--kube-version", "1.30.0", "--values", tmp_path / "values.yaml", CHART)


@cases("values", CASES)
def test_each_object_is_one_of_kubernetes_and_names_what_is_there(values: dict[str, Any]) -> None:
    found = objects(values)
    assert len({(one["kind"], one["metadata"]["name"]) for one in found}) == len(found)
    maps = {one["metadata"]["name"] for one in found if one["kind"] == "ConfigMap"}
    accounts = {one["metadata"]["name"] for one in found if one["kind"] == "ServiceAccount"} | {"default"}
    ours = variables()
    for one in found:
        if one["kind"] not in OF_OTHERS:
            kubernetes_validate.validate(one, "1.30", strict=True)
            if not values:  # what is written out of it
                kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
        if one["kind"] in {"StatefulSet", "Deployment", "Job"}:
            pod = one["spec"]["template"]["spec"]
            assert pod.get("serviceAccountName", "default") in accounts
            claims = {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])}
            volumes = {volume["name"] for volume in pod["volumes"]} | claims
            text = json.dumps(pod)
            assert set(re.findall(r"HALTLINE_[A-Z_]+", text)) <= ours
            required = re.findall(r'"configMap(?:Ref)?": \{"name": "([^"]+)"', text)
            keys = re.findall(r'"configMapKeyRef": \{"name": "([^"]+)".*?"optional": (\w+)', text)
            required += [name for name, optional in keys if optional == "false"]
            assert set(required) <= maps
            for container in pod["containers"]:
                command = parsed(container["args"])
                assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
                mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
                for word in container["args"]:
                    if re.match(r"/(?:etc|var)/", word):
                        assert any(word.startswith(f"{mount}/") for mount in mounts), word
                ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
                metrics = [metrics_port_of(command)] if command.command in SERVES else []
                assert [*ports.values()] == ([port_of(command), *metrics] if command.command in PORT_OF else [])
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    if "httpGet" in container.get(probe, {}):  # where certificates of clients are asked for: its port
                        assert container[probe]["httpGet"]["port"] in ports


@cases(
"values, expected",
{
"a name that is none": ({"worker": {"replica": 3}}, "at '/worker': additional properties 'replica' not allowed"),
"a broker without its port": ({"kafka": {"bootstrap": "broker"}}, "at '/kafka/bootstrap': 'broker' does not match"),
"no Secret": ({"console": {"keysSecret": ""}}, "at '/console/keysSecret': minLength: got 0, want 1"),
"two sinks on one volume": ({"audit": {"replicas": 2}}, "audit.replicas: expected 1 with a table on a volume, got 2"),
"two consoles on SQLite": ({"console": {"replicas": 2}}, "console.replicas: expected 1 with SQLite, got 2"),
},
)  # fmt: skip
def test_a_value_that_is_wrong_is_refused_with_its_place(values: dict[str, Any], expected: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert expected in done.stderr


def test_a_value_reaches_the_processes() -> None:
    found = objects(EVERYTHING)
    pod = of(found, "StatefulSet", "haltline-worker")["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    assert worker["image"] == "registry.example.org/haltline:1.2.3"
    assert parsed(worker["args"]).values["checkpoint_interval"] == 2
    assert pod["nodeSelector"] == {"pool": "kafka"}
    assert "replicas" not in of(found, "StatefulSet", "haltline-worker")["spec"], "KEDA sets them"
    environment = of(found, "ConfigMap", "haltline")["data"]
    assert (environment["HALTLINE_PREFIX"], environment["HALTLINE_GROUP"]) == ("eu.", "eu-workers")
    policy = of(found, "ConfigMap", "haltline-policy")["data"]["policy.yaml"]
    assert parse_policy(policy).name == "default"
    trigger = of(found, "ScaledObject", "haltline-worker")["spec"]["triggers"][0]["metadata"]
    assert (trigger["topic"], trigger["consumerGroup"]) == ("eu.actions", "eu-workers")
    sink = of(found, "StatefulSet", "haltline-audit")
    assert "volumeClaimTemplates" not in sink["spec"]
    for container in sink["spec"]["template"]["spec"]["containers"]:
        assert container["args"][container["args"].index("--table") + 1] == "s3://bucket/audit"
        assert "AWS_REGION=eu-north-1" in container["args"]
    (console,) = of(found, "StatefulSet", "haltline-console")["spec"]["template"]["spec"]["containers"]
    url = {"secretKeyRef": {"name": "postgresql", "key": "url"}}
    assert console["env"] == [{"name": "HALTLINE_CONSOLE_DATABASE", "valueFrom": url}]
    assert "--database" not in console["args"]
    (egress,) = of(found, "NetworkPolicy", "haltline-console-egress")["spec"]["egress"]
    assert {one["port"] for one in egress["ports"]} == {443, 5432}


def test_alerts_are_those_of_the_rules_with_their_runbooks_and_prometheus_takes_them(tmp_path: Path) -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    (written,) = yaml.safe_load_all((KUBERNETES / "prometheus-operator" / "prometheusrule.yaml").read_text())
    assert written["spec"]["groups"] == groups
    made = of(objects(EVERYTHING), "PrometheusRule", "haltline")["spec"]
    alerts = [rule for group in made["groups"] for rule in group["rules"] if "alert" in rule]
    addresses = [rule["annotations"]["runbook_url"] for rule in alerts]
    assert all(re.fullmatch(r"https://wiki\.example\.org/runbooks/Haltline\w+\.md", address) for address in addresses)
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(made))
    printed(tool("promtool"), "check", "rules", tmp_path / "rules.yml")


def test_dashboards_are_the_files_with_the_address_of_the_console() -> None:
    found = [one for one in objects(EVERYTHING) if one["metadata"]["labels"].get("grafana_dashboard") == "1"]
    made = {name.removeprefix("haltline-"): text for one in found for name, text in one["data"].items()}
    address = ("http://127.0.0.1:8460", "https://haltline.example.org")
    assert made == {file.name: file.read_text().replace(*address) for file in DASHBOARDS.glob("*.json")}
    assert address[1] in made["fleet.json"]
    kustomization = yaml.safe_load((DEPLOY / "grafana" / "kustomization.yaml").read_text())
    files = {one["name"]: one["files"] for one in kustomization["configMapGenerator"]}
    names = {one["metadata"]["name"]: next(iter(one["data"])) for one in found}
    assert files == {at: [f"{name}=dashboards/{name.removeprefix('haltline-')}"] for at, name in names.items()}


EXTRA_OF: Final = {
    **dict.fromkeys(("worker", "audit", "audit verify", "canary", "topics create"), "processor"),
    "console": "console",
    "agent": "intake",
    "notify": "notify",
    "HALTLINE_CONSOLE_DATABASE": "postgresql",
    "HALTLINE_VERIFY_KEY": "sealed",
}
"""The extra of pyproject.toml that a command needs, or a variable of a container."""


def test_the_image_has_what_the_processes_of_the_chart_and_of_compose_need() -> None:
    needed = {EXTRA_OF[parsed([str(word) for word in one["command"]]).command] for one in OURS.values()}
    for one in objects(EVERYTHING):
        if one["kind"] in {"StatefulSet", "Deployment", "Job"}:
            for container in one["spec"]["template"]["spec"]["containers"]:
                needed.add(EXTRA_OF[parsed(container["args"]).command])
                needed |= {EXTRA_OF[env["name"]] for env in container.get("env", []) if env["name"] in EXTRA_OF}
    assert set(IN_IMAGE) == needed


def test_an_agent_s_pod_with_a_sidecar_is_one_of_kubernetes() -> None:
    pod = yaml.safe_load((DEPLOY / "sidecar" / "pod.yaml").read_text())
    kubernetes_validate.validate(pod, "1.30", strict=True)
    (sidecar,), (agent,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    address = parsed(sidecar["args"]).values["listen"]
    assert (sidecar["restartPolicy"], agent["env"][0]["value"]) == ("Always", f"http://{address}")
    assert f"http://{address}/healthz" in sidecar["startupProbe"]["exec"]["command"][-1]


def test_the_manifests_are_the_objects_of_the_chart_and_have_its_configuration() -> None:
    switched_on = {name: {"enabled": True} for name in ("keda", "podMonitor", "prometheusRule")}
    found = objects({"topics": {"hook": False}, **switched_on})
    found = [one for one in found if one["metadata"]["name"] != "haltline-worker" or one["kind"] != "StatefulSet"]
    found += [of(objects({}), "StatefulSet", "haltline-worker")]  # without KEDA: with a number of replicas
    by_hand = {"Namespace", "ConfigMap"}
    ours, theirs = (
        {f"{one['kind']} {one['metadata']['name']}": _plain(one) for one in some if one["kind"] not in by_hand}
        for some in ([one for _, one in MANIFESTS], found)
    )
    assert ours == theirs
    assert of(objects({}), "ConfigMap", "haltline")["data"] == VARIABLES


def _plain(value: Any) -> Any:
    """Without what only Helm needs: its labels, and the checksum that starts pods again (kustomize renames the map)."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    of_helm = re.compile(r"helm\.sh/chart|app\.kubernetes\.io/(version|managed-by)|checksum/.*")
    parts = {name: _plain(one) for name, one in value.items() if of_helm.fullmatch(name) is None}
    return {name: one for name, one in parts.items() if (name, one) != ("annotations", {})}
