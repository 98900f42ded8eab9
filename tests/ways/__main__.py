"""Writes the current results into tables/*.txt: `python -m tests.ways`; review the changes."""

from tests.ways.ways import FOLDER, load, policy_of, result_of


def main() -> None:
    """Every table, in place."""
    for file in sorted(FOLDER.glob("*.txt")):
        blocks = [f"{way.source}\n  = {result_of(way, policy_of(file.stem))}" for way in load(file.stem)]
        file.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
