"""Operator commands, run in this process."""

from collections.abc import Mapping

from typer.testing import CliRunner, Result

from haltline.cli.app import app


def haltline(*words: object, given: str | bytes | None = None, env: Mapping[str, str | None] | None = None) -> Result:
    """How `haltline WORDS` ends with this as its standard input, on a terminal of 200 columns."""
    variables = {"HALTLINE_OPERATOR": None, "COLUMNS": "200", **(env or {})}
    return CliRunner().invoke(app, [*map(str, words)], input=given, env=variables)


def said(*words: object, given: str | bytes | None = None) -> tuple[int, str]:
    """Its exit code, and all that it printed."""
    done = haltline(*words, given=given)
    return done.exit_code, done.output
