"""The searchable text of a row, in the form of the text search."""


def words_of(*parts: str | None) -> str:
    """Return the column `words` of a row that is found by a part of any of these texts."""
    return "\n".join(lines_of(*parts))


def lines_of(*parts: str | None) -> list[str]:
    """Return the lines of these texts in lower case: each once, in order, without empty ones."""
    lines = dict.fromkeys(line for part in parts if part for line in plain(part).split("\n"))
    return [line for line in lines if line]


def plain(part: str) -> str:
    """Return it in lower case without NUL, at which SQLite would end a search text."""
    return part.lower().replace("\x00", "\\x00")
