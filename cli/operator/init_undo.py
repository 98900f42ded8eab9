"""`haltline init --undo`: removes what it wrote into a program, and keeps later changes."""

import hashlib
import json
import os
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple


class CannotUndo(ValueError):
    """The written lines have been changed since; the message names the place."""


class Written(NamedTuple):
    """A file before and after init."""

    before: str | None
    """None: the file did not exist."""
    after: str


def remember(file: Path, written: Written) -> None:
    """Store it for `--undo`, readable by this user only. Raises OSError."""
    record = _record_of(file)
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    record.touch(mode=0o600)
    record.write_text(json.dumps({"file": str(file.resolve()), **written._asdict()}), encoding="utf-8")


def recall(file: Path) -> Written:
    """The last change that init wrote to this file. Raises CannotUndo."""
    try:
        kept = json.loads(_record_of(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CannotUndo(f"{file}: expected a file that haltline init has written, got none of this user's") from None
    return Written(kept["before"], kept["after"])


def forget(file: Path) -> None:
    """Delete the stored change after an undo."""
    _record_of(file).unlink(missing_ok=True)


def undone(written: Written, now: str) -> str | None:
    """The text without init's lines, with later changes; None: delete the file. Raises CannotUndo."""
    if now == written.after:
        return written.before
    if written.before is None:
        raise CannotUndo("expected the program as init wrote it, got a changed one: delete it yourself, or keep it")
    before, after, current = (one.splitlines(keepends=True) for one in (written.before, written.after, now))
    at: dict[int, int] = {}
    for block in SequenceMatcher(None, after, current, autojunk=False).get_matching_blocks():
        at |= {block.a + n: block.b + n for n in range(block.size)}
    at |= {-1: -1, len(after): len(current)}
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for kind, first, last, begin, end in reversed(steps):
        if kind == "equal":
            continue
        places = [at.get(line) for line in range(begin, end)] if begin < end else [at.get(begin - 1), at.get(begin)]
        for line, place in enumerate(places, start=begin if begin < end else begin - 1):
            if place is None or place - (places[0] or 0) != line - (begin if begin < end else begin - 1):
                shown = after[line].strip() if line < len(after) else "the end"
                raise CannotUndo(f"expected this line as init wrote it, got a change there since: {shown}")
        start = places[0] if begin < end else places[1]
        current[start : (start or 0) + end - begin] = before[first:last]
    return "".join(current)


def _record_of(file: Path) -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "haltline" / "init" / f"{hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:32]}.json"
