"""Writes ladder.txt as the default policy is now: `python -m tests.ladder`; what changed is to be looked at."""

from tests.ladder.ladder import FILE, table

if __name__ == "__main__":
    FILE.write_text(table(), encoding="utf-8")
