"""`haltline init`: puts an agent behind a guard, and writes haltline.toml with keys beside it."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from haltline.cli.common import Exit, UsageErrors, fail, say
from haltline.cli.settings_file import FILE, BadSettings, read
from haltline.cli.settings_table import SECTIONS, SETTINGS, Setting

KEYS: Final = "haltline-keys"
"""The folder of keys, beside haltline.toml."""
_SIGNING: Final = "audit.pem"
_EXAMPLES: Final = {
    "text": '"TEXT"',
    "file": '"FILE"',
    "files": '["FILE"]',
    "folder": '"DIR"',
    "folder or URI": '"DIR"',
    "database URL": '"sqlite:///console.db"',
    "table of texts": '{ NAME = "TEXT" }',
    "true or false": "false",
}


def _frameworks() -> list[str]:
    """The frameworks' names, for shell completion."""
    from haltline.cli.frameworks.table import FRAMEWORKS

    return [*FRAMEWORKS]


def init(
    program: Annotated[
        Path | None,
        typer.Argument(help="An agent's program, which is put behind a guard; the rest is left alone.", metavar="FILE"),
    ] = None,
    *,
    framework: Annotated[
        str | None,
        typer.Option(
            help="The framework of the agent, as in pydantic-ai: FILE is put behind a guard, or agent.py written.",
            metavar="NAME",
            autocompletion=_frameworks,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="For a program: show the changes, and write nothing.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Undo what was written into FILE; later changes stay.")] = False,
    bootstrap: Annotated[
        str | None,
        typer.Option(help="Kafka's address. Default: `haltline up` starts its own broker.", metavar="HOST:PORT"),
    ] = None,
    table: Annotated[
        str | None, typer.Option(help="The audit table. Default: `haltline up` creates one.", metavar="DIR")
    ] = None,
    operator: Annotated[str | None, typer.Option(help="Your name, for the audit.", metavar="NAME")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing; settings without an option stay at their defaults.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing haltline.toml; its keys stay.")] = False,
) -> None:
    """Put an agent behind a guard, and write haltline.toml with keys for the console and for signing the audit.

    With --framework or FILE only the program is written, after its changes were shown and accepted; a program that
    cannot be edited safely is left as it is, and the lines to add are printed (exit code 1). FILE may also be a host's
    JSON file with MCP servers: the proxy is put before each. Without them, on a terminal, it offers the hook of
    the coding agents on this machine, then asks for the framework and for the settings of haltline.toml. The console's
    keys are printed once; the file has their digests.

    Example: haltline init --framework pydantic-ai --yes

    Example: haltline init --undo agent.py

    Example: haltline init --yes --operator ada
    """
    if framework is not None or program is not None:
        if force or not {bootstrap, table, operator} <= {None}:
            fail("--framework and FILE: expected no option of haltline.toml beside them, got one", Exit.USAGE)
        _edit(framework, program, undo=undo, yes=yes, dry_run=dry_run)
        return
    if dry_run or undo:
        name = "--undo: expected FILE" if undo else "--dry-run: expected --framework or FILE"
        fail(f"{name} beside it, got none", Exit.USAGE)
    file = Path(FILE).absolute()
    if sys.stdin.isatty() and not yes:
        _ask_for_hooks()
    if sys.stdin.isatty() and not yes and _ask_for_program() and file.exists():
        say(f"{file}: kept")
        return
    if file.exists() and not force:
        fail(f"{file}: expected no file there, got one; --force replaces it", Exit.USAGE)
    if sys.stdin.isatty() and not yes:
        bootstrap = _question("Kafka's address (empty: `haltline up` starts a broker)", bootstrap)
        table = _question("Audit table, a folder or s3://... (empty: `haltline up` makes one)", table)
        operator = _question("Your name, for the audit (empty: type --by each time)", operator)
    given = {"kafka.bootstrap": bootstrap, "audit.table": table, "operator.name": operator}
    values = {name: value.strip() for name, value in given.items() if value and value.strip()}
    folder = file.parent / KEYS
    with UsageErrors(OSError, BadSettings):
        printed = _make_keys(folder, values.get("operator.name", "operator"))
        values["console.keys"] = f"{KEYS}/console.yaml"
        if (folder / _SIGNING).exists():
            values |= {"audit.signing_key": f"{KEYS}/{_SIGNING}", "audit.public_key": f"{KEYS}/{_SIGNING}.pub"}
        _write(file, values)
    say(f"{file}: written; `haltline config show` says what is set")
    for line in printed:
        say(line)
    if "kafka.bootstrap" in values:
        say("Next: haltline topics create --partitions 12 --replication 3, then haltline up, or haltline doctor")
    else:
        say("Next: haltline up")


def _ask_for_hooks() -> None:
    """Offer the hook that decides on this machine, for each coding agent with files in the user's home.

    Ends the command when one was accepted and nothing else was requested.
    """
    from haltline.cli.agent import hook_settings

    used = {name: Path(one.of_user).expanduser() for name, one in hook_settings.AGENTS.items()}
    accepted = False
    for name in [name for name, settings in used.items() if settings.parent.exists()]:
        question = f"{name} is used on this machine. Stop its runaway sessions, deciding here, without a server?"
        if typer.confirm(question, default=True):
            install = ["install", "--for", name, "--local", "--settings", str(used[name])]
            accepted |= hook_settings.main(install) == 0
    if accepted and not typer.confirm("Set up an agent's program or haltline's servers as well?", default=False):
        raise typer.Exit


def _edit(framework: str | None, program: Path | None, *, undo: bool, yes: bool, dry_run: bool) -> None:
    from haltline.cli.operator.init_program import take_back, write_program

    if not undo:
        write_program(framework, program, yes=yes, dry_run=dry_run)
    elif program is None or framework is not None:
        fail("--undo: expected FILE beside it and no --framework", Exit.USAGE)
    else:
        take_back(program, yes=yes, dry_run=dry_run)


def _ask_for_program() -> bool:
    """Return whether there is a program to guard; otherwise the agent uses no known framework."""
    from haltline.cli.operator.init_program import ask_framework, ask_program, write_program

    row = ask_framework(Path.cwd())
    if row is None:
        return False
    write_program(row.name, ask_program(), yes=False, dry_run=False)
    return True


def _question(text: str, given: str | None) -> str | None:
    """The user's answer, or the value of an option, for which no question is shown."""
    return typer.prompt(text, default="", show_default=False).strip() if given is None else given


def _make_keys(folder: Path, operator: str) -> list[str]:
    """Create missing keys; return the lines to print. Raises OSError."""
    from haltline.console.access.keys import Role, digest_of, new_key  # imports pydantic

    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")  # keys must not be committed to a repository
    lines = []
    signing = folder / _SIGNING
    try:
        from haltline.schemas.keys import make_keys  # cryptography is slow to import

        make_keys(signing)
        lines.append(f"{signing}: the private key that signs the audit; audit.pem.pub proves it")
    except FileExistsError:
        lines.append(f"{signing}: kept, as it proves what it has signed")
    except ModuleNotFoundError:
        lines.append(
            f"{signing}: not made, as it needs cryptography: pip install 'haltline[processor]'; haltline init --force"
        )
    people = folder / "console.yaml"
    if people.exists():
        return [*lines, f"{people}: kept"]
    keys = {(operator, Role.OPERATOR): new_key(), ("viewer", Role.VIEWER): new_key()}
    people.touch(mode=0o600)
    entries = (
        f"- {{name: {json.dumps(name, ensure_ascii=False)}, role: {role}, sha256: {digest_of(key)}}}\n"
        for (name, role), key in keys.items()
    )
    people.write_text("".join(entries), encoding="utf-8")
    lines.append(f"{people}: who may sign in to the console. Their keys, which are in no file and not shown again:")
    return [*lines, *(f"  {name} ({role}): {key}" for (name, role), key in keys.items())]


def _write(file: Path, values: Mapping[str, str]) -> None:
    """Write the file if it is valid. Raises OSError and BadSettings."""
    new = file.with_name(f"{file.name}.new")
    new.write_text("\n".join(_lines(values)), encoding="utf-8")
    try:
        read(str(new))
    except BadSettings:
        new.unlink()
        raise
    new.replace(file)


def _lines(values: Mapping[str, str]) -> Iterator[str]:
    yield "# Settings of haltline's commands in this folder and below it. Options override environment variables,"
    yield "# which override this file. Paths are relative to it. It holds no secrets: name files of keys instead."
    yield "# docs/configuration.md describes each setting; `haltline config show` prints those in use."
    for section, text in SECTIONS.items():
        if section == "agent":
            continue
        yield f"\n[{section}]\n# {text}"
        for setting in (one for one in SETTINGS if one.section == section):
            default = f" (default: {setting.default})" if setting.default else ""
            yield f"# {setting.help.removesuffix('.')}{default}"
            value = values.get(setting.name)
            literal = _example(setting) if value is None else json.dumps(value, ensure_ascii=False)
            yield f"{'# ' if value is None else ''}{setting.key} = {literal}"
    yield "\n# [agent] belongs in ~/.config/haltline/haltline.toml of the user who runs the agent: `haltline hook`,"
    yield "# `watch` and `mcp-proxy` read nothing from a folder that the agent can write.\n"


def _example(setting: Setting) -> str:
    """An example value of the setting's kind, in TOML."""
    if setting.kind.startswith("one of "):
        return f'"{setting.kind.removeprefix("one of ").partition(",")[0]}"'
    if setting.kind == "text" and setting.default and " " not in setting.default:
        return f'"{setting.default}"'
    return _EXAMPLES.get(setting.kind) or setting.default or "0"
