from typing import Any

from haltline.cli.settings_table import SETTINGS
from tests.deploy.commands import parsed
from tests.deploy.test_deployment import CONTAINERS, MANIFESTS, OURS, VARIABLES, WORKLOADS
from tests.deploy.test_keys import SIGNED
from tests.deploy.tools import options_by_variable

TABLE, PUBLIC_KEY = "HALTLINE_AUDIT_TABLE", "HALTLINE_AUDIT_PUBLIC_KEY"


def place_in_volume(path: str, mounts: dict[str, str]) -> tuple[str, str]:
    """The volume that a path is on, by its mounts, and the path within it."""
    (mount,) = [mount for mount in mounts if path.startswith(f"{mount}/")]
    return mounts[mount], path.removeprefix(mount)


def test_compose_has_sink_verifier_and_console_use_one_table_and_only_the_sink_writes_it() -> None:
    found = {}
    for name in ("audit", "verifier", "console"):
        volumes = [volume.split(":") for volume in OURS[name]["volumes"]]
        mounts = {mount: volume for volume, mount, *_ in volumes}
        found[name] = place_in_volume(OURS[name]["environment"][TABLE], mounts)
        assert [mode for volume, _, *mode in volumes if volume == "audit"] == [[] if name == "audit" else ["ro"]]
        assert TABLE in options_by_variable(parsed(OURS[name]["command"]).command)
    assert set(found.values()) == {("audit", "/audit")}
    signed = SIGNED["services"]
    assert signed["console"] == signed["verifier"]
    assert PUBLIC_KEY in signed["console"]["environment"]


def test_kubernetes_has_the_console_read_the_sink_s_disk_where_it_is_and_the_public_key_alone() -> None:
    found: dict[str, Any] = {}
    for _, pod, container in CONTAINERS:
        if container["name"] not in {"audit", "verifier", "console"}:
            continue
        assert container["envFrom"] == [{"configMapRef": {"name": "haltline"}}]
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        volume, path = place_in_volume(VARIABLES[TABLE], {where: mount["name"] for where, mount in mounts.items()})
        claims = {one["name"]: one["persistentVolumeClaim"] for one in pod["volumes"] if "persistentVolumeClaim" in one}
        owner = next(one for _, one in WORKLOADS if one["spec"]["template"]["spec"] is pod)
        own = f"{volume}-{owner['metadata']['name']}-0"  # as a StatefulSet names it
        writes = not next(mount for mount in mounts.values() if mount["name"] == volume).get("readOnly", False)
        found[container["name"]] = (claims[volume]["claimName"] if volume in claims else own, path, writes)
        if container["name"] != "audit":
            secret, key = place_in_volume(VARIABLES[PUBLIC_KEY], {where: m["name"] for where, m in mounts.items()})
            (items,) = [one["secret"]["items"] for one in pod["volumes"] if one["name"] == secret]
            assert [f"/{item['path']}" for item in items] == [key] == ["/audit-key.pem.pub"]
    table = ("data-haltline-audit-0", "/audit")
    assert found == {"audit": (*table, True), "verifier": (*table, False), "console": (*table, False)}
    (console,) = [pod for _, pod, container in CONTAINERS if container["name"] == "console"]
    (term,) = console["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "audit"


def test_no_setting_has_the_name_of_a_variable_that_kubernetes_sets_for_a_service() -> None:
    """A Service haltline-console gives every pod HALTLINE_CONSOLE_PORT=tcp://... and HALTLINE_CONSOLE_SERVICE_HOST."""
    services = [one["metadata"]["name"].upper().replace("-", "_") for _, one in MANIFESTS if one["kind"] == "Service"]
    taken = tuple(f"{name}_{what}" for name in services for what in ("PORT", "SERVICE_"))
    assert services
    assert [setting.variable for setting in SETTINGS if setting.variable.startswith(taken)] == []


def test_every_file_that_a_variable_names_is_on_a_volume_of_its_container() -> None:
    files = {setting.variable for setting in SETTINGS if setting.kind == "file"}
    missing = []
    for _, _, container in CONTAINERS:
        own = {one["name"]: one.get("value", "") for one in container.get("env", [])}
        mounts = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        used = options_by_variable(parsed(container["args"]).command)
        for name, path in (VARIABLES | own).items():
            if name in files & set(used) and path and not any(path.startswith(f"{mount}/") for mount in mounts):
                missing.append((container["name"], name, path))
    assert missing == []
