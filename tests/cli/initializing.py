"""`haltline init`, as it is called on a wide terminal."""

from typer.testing import CliRunner, Result

from haltline.cli.app import app


def init(*words: str) -> Result:
    """Runs the command."""
    return CliRunner().invoke(app, ["init", *words], env={"COLUMNS": "300"})
