"""The files that a program creates, by the literal names that it writes to.

A file that existed before may count, as in `creations`. Appending to a file or opening a database creates nothing.

Misses: computed names; functions of the program's own; files that a library writes by itself.
"""

from haltline.detectors.commands.model import MAX_COMMAND_CHARS, holds_one
from haltline.detectors.commands.paths import canonical
from haltline.schemas import expressions as re

_MAX_MADE = 16
_NAME = r"""[a-zA-Z]{0,2}(?P<quote%d>['"])(?P<name%d>[^'"\n{}$\\]{1,160})(?P=quote%d)"""
_OPENED = rf"\bopen(?:Sync)?\(\s*{_NAME % (1, 1, 1)}\s*,\s*(?:mode\s*=\s*)?['\"][wx]"
_WRITTEN = (
    r"\b(?:to_(?:csv|json|excel|parquet|pickle|hdf|html|netcdf|zarr)|save(?:fig|z|txt)?|write(?:to|FileSync|File)?"
    rf"|imwrite|urlretrieve|copy(?:file|2)?)\(\s*(?:[\w.\[\]]+\s*,\s*)?{_NAME % (2, 2, 2)}"
)
_PATH_WRITTEN = rf"\bPath\(\s*{_NAME % (3, 3, 3)}\s*\)\s*\.(?:write_text|write_bytes|touch)\("
_FOLDER = rf"\b(?:makedirs|mkdir(?:Sync)?)\(\s*{_NAME % (4, 4, 4)}|\bPath\(\s*{_NAME % (5, 5, 5)}\s*\)\s*\.mkdir\("
_FILES = re.compile(f"{_OPENED}|{_WRITTEN}|{_PATH_WRITTEN}")
_FOLDERS = re.compile(_FOLDER)
_HINTS = ("open", "to_", "save", "write", "mkdir", "makedirs", "urlretrieve", "copy", "Path(")


def code_creations(text: str, *, cwd: str | None = None, folders: bool = True) -> tuple[str, ...]:
    """Return the canonical targets (`path=a/b`) that a program creates, without duplicates. Never raises.

    The program may be embedded in a command line. `folders`: include directories that may hold other content too.
    """
    if "(" not in text or not holds_one(text, _HINTS):
        return ()
    found: dict[str, None] = {}
    for pattern in (_FILES, _FOLDERS) if folders else (_FILES,):
        for made in pattern.finditer(text, 0, MAX_COMMAND_CHARS):
            name = next(value for key, value in made.groupdict().items() if key.startswith("name") and value)
            if not name.startswith(("/", "~")) and "://" not in name:
                found[f"path={canonical(name, cwd)}"] = None
            if len(found) >= _MAX_MADE:
                break
    return tuple(found)[:_MAX_MADE]
