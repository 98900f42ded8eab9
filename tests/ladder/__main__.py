"""Writes ladder.txt for the current default policy: `python -m tests.ladder`; review the changes."""

from tests.ladder.ladder import FILE, table

if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
