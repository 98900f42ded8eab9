"""The tables of redaction and of verbs for the npm package, which cannot read the files of the Python package.

python -m tests.clients.redaction_tables     # writes tables.ts and verbs.ts again
"""

import json
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.redaction.command_lines import PROGRAMS
from haltline.interventions.agent.redaction.forms import TABLE
from haltline.schemas.tool_names import _SHOWS, FOREIGN_VERBS, IN_OTHER_LETTERS

FILE: Final = Path(__file__).resolve().parents[2] / "clients" / "typescript" / "src" / "redaction" / "tables.ts"
VERBS: Final = FILE.parents[1] / "verbs.ts"

_HEAD: Final = """\
/** Written by `python -m tests.clients.redaction_tables`: kinds.json and programs.json of the Python package. */

export interface FormRow {
  readonly kind: string;
  readonly form: string;
  readonly starts?: readonly string[];
  readonly inside?: readonly string[];
  readonly back?: number;
  readonly as?: string;
  readonly check?: string;
  readonly needs?: string;
  readonly open?: boolean;
}

export interface BesideRow {
  readonly kind: string;
  readonly words: readonly string[];
  readonly form: string;
}

export interface ProgramRow {
  readonly programs: readonly string[];
  readonly values: readonly string[];
  readonly after?: readonly string[];
}
"""
_OF_FORMS: Final = ("kind", "form", "starts", "inside", "back", "as", "check", "needs", "open")
_OF_BESIDE: Final = ("kind", "words", "form")


def _rows(name: str, kind: str, rows: list[dict[str, Any]]) -> str:
    lines = "".join(f"  {json.dumps(row)},\n" for row in rows)
    return f"\nexport const {name}: readonly {kind}[] = [\n{lines}];\n"


def as_text() -> str:
    """The file."""
    forms: list[dict[str, Any]] = [{name: row[name] for name in _OF_FORMS if name in row} for row in TABLE["forms"]]
    beside: list[dict[str, Any]] = [{name: row[name] for name in _OF_BESIDE} for row in TABLE["beside"]]
    return (
        _HEAD
        + _rows("FORMS", "FormRow", forms)
        + _rows("BESIDE", "BesideRow", beside)
        + _rows("PROGRAMS", "ProgramRow", PROGRAMS)
    )


def verbs_as_text() -> str:
    """The other file: verbs of other languages that take something away."""
    tables = {"FOREIGN_VERBS": sorted(FOREIGN_VERBS), "IN_OTHER_LETTERS": IN_OTHER_LETTERS, "SHOWS": _SHOWS}
    return "/** Written by `python -m tests.clients.redaction_tables`: those of tool_names.py. */\n" + "".join(
        f"\nexport const {name}: readonly string[] = {json.dumps(words)};\n" for name, words in tables.items()
    )


if __name__ == "__main__":
    FILE.write_text(as_text(), encoding="ascii")
    VERBS.write_text(verbs_as_text(), encoding="ascii")
    print(f"wrote {FILE.name}: {FILE.stat().st_size} bytes")
