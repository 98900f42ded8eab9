"""Rows that say what a call does, by domain: text files with a line for each, of which every head says the form.

Misses: nothing of its own; each file's reader says what it misses.
"""

from importlib.resources import files


def rows_of(name: str) -> list[str]:
    """Return the lines of `NAME.txt` without blank ones and comments, which begin with `#`."""
    text = files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
