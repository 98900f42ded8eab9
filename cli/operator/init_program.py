"""`haltline init --framework`: puts a user's program behind a guard, or writes a starter program."""

import ast
import difflib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import typer

from haltline.cli.common import Exit, fail, say, say_error
from haltline.cli.operator.init_undo import CannotUndo, Written, forget, recall, remember, undone

if TYPE_CHECKING:
    from haltline.cli.frameworks.rows import Framework

STARTER: Final = "agent"
"""The name of the starter program, without its extension."""


def ask_framework(folder: Path) -> "Framework | None":
    """Ask for the agent's framework, with the most likely one as the default; None: none of them."""
    from haltline.cli.frameworks.detecting import installed, named, proposed
    from haltline.cli.frameworks.table import FRAMEWORKS

    there = set(installed())
    for number, row in enumerate(FRAMEWORKS.values(), start=1):
        say(f"{number:>3}  {row.name:<18} {row.title}{' (installed)' if row.name in there else ''}")
    found = proposed(None, folder)
    if found is not None:
        say(f"{found[0]}: {found[1]}")

    def chosen(text: str) -> "Framework | None":
        try:
            return None if text.strip() in {"", "none"} else named(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    question = "Which framework does the agent use? A name or a number; none: no program is written"
    answer: Framework | None = typer.prompt(question, default=found[0] if found else "none", value_proc=chosen)
    return answer


def ask_program() -> Path | None:
    """Ask for the program to change; None: write a new one."""
    given = typer.prompt("Its program, which is changed (empty: a new one)", default="", show_default=False).strip()
    return Path(given) if given else None


def write_program(name: str | None, file: Path | None, *, yes: bool, dry_run: bool) -> None:
    """Show the changes, and write them if the user agrees. Exits with an exit code."""
    text = None if file is None else read_program(file)
    framework = _framework(name, file, text)
    if file is None or text is None:
        _write_starter(framework, yes=yes, dry_run=dry_run)
    elif framework.name == "mcp" and file.suffix == ".json":
        _write_servers(framework, file, text, yes=yes, dry_run=dry_run)
    elif not framework.edits and framework.in_javascript is None:
        _by_hand(framework, file, f"haltline init edits no programs of {framework.title}")
    elif framework.edits and file.suffix != ".py":
        _by_hand(framework, file, f"expected a program in Python (.py), got {file.name}")
    else:
        _write_guarded(framework, file, text, yes=yes, dry_run=dry_run)


def take_back(file: Path, *, yes: bool, dry_run: bool) -> None:
    """Show the changes to undo, and write them if the user agrees. Exits with an exit code."""
    now = read_program(file)
    try:
        text = undone(recall(file), now)
        if text is not None and file.suffix == ".py":
            ast.parse(text)
    except (CannotUndo, SyntaxError) as error:
        fail(f"--undo: {error}. Nothing is written", Exit.NO)
    if not agreed(file, now, text or "", yes=yes, dry_run=dry_run):
        return
    if text is None:
        file.unlink()
    else:
        write_file(file, text, was=now)
    forget(file)
    say(f"{file}: {'deleted, as init has created it' if text is None else 'undone'}")


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
    from haltline.cli.frameworks.detecting import in_program, named, proposed
    from haltline.cli.frameworks.table import FRAMEWORKS

    if name is not None:
        try:
            return named(name)
        except ValueError as error:
            fail(f"--framework: {error}", Exit.USAGE)
    if file is not None and file.suffix == ".json":
        return FRAMEWORKS["mcp"]
    if text is not None and len(found := in_program(text)) > 1 and not sys.stdin.isatty():
        fail(f"--framework: expected it, as {file} imports several: {', '.join(found)}", Exit.USAGE)
    guess = proposed(text, Path.cwd())
    if guess is None:
        fail(f"--framework: expected one of {', '.join(FRAMEWORKS)}, got none", Exit.USAGE)
    say(f"{guess[0]}: {guess[1]}")
    return FRAMEWORKS[guess[0]]


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
    from haltline.cli.frameworks.javascript import guarded_javascript, imports_haltline
    from haltline.cli.frameworks.source import CannotEdit

    change = framework.in_javascript
    try:
        if imports_haltline(text) if change is not None else is_guarded(text):
            say(f"{file}: it imports haltline already; nothing to change")
            return
        if change is not None:
            new = guarded_javascript(text, framework, change, _agent_id(file), file.name)
        else:
            new = guarded_program(text, framework, _agent_id(file), app=_app_of(file))
    except CannotEdit as error:
        _by_hand(framework, file, str(error))
    if agreed(file, text, new, yes=yes, dry_run=dry_run):
        _write(file, new, was=text)
        _say_next(framework, file, is_new=False)


def _write_servers(framework: "Framework", file: Path, text: str, *, yes: bool, dry_run: bool) -> None:
    from haltline.cli.frameworks.mcp_servers import behind_proxy
    from haltline.cli.frameworks.source import CannotEdit

    try:
        new, at_address = behind_proxy(text, _free_ports())
    except CannotEdit as error:
        _by_hand(framework, file, str(error))
    left = [one for one in at_address if one.why]
    for one in left:
        say_error(
            f"haltline: {file}: {one.name}: {one.why}. It is left as it is. By hand, in the file and on a terminal:"
        )
        typer.echo(f"    {one.member}\n    {one.command}")
    if new == text and not left:
        say(f"{file}: each server is behind the proxy already; nothing to change")
    elif new != text and agreed(file, text, new, yes=yes, dry_run=dry_run):
        _write(file, new, was=text)
        say(f"{file}: written; haltline init --undo {file} takes it back")
        if started := [one.command for one in at_address if not one.why]:
            say(
                "These proxies must run beside the host (pip install 'haltline[mcp]'), which reaches no server without:"
            )
            typer.echo("\n".join(f"    {command}" for command in started))
        say("Next: haltline up, and a new start of the host and of these with HALTLINE_BOOTSTRAP")
    if left:
        raise typer.Exit(Exit.NO)


def _free_ports() -> Iterator[int]:
    """Ports of this machine for proxies, from their default one."""
    from haltline.cli.frameworks.mcp_servers import FIRST_PORT

    for port in count(FIRST_PORT):
        with suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            yield port


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
    """Write the file, and store what `--undo` needs."""
    write_file(file, text, was=was)
    try:
        remember(file, Written(was, text))
    except OSError as error:
        say_error(f"haltline: --undo will not work for it: {error}")


def write_file(file: Path, text: str, *, was: str | None) -> None:
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


def _app_of(file: Path) -> str:
    """ADK's name of a program's application: its folder, if the file's name is generic."""
    name = file.resolve().parent.name if file.stem in {"agent", "__init__"} else file.stem
    name = re.sub(r"\W+", "_", name, flags=re.ASCII)
    return name if name[:1].isalpha() and name != "user" else f"app_{name}"


def _say_next(framework: "Framework", file: Path, *, is_new: bool) -> None:
    say(f"{file}: written; haltline init --undo {file} undoes it")
    if not is_new:
        say(f"A stopped run: {framework.ends.replace('`', '')}. The agent's id is {_agent_id(file)}: change it there.")
    if framework.language != "python":
        say(f"When the run is over: await session.end(). Next: docs/frameworks/{framework.name}.md")
        return
    extras = ",".join([*framework.extras, "processor", "console"])
    say(f"Next: pip install 'haltline[{extras}]'; haltline up; then, on another terminal, with the address it prints:")
    say(f"  HALTLINE_BOOTSTRAP=127.0.0.1:PORT python {file}")
