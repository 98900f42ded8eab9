import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.testing import CliRunner

from haltline.cli.app import app
from haltline.cli.common import Exit
from haltline.interventions.agent.settings import _FROM_ENV
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.builders import cases
from tests.deploy.commands import parsed
from tests.deploy.test_deployment import CONTAINERS, OURS, SYSTEMD, UNITS, of_unit
from tests.deploy.tools import DEPLOY, options_by_variable

SIGNED: Final[dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.signed.yaml").read_text())
PAGE: Final = (DEPLOY / "README.md").read_text()
DROP_INS: Final = sorted(SYSTEMD.glob("*.service.d/*.conf"))
READ_BY_GUARDS: Final = set(_FROM_ENV.values())


def reads(command: list[str], variable: str) -> bool:
    """Whether a command of ours reads a variable: by an option, or by the guard that is in it."""
    words = parsed(command).command
    return variable in (READ_BY_GUARDS if words == "agent" else options_by_variable(words))


@pytest.mark.parametrize("name", SIGNED["services"])
def test_compose_hands_each_key_to_who_reads_it(name: str) -> None:
    service = SIGNED["services"][name]
    for variable, path in service["environment"].items():
        assert path.removeprefix("/run/secrets/") in service["secrets"]
        assert reads(OURS[name]["command"], variable)
    assert set(service["secrets"]) <= SIGNED["secrets"].keys()


def test_nobody_but_who_signs_has_a_private_key() -> None:
    private = {name for name, secret in SIGNED["secrets"].items() if not secret["file"].endswith(".pub")}
    has = {name: private & set(service["secrets"]) for name, service in SIGNED["services"].items()}
    assert {name: keys for name, keys in has.items() if keys} == {"worker": {"worker-key"}, "audit": {"audit-key"}}
    mounted = {
        (container["name"], item["key"])
        for _, pod, container in CONTAINERS
        for volume in pod["volumes"]
        for item in volume.get("secret", {}).get("items", [])
        if volume["name"] in {mount["name"] for mount in container["volumeMounts"]}
        if not item["key"].endswith(".pub")
    }
    assert mounted == {("audit", "audit-key.pem"), ("worker", "worker-key.pem")}
    lines = [line for file in (*UNITS, *DROP_INS) for line in file.read_text().splitlines()]
    named = [line for line in lines if re.search(r"-key\.pem(?!\.pub)", line)]
    assert named
    assert all("LoadCredential=" in line or "%d/" in line for line in named)


def test_kubernetes_hands_the_worker_s_key_over_where_people_say_so() -> None:
    """Without the Secret and the ConfigMap everything runs as before; with the ConfigMap alone nothing starts."""
    (result,) = re.findall(r"kubectl create configmap haltline-sealing(.*)", PAGE)
    paths = dict(re.findall(r"--from-literal=([a-z-]+)=(\S+)", result))
    taken = set()
    for where, pod, container in CONTAINERS:
        for one in container.get("env", []):
            if (ref := one.get("valueFrom", {}).get("configMapKeyRef")) is None:
                continue
            taken.add(container["name"])
            assert ref == {"name": "haltline-sealing", "key": ref["key"], "optional": True}, where
            assert reads(container["args"], one["name"]), where
            folder, _, file = paths[ref["key"]].rpartition("/")
            (mount,) = [mount for mount in container["volumeMounts"] if mount["mountPath"] == folder]
            (volume,) = [volume for volume in pod["volumes"] if volume["name"] == mount["name"]]
            assert volume["secret"]["secretName"] == "haltline-worker-key", where
            assert volume["secret"]["optional"] is True, where
            assert [item["path"] for item in volume["secret"]["items"]] == [file], where
    assert taken == {"worker", "canary", "intake"}


@cases(
    "command, variable",
    {
        "worker": (("worker", "--metrics-port", "0"), "HALTLINE_SEALING_KEY"),
        "canary": (("canary",), "HALTLINE_VERIFY_KEY"),
    },
)
def test_a_key_that_is_not_there_is_named_and_nothing_starts(
    command: tuple[str, ...], variable: str, embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    file = str(tmp_path / "key.pem")
    done = CliRunner().invoke(app, [*command, "--bootstrap", embedded.bootstrap], env={variable: file})
    assert done.exit_code == Exit.USAGE, done.output
    assert file in done.stderr.replace("\n", "")


@pytest.mark.parametrize("file", [*UNITS, *DROP_INS], ids=lambda file: f"{file.parent.name}/{file.name}")
def test_systemd_hands_over_what_a_unit_names(file: Any) -> None:
    text = file.read_text()
    given = set(re.findall(r"^LoadCredential=([^:]+):", text, re.MULTILINE))
    assert set(re.findall(r"%d/(\S+)", text)) == given
    for variable in re.findall(r"^Environment=(\w+)=", text, re.MULTILINE):
        unit = file.parent.with_suffix("")
        assert reads(of_unit(unit), variable), f"{file}: {variable}"
