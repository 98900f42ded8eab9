"""Debian's Prometheus, where it is; and the rules."""

import shutil
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import typer
import yaml

from haltline.cli.app import app
from tests.deploy.helm import TARGET
from tests.programs import missing

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "haltline.rules.yml"
RUNBOOKS = DEPLOY / "runbooks"


def tool(
    name: str, hint: str = "on Debian `apt-get download prometheus` and `dpkg-deb -x` give it without a service"
) -> str:
    """The path of a tool."""
    return shutil.which(name) or missing(f"needs {name}: {hint}")


def helm() -> str:
    """The path of Helm, from PATH or from `make helm`."""
    return str(TARGET) if TARGET.exists() else tool("helm", "`make helm`")


def is_well(url: str) -> bool:
    """Return whether it responds with 200."""
    try:
        urlopen(url, timeout=10).close()
    except OSError:
        return False
    return True


def rules() -> list[dict[str, Any]]:
    """Every rule of every group."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    """The alerts by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def options_by_variable(words: str) -> set[str]:
    """The environment variables that the options of one of our commands read, such as `audit verify`."""
    command: Any = typer.main.get_command(app)
    for word in words.split():
        command = command.commands[word]
    return {option.envvar for option in command.params if isinstance(option.envvar, str)}
