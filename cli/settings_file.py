"""Reader of haltline.toml: finds the file, checks it, and converts its values to environment variables.

Imported with every hook of Claude Code: the standard library only, and tomllib only if there is a file.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping
from functools import cache
from typing import Any, Final, NamedTuple, NoReturn

from haltline.cli.settings_table import BESIDE_AGENT, REMOVED, SECTIONS, SETTINGS, Setting

VARIABLE: Final = "HALTLINE_CONFIG"
"""The path of the file; empty: none is read."""
FILE: Final = "haltline.toml"
RUN_FILE: Final = os.path.join(".haltline", "up.toml")
"""The file of `haltline up` in its folder, by which commands there find its broker and its table."""
_NOT_READ_FOR: Final = frozenset({"", "init", "config", "import", "completion", "undo", "--version"})
_BESIDE_AGENT_COMMANDS: Final = frozenset({"agent", "hook", "watch", "mcp-proxy"})
_SECRET_NAMES: Final = ("SECRET", "TOKEN", "PASSWORD", "ACCESS_KEY", "ACCOUNT_KEY", "SAS_KEY", "CREDENTIAL")
_WRITABLE_BY_OTHERS: Final = 0o002


class BadSettings(ValueError):
    """An invalid file: file, line, key, what was expected and what was received."""


class Found(NamedTuple):
    """A value in the form of its environment variable, and its place."""

    value: str
    file: str
    line: int
    """0: not known, in an inline table."""

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}" if self.line else self.file


def apply(command: str, environ: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables that the file names and the environment lacks, before a command reads them.

    Raises BadSettings.
    """
    if command in _NOT_READ_FOR:
        return
    beside_agent = command in _BESIDE_AGENT_COMMANDS
    for variable, found in load(environ, beside_agent=beside_agent, run_file=command != "up").items():
        environ.setdefault(variable, found.value)


def load(environ: Mapping[str, str], *, beside_agent: bool = False, run_file: bool = True) -> dict[str, Found]:
    """The values of the files, by variable. Raises BadSettings.

    `beside_agent`: for a command that runs beside an agent. It reads nothing from the working directory, which the
    agent can write, and only the sections that a guard needs. `run_file`: also read the file of `haltline up`.
    """
    found: dict[str, Found] = {}
    for file in files_in_use(environ, beside_agent=beside_agent, run_file=run_file):
        for variable, one in read(file, warn=not beside_agent).items():
            found.setdefault(variable, one)
    if beside_agent:
        kept = {setting.variable for setting in SETTINGS if setting.section in BESIDE_AGENT}
        found = {variable: one for variable, one in found.items() if variable in kept}
    return found


def files_in_use(environ: Mapping[str, str], *, beside_agent: bool = False, run_file: bool = True) -> list[str]:
    """The files, the first of which wins: `haltline.toml`, and the file of `haltline up` beside it.

    Raises BadSettings for a named file that does not exist, and for one that another user could have planted.
    """
    named = environ.get(VARIABLE)
    if named == "":
        return []
    if named is not None:
        if beside_agent and not os.path.isabs(named):
            _fail(VARIABLE, f"expected an absolute path for a command that runs beside an agent, got {named!r}")
        if not os.path.isfile(named):
            _fail(VARIABLE, f"expected a file, got {named!r}, which is none")
    names = ([FILE] if named is None else []) + ([RUN_FILE] if run_file else [])
    folders = [] if beside_agent else _folder_and_parents(os.getcwd())
    found: list[str] = []
    for folder in folders:
        found = [path for path in (os.path.join(folder, name) for name in names) if os.path.isfile(path)]
        if found:
            break
    user = user_file(environ)
    if named is None and not any(os.path.basename(path) == FILE for path in found) and os.path.isfile(user):
        found.append(user)
    for path in found:
        _require_own(path)
    return [*([] if named is None else [named]), *found]


def user_file(environ: Mapping[str, str]) -> str:
    """The user's own file, in the configuration folder."""
    folder = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):  # as in the XDG specification
        folder = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "haltline", FILE)


def read(file: str, *, warn: bool = True) -> dict[str, Found]:
    """The values of one file, by variable; `warn` of those that this release no longer has. Raises BadSettings."""
    import tomllib  # takes 10 ms, only if a file exists

    try:
        with open(file, "rb") as opened:
            text = opened.read().decode()
        document = tomllib.loads(text)
    except OSError as error:
        _fail(file, f"expected a file that can be read, got {error.strerror or error}")
    except ValueError as error:
        _fail(file, f"expected TOML, got {error}")
    lines = _lines(text)
    known = {(setting.section, setting.key): setting for setting in SETTINGS}
    found: dict[str, Found] = {}
    gone: list[str] = []
    for section, keys in document.items():
        if section in REMOVED:
            gone.append(section)
            continue
        line = lines.get((section, ""), lines.get(("", section), 0))
        place = f"{file}:{line}" if line else file
        if section not in SECTIONS or not isinstance(keys, dict):
            given = f"[{section}]" if isinstance(keys, dict) else f"{section} outside of one"
            _fail(place, f"expected a section, one of {', '.join(SECTIONS)}; got {given}{_near(section, None)}")
        for key, value in keys.items():
            line = lines.get((section, key), 0)
            place = f"{file}:{line}" if line else file
            setting = known.get((section, key))
            if f"{section}.{key}" in REMOVED:
                gone.append(f"{section}.{key}")
                continue
            if setting is None:
                names = [one.key for one in SETTINGS if one.section == section]
                _fail(place, f"[{section}]: expected one of {', '.join(names)}; got {key}{_near(key, section)}")
            try:
                text = _text_of(setting, value, os.path.dirname(os.path.abspath(file)))
            except ValueError as error:
                _fail(place, f"{setting.name}: {error}")
            found[setting.variable] = Found(text, file, line)
    if gone and warn:
        _warn(f"{file}: gone and without effect: {'; '.join(f'{name} (instead: {REMOVED[name]})' for name in gone)}")
    return found


