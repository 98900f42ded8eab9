"""`haltline init --framework`: puts a user's program behind a guard, or writes a starter program."""

import difflib
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import typer

from haltline.cli.common import Exit, fail, say, say_error

if TYPE_CHECKING:
    from haltline.cli.frameworks.rows import Framework

STARTER: Final = "agent"
"""The name of the starter program, without its extension."""


def write_program(name: str | None, file: Path | None, *, yes: bool, dry_run: bool) -> None:
    """Show the changes, and write them if the user agrees. Exits with an exit code."""
    text = None if file is None else read_program(file)
    framework = _framework(name, file, text)
    if file is None or text is None:
        _write_starter(framework, yes=yes, dry_run=dry_run)
    elif framework.name == "mcp" and file.suffix == ".json":
        _write_servers(framework, file, text, yes=yes, dry_run=dry_run)
    elif not framework.edits:
        _by_hand(framework, file, f"haltline init edits no programs of {framework.title}")
    elif file.suffix != ".py":
        _by_hand(framework, file, f"expected a program in Python (.py), got {file.name}")
    else:
        _write_guarded(framework, file, text, yes=yes, dry_run=dry_run)


def read_program(file: Path) -> str:
    """The text of a program. Exits if it cannot be read."""
    from haltline.cli.frameworks.guarding import MAX_BYTES

    try:
        if file.stat().st_size > MAX_BYTES:
            fail(f"{file}: expected a program of at most {MAX_BYTES} bytes, got more", Exit.USAGE)
        return file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        fail(f"{file}: expected a program, got no such file", Exit.USAGE)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file}: expected a program as UTF-8 text, got {error}", Exit.USAGE)


def _framework(name: str | None, file: Path | None, text: str | None) -> "Framework":
    from haltline.cli.frameworks.guarding import frameworks_of
    from haltline.cli.frameworks.table import FRAMEWORKS

    if name is None and file is not None and file.suffix == ".json":
        name = "mcp"
    if name is None:
        found = frameworks_of(text or "")
        if len(found) != 1:
            imports = f"several: {', '.join(found)}" if found else f"none of {', '.join(FRAMEWORKS)}"
            fail(f"--framework: expected it, as {file} imports {imports}", Exit.USAGE)
        name = found[0]
    word = name.strip().lower().replace("_", "-")
    if word not in FRAMEWORKS:
        fail(f"--framework: expected one of {', '.join(FRAMEWORKS)}, got {name!r}", Exit.USAGE)
    return FRAMEWORKS[word]


def _write_starter(framework: "Framework", *, yes: bool, dry_run: bool) -> None:
    import haltline

    if "/" in framework.program:
        _by_hand(
            framework, Path(framework.program), f"haltline's package has no program of {framework.title} to begin with"
        )
    program = Path(haltline.__path__[0]) / "examples" / framework.program
    file = Path(f"{STARTER}{program.suffix}")
    text = program.read_text(encoding="utf-8")
    if file.exists():
        if file.read_bytes() == text.encode():
            say(f"{file}: this program is there already; nothing to change")
            return
        fail(f"{file}: expected no file there, got one; haltline init {file} puts it behind a guard", Exit.USAGE)
    if agreed(file, "", text, yes=yes, dry_run=dry_run):
        _write(file, text, was=None)
        _say_next(framework, file, is_new=True)


def _write_guarded(framework: "Framework", file: Path, text: str, *, yes: bool, dry_run: bool) -> None:
    from haltline.cli.frameworks.guarding import guarded_program, is_guarded
    from haltline.cli.frameworks.source import CannotEdit

    try:
        if is_guarded(text):
            say(f"{file}: it imports haltline already; nothing to change")
            return
        new = guarded_program(text, framework, _agent_id(file))
    except CannotEdit as error:
        _by_hand(framework, file, str(error))
    if agreed(file, text, new, yes=yes, dry_run=dry_run):
        _write(file, new, was=text)
        _say_next(framework, file, is_new=False)


def _write_servers(framework: "Framework", file: Path, text: str, *, yes: bool, dry_run: bool) -> None:
    from haltline.cli.frameworks.mcp_servers import behind_proxy
    from haltline.cli.frameworks.source import CannotEdit

    try:
        new, at_address = behind_proxy(text)
    except CannotEdit as error:
        _by_hand(framework, file, str(error))
    for name, address in at_address.items():
        command = shlex.join(["haltline", "mcp-proxy", "--name", name, "--url", address])
        say_error(
            f"haltline: {file}: {name} is at an address, and stays. Run this, and write the address that it prints:"
        )
        typer.echo(f"    {command}")
    if new != text:
        if agreed(file, text, new, yes=yes, dry_run=dry_run):
            _write(file, new, was=text)
            say(f"{file}: written")
            say("Next: haltline up, and a new start of the host with HALTLINE_BOOTSTRAP")
    elif not at_address:
        say(f"{file}: each server is behind the proxy already; nothing to change")
    if at_address:
        raise typer.Exit(Exit.NO)


def _by_hand(framework: "Framework", file: Path, why: str) -> NoReturn:
    """Print why nothing is written, and the lines to add. Exits."""
    from haltline.cli.frameworks.guarding import lines_to_add

    say_error(f"haltline: {file}: {why}. Nothing is written.")
    say("Add these lines yourself, the guard before the agent is made:")
    for line in lines_to_add(framework, _agent_id(file)).splitlines():
        typer.echo(f"    {line}".rstrip())
    say(f"A stopped run: {framework.ends.replace('`', '')}. More: docs/frameworks/{framework.name}.md")
    raise typer.Exit(Exit.NO)


def agreed(file: Path, old: str, new: str, *, yes: bool, dry_run: bool) -> bool:
    """Show the difference; return whether to write it."""
    before = "/dev/null" if not old else str(file)
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), before, str(file), lineterm=""):
        typer.echo(line)
    if dry_run:
        return False
    if not yes and not sys.stdin.isatty():
        fail("expected --yes, --dry-run, or a terminal on which to ask. Nothing is written", Exit.USAGE)
    return yes or typer.confirm(f"Write {file}?", default=True)


def _write(file: Path, text: str, *, was: str | None) -> None:
    """Replace the file atomically, and keep its permissions.

    `was` is its text when it was read, None if there was no file: changes that another process saved since then are not
    lost.
    """
    target = file.resolve()  # changes a link's target, not the link
    new: Path | None = None
    try:
        # An unpredictable name, and only if no such file exists.
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as written:
            new = Path(written.name)
            written.write(text.encode())
        new.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask())
        if (target.read_bytes() if target.exists() else None) != (None if was is None else was.encode()):
            new.unlink()
            state = "the file as it was read" if was is not None else "no file there"
            fail(f"{file}: expected {state}, got another one, saved since then. Nothing is written", Exit.USAGE)
        new.replace(target)
    except OSError as error:
        if new is not None:
            new.unlink(missing_ok=True)
        fail(error, Exit.USAGE)


def _umask() -> int:
    """The umask of this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _agent_id(file: Path) -> str:
    return re.sub(r"[^\w.-]+", "-", file.stem)[:64].strip("-") or STARTER


def _say_next(framework: "Framework", file: Path, *, is_new: bool) -> None:
    say(f"{file}: written")
    if not is_new:
        say(f"A stopped run: {framework.ends.replace('`', '')}. The agent's id is {_agent_id(file)}: change it there.")
    extras = ",".join([*framework.extras, "processor", "console"])
    say(f"Next: pip install 'haltline[{extras}]'; haltline up; then, on another terminal, with the address it prints:")
    say(f"  HALTLINE_BOOTSTRAP=127.0.0.1:PORT python {file}")
