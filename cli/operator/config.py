"""`haltline config show`: the settings in use and their sources."""

import os
from typing import Annotated

import typer

from haltline.cli import settings_file
from haltline.cli.common import AsJson, UsageErrors, print_json, say
from haltline.cli.settings_table import BESIDE_AGENT, SETTINGS, Setting
from haltline.cli.tables import print_table

config = typer.Typer(help="Show the settings of haltline.toml and the environment.", no_args_is_help=True)


@config.command()
def show(
    *,
    beside_agent: Annotated[
        bool,
        typer.Option("--beside-agent", help="As hook, watch and mcp-proxy read it: nothing of the working directory."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print each setting, its value, and its source: the environment, a line of a file, or the default.

    Options of a command override them. Passwords are not printed.

    Example: haltline config show
    """
    with UsageErrors(settings_file.BadSettings):
        files = settings_file.files_in_use(os.environ, beside_agent=beside_agent)
        found = settings_file.load(os.environ, beside_agent=beside_agent)
    shown = [_shown(one, found) for one in SETTINGS if not beside_agent or one.section in BESIDE_AGENT]
    if as_json:
        print_json({"files": files, "settings": shown})
        return
    say(f"files: {', '.join(files) or 'none; `haltline init` makes one'}")
    rows = [(str(one["setting"]), one["value"] or "-", str(one["origin"])) for one in shown]
    styles = ["dim" if one["origin"] == "default" else "" for one in shown]
    print_table(("setting", "value", "from"), rows, first_style=styles)


def _shown(setting: Setting, found: dict[str, settings_file.Found]) -> dict[str, str | None]:
    """One setting, its value in the form of its variable, and its source."""
    value, origin = setting.default or None, "default"
    if os.environ.get(setting.variable):
        value, origin = os.environ[setting.variable], f"environment, {setting.variable}"
    elif setting.variable in found and setting.variable not in os.environ:
        value, origin = found[setting.variable].value, found[setting.variable].place
    value = value and settings_file.without_secrets(setting, value)
    return {"setting": setting.name, "variable": setting.variable, "value": value, "origin": origin}