def _text_of(setting: Setting, value: Any, folder: str) -> str:  # noqa: PLR0912  # one case for each kind
    """A value in the form of its variable. Raises ValueError."""
    kind = setting.kind
    if kind.startswith("one of "):
        if value not in kind.removeprefix("one of ").split(", "):
            raise ValueError(f"expected {kind}, got {value!r}")
        return str(value)
    if kind in ("integer", "port"):
        if type(value) is not int or value < 0 or (kind == "port" and value > 65535):
            expected = "a port (0 to 65535)" if kind == "port" else "an integer"
            raise ValueError(f"expected {expected}, got {value!r}")
        return str(value)
    if kind == "number":
        if type(value) not in (int, float) or value < 0:
            raise ValueError(f"expected a number, got {value!r}")
        return str(value)
    if kind == "true or false":
        if type(value) is not bool:
            raise ValueError(f"expected true or false, got {value!r}")
        return str(value).lower()
    if kind == "table of texts":
        return _options(value)
    if kind == "files":
        values = value if isinstance(value, list) else [value]
        return os.pathsep.join(_path(one, folder) for one in values)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"expected a text, got {value!r}")
    if kind in ("file", "folder"):
        return _path(value, folder)
    if kind == "folder or URI":
        return value if "://" in value else _path(value, folder)
    if kind == "database URL":
        return _database(value, folder)
    return value


def without_secrets(setting: Setting, value: str) -> str:
    """A value that is safe to print: an environment variable may contain a password."""
    if setting.kind == "database URL":
        before, at, after = value.rpartition("@")
        scheme, colon, _ = before.rpartition(":")
        hidden = f"{scheme}:***@{after}" if at and colon and not scheme.endswith("//") and "//" in scheme else value
        return hidden.partition("password=")[0] + ("password=***" if "password=" in hidden else "")
    if setting.kind == "table of texts":
        options = (one.partition("=") for one in value.split())
        return " ".join(f"{name}=***" if _is_secret(name) else f"{name}={text}" for name, _, text in options)
    return value


def _is_secret(name: str) -> bool:
    return any(part in name.upper() for part in _SECRET_NAMES)


def _path(value: Any, folder: str) -> str:
    """A path, relative to the folder of the file."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"expected a path, got {value!r}")
    return os.path.normpath(os.path.join(folder, os.path.expanduser(value)))


def _database(value: str, folder: str) -> str:
    scheme, separator, rest = value.partition("://")
    if not separator:
        raise ValueError(f"expected a URL such as sqlite:///console.db, got {value!r}")
    if scheme.startswith("sqlite"):
        path = rest.removeprefix("/")
        return f"{scheme}:///{_path(path, folder)}" if path and not path.startswith(":") else value
    if ":" in rest.partition("/")[0].rpartition("@")[0] or "password=" in rest:
        raise ValueError(
            "expected a URL without a password, got one with a password; it belongs in the environment "
            "(HALTLINE_CONSOLE_DATABASE) or into ~/.pgpass"
        )
    return value


def _options(value: Any) -> str:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError(f"expected a table of texts, got {value!r}")
    for name, one in value.items():
        if _is_secret(name):
            raise ValueError(f"expected no secret, got {name}; it belongs in the environment of the process")
        if any(sign.isspace() for sign in f"{name}{one}"):
            raise ValueError(f"expected names and texts without spaces, got {name} = {one!r}")
    return " ".join(f"{name}={one}" for name, one in value.items())


def _folder_and_parents(folder: str) -> list[str]:
    folders = [folder]
    while (above := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(above)
    return folders


def _require_own(path: str) -> None:
    """Require that a discovered file is this user's: another user's could redirect commands to his own broker."""
    if not hasattr(os, "geteuid"):
        return
    status = os.stat(path)
    if status.st_uid not in (os.geteuid(), 0) or status.st_mode & _WRITABLE_BY_OTHERS:
        _fail(
            path,
            "expected a file of this user or of root that others cannot write, got one of user id "
            f"{status.st_uid} with mode {status.st_mode & 0o777:o}; {VARIABLE} may name it nevertheless",
        )


def _lines(text: str) -> dict[tuple[str, str], int]:
    """The line of each section, by (section, ""), and of each key that starts a line."""
    from haltline.schemas import expressions as re  # tomllib has imported what it needs

    lines: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\A\s*\[+\s*([\w.-]+)\s*\]", line):
            section = header[1]
            lines[section, ""] = number
        elif key := re.match(r"\A\s*([\w-]+)(?:\s*\.\s*([\w-]+))?\s*=", line):
            names = (section, key[1]) if section or key[2] is None else (key[1], key[2])
            lines.setdefault(names, number)
    return lines


def _near(name: str, section: str | None) -> str:
    """`; did you mean X?` if X is a similar name."""
    import difflib  # imported for an error only

    keys = [setting for setting in SETTINGS if section in (None, setting.section)]
    names = {setting.key: setting.key for setting in keys} if section else {one: f"[{one}]" for one in SECTIONS}
    if not section:
        names |= {setting.key: f"{setting.key} in [{setting.section}]" for setting in reversed(keys)}
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {names[close[0]]}?" if close else ""


@cache
def _warn(text: str) -> None:
    """Print a warning, once in this process."""
    print(f"haltline: {text}", file=sys.stderr)


def _fail(where: str, why: str) -> NoReturn:
    raise BadSettings(f"{where}: {why}") from None
