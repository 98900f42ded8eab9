"""Debian's Prometheus, where it is; and the rules."""

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from haltline.cli.app import app
from tests.deploy.helm import TARGET

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "haltline.rules.yml"
RUNBOOKS = DEPLOY / "runbooks"


def tool(
    name: str, hint: str = "on Debian `apt-get download prometheus` and `dpkg-deb -x` give it without a service"
) -> str:
    """Where a tool is; without it a test is skipped on a developer's machine, and fails with CI=true."""
    found = shutil.which(name)
    if found is not None:
        return found
    reason = f"needs {name}: {hint}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true: {reason}", pytrace=False)
    pytest.skip(reason)


def helm() -> str:
    """Where Helm is, or `make helm` has put it."""
    return str(TARGET) if TARGET.exists() else tool("helm", "`make helm`")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


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
