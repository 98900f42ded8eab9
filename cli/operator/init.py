"""`haltline init`: writes haltline.toml with keys beside it, and prints the lines that guard an agent."""

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
    from haltline.cli.frameworks import FRAMEWORKS

    return [*FRAMEWORKS]


def init(
    *,
    framework: Annotated[
        str | None,
        typer.Option(
            help="Only print the lines that guard an agent of this framework, as in pydantic-ai, or mcp for .mcp.json.",
            metavar="NAME",
            autocompletion=_frameworks,
        ),
    ] = None,
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
    """Write haltline.toml with keys for the console and for signing the audit.

    On a terminal it offers the hook of the coding agents on this machine, then asks for the settings of haltline.toml.
    The console's keys are printed once; the file has their digests. --framework prints lines, and writes nothing.

    Example: haltline init --framework pydantic-ai

    Example: haltline init --yes --operator ada
    """
    if framework is not None:
        _print_lines(framework)
        return
    file = Path(FILE).absolute()
    asks = sys.stdin.isatty() and not yes
    if asks:
        _ask_for_hooks()
    if file.exists() and not force:
        fail(f"{file}: expected no file there, got one; --force replaces it", Exit.USAGE)
    if asks:
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
        say("Next: haltline topics create --replication 3, then haltline up, or haltline doctor")
    else:
        say("Next: haltline up")
    say(f"An agent's lines: haltline init --framework NAME, one of {', '.join(_frameworks())}")


def _ask_for_hooks() -> None:
    """Offer the hook that decides on this machine, for each coding agent with files in the user's home.

    Ends the command when one was accepted and nothing else was requested.
    """
    from haltline.cli.agent import hook_settings, persons

    used = {name: Path(one.of_user).expanduser() for name, one in hook_settings.AGENTS.items()}
    accepted = False
    for name in [name for name, settings in used.items() if settings.parent.exists()]:
        question = f"{name} is used on this machine. Stop its runaway sessions, deciding here, without a server?"
        if typer.confirm(question, default=True):
            install = ["install", "--for", name, "--local", "--user"]
            accepted |= hook_settings.main(install, refusal=persons.refusal) == 0
    if accepted and not typer.confirm("Set up haltline's servers as well?", default=False):
        raise typer.Exit


def _print_lines(framework: str) -> None:
    from haltline.cli.frameworks import FRAMEWORKS

    row = FRAMEWORKS.get(framework)
    if row is None:
        fail(f"--framework: expected one of {', '.join(FRAMEWORKS)}, got {framework!r}", Exit.USAGE)
    if row.extras:
        say(f"pip install 'haltline[{','.join(row.extras)}]', and in the program, the guard before the agent is made:")
    for line in row.lines.splitlines():
        typer.echo(f"    {line}".rstrip())
    say(f"A stopped run: {row.ends.replace('`', '')}. More: docs/frameworks/{row.name}.md")


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
