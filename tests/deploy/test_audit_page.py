from haltline.cli.settings_table import SETTINGS
from tests.deploy.commands import parsed
from tests.deploy.test_deployment import CONTAINERS, MANIFESTS, VARIABLES
from tests.deploy.tools import options_by_variable

TABLE, PUBLIC_KEY = "HALTLINE_AUDIT_TABLE", "HALTLINE_AUDIT_PUBLIC_KEY"


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
