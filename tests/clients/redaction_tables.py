"""The tables of redaction and of verbs for the npm package, which cannot read the files of the Python package.

python -m tests.clients.redaction_tables     # writes tables.ts and verbs.ts again
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent import destinations, held_secrets, uploads
from haltline.interventions.agent.prompts import GO_ON
from haltline.interventions.agent.redaction import fields, places, stand_ins
from haltline.interventions.agent.redaction.command_lines import PROGRAMS
from haltline.interventions.agent.redaction.forms import TABLE
from haltline.schemas.tool_names import _SHOWS, FOREIGN_VERBS, IN_OTHER_LETTERS
from haltline.schemas.tools import ending_turns

FILE: Final = Path(__file__).resolve().parents[2] / "clients" / "typescript" / "src" / "redaction" / "tables.ts"
VERBS: Final = FILE.parents[1] / "verbs.ts"

_HEAD: Final = """\
/**
 * Written by `python -m tests.clients.redaction_tables`: kinds.json and programs.json of the Python package, and the
 * patterns of held_secrets.py and destinations.py.
 */

export interface FormRow {
  readonly kind: string;
  readonly form: string;
  readonly starts?: readonly string[];
  readonly inside?: readonly string[];
  readonly back?: number;
  readonly as?: string;
  readonly check?: string;
  readonly needs?: string;
  readonly near?: string;
  readonly open?: boolean;
  readonly hosts?: readonly string[];
  readonly public?: boolean;
}

export interface BesideRow {
  readonly kind: string;
  readonly words: readonly string[];
  readonly form: string;
  readonly hosts?: readonly string[];
}

export interface ProgramRow {
  readonly programs: readonly string[];
  readonly values: readonly string[];
  readonly after?: readonly string[];
}
"""
_OF_FORMS: Final = (
    "kind",
    "form",
    "starts",
    "inside",
    "back",
    "as",
    "check",
    "needs",
    "near",
    "open",
    "hosts",
    "public",
)
_OF_BESIDE: Final = ("kind", "words", "form", "hosts")
_PATTERNS: Final = {
    "HOLDS_CREDENTIALS": held_secrets._HOLDS_CREDENTIALS,
    "VALUE": held_secrets._VALUE,
    "NO_VALUE": held_secrets._NO_VALUE,
    "BREAKS": held_secrets._SPACES,
    "URL_HOST": destinations._URL,
    "AT_HOST": destinations._AT,
    "BARE_HOST": destinations._BARE,
    "WORD_HOST": destinations._WORD,
    "LOCAL_HOST": destinations._LOCAL,
    "SENDING_TOOL": destinations._SENDING_TOOL,
    "KEEPING_TOOL": destinations._KEEPING_TOOL,
    "SENDING_COMMAND": destinations._SENDING_COMMAND,
    "VIA_HOST": destinations._VIA,
    "PUBLISHING": destinations._PUBLISHING,
    "LABELS": held_secrets._LABELS,
    "UPLOADED_BY_TOOL": uploads._BY_TOOL,
    "UPLOADING_TOOL": uploads._TOOL,
    "CODE": stand_ins._CODE,
    "COUNT": stand_ins._COUNT,
    "IDENTIFIER": stand_ins._IDENTIFIER,
    "PLACEHOLDER": stand_ins._PLACEHOLDER,
    "CONSTANT": stand_ins._CONSTANT,
    "IN_FORM": stand_ins._IN_FORM,
    "IN_ADDRESS": stand_ins._IN_ADDRESS,
    "TEMPLATE": stand_ins._TEMPLATE,
    "PLACE": places._PLACE,
    "VALUE_FIRST": places._VALUE_FIRST,
    **{f"BEFORE_{name.upper()}": form for name, form in places._BEFORE.items()},
    "PASSWORDS": fields._PASSWORDS,
    "CODES": fields._CODES,
}


_GROUPS: Final = {"(?P<": "(?<", "(?i:": "(?:", "(?P=": ""}


def _rows(name: str, kind: str, rows: list[dict[str, Any]]) -> str:
    lines = "".join(f"  {json.dumps(row)},\n" for row in rows)
    return f"\nexport const {name}: readonly {kind}[] = [\n{lines}];\n"


def as_text() -> str:
    forms: list[dict[str, Any]] = [{name: row[name] for name in _OF_FORMS if name in row} for row in TABLE["forms"]]
    beside: list[dict[str, Any]] = [{name: row[name] for name in _OF_BESIDE if name in row} for row in TABLE["beside"]]
    return (
        _HEAD
        + _rows("FORMS", "FormRow", forms)
        + _rows("BESIDE", "BesideRow", beside)
        + _rows("PROGRAMS", "ProgramRow", PROGRAMS)
        + "".join(f"\nexport const {name} = {json.dumps(_of_javascript(form))};\n" for name, form in _PATTERNS.items())
        + f"\nexport const UPLOADS: readonly string[] = {json.dumps([*map(_of_javascript, uploads._ANY)])};\n"
        + f"\nexport const NO_DOMAINS: readonly string[] = {json.dumps(sorted(destinations._NO_DOMAINS))};\n"
        + f"\nexport const OWN_HOSTS: Readonly<Record<string, string>> = {json.dumps(destinations._OWN_HOSTS)};\n"
    )


def _of_javascript(form: re.Pattern[str]) -> str:
    """The pattern without what JavaScript takes for more than ASCII."""
    parts, is_set, depth, any_case = [], False, 0, 0
    for part in re.findall(r"\[\\s\\S\]|\(\?P?[<=i][:!=]?|\\.|[^\\]", form.pattern):
        is_set = (part == "[" and not is_set) or (is_set and part != "]")
        depth += 0 if is_set else part.startswith("(") - (part == ")")
        if part == "(?i:":
            any_case = depth
        elif depth < any_case:
            any_case = 0
        special = {"\\s": r"\t-\r " if is_set else r"[\t-\r ]", '\\"': '"', "\\Z": "$"} | _GROUPS
        if part == "(?P=":
            parts.append(r"\k<")
        parts.append(
            f"[{part}{part.upper()}]"
            if any_case and not is_set and part.isalpha() and part.islower()
            else special.get(part, part)
        )
    return re.sub(r"\\k<(\w+)\)", r"\\k<\1>", "".join(parts))


def verbs_as_text() -> str:
    """The other file: verbs of other languages that take something away, tools that end a turn, words to go on."""
    tables = {
        "FOREIGN_VERBS": sorted(FOREIGN_VERBS),
        "IN_OTHER_LETTERS": IN_OTHER_LETTERS,
        "SHOWS": _SHOWS,
        "ENDING_TURNS": ending_turns(),
        "GO_ON": sorted(GO_ON),
    }
    return (
        "/** Written by `python -m tests.clients.redaction_tables`: of tool_names.py, tools.toml, prompts.py. */\n"
        + "".join(
            f"\nexport const {name}: readonly string[] = {json.dumps(words)};\n" for name, words in tables.items()
        )
    )


if __name__ == "__main__":
    FILE.write_text(as_text(), encoding="ascii")
    VERBS.write_text(verbs_as_text(), encoding="ascii")
    print(f"wrote {FILE.name}: {FILE.stat().st_size} bytes")
