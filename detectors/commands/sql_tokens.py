"""SQL as tokens, and the conditions that exclude no row.

Misses: conditions that are true because of what is in the database.
"""

from typing import Final, NamedTuple

from haltline.detectors.commands.step_budget import StepBudget
from haltline.schemas import expressions as re

_TAUTOLOGY = re.compile(
    r"\A(?:(?:true|not false|[1-9]\d*|(?P<same>\S+) = (?P=same)|not 1 = 0|not 1 = 2|exists \( select .*)(?: or .*)?"
    r"|(?:\S+ \. )?\S*(?:id|pk|key|uuid)(?: is not null| (?:>|> =|! =|< >) (?:'?-?[01]?'?|'[0-]{36}'))(?: or .*)?"
    r"|(?:\S+ \. )?\S*(?:_at|_on|date|time|timestamp) > (?:= )?'(?:19[0-7]\d|000\d)-.*"
    r"|(?:\S+ \. )?(?P<column>\S+) (?:like '%'|in \( select (?:\S+ \. )?(?P=column) from \S+ \))(?: or .*)?"
    r"|(?P<both>\S+) [<>] (?:= )?(?P<bound>\S+) or (?P=both) [<>] (?:= )?(?P=bound)"
    r"|(?P<one>\d+) > (?P<other>\d+)|\d+ < \d+|.* or (?:true|1 = 1|1))"
)
"""Conditions that hold for every row."""

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|\#[ \t!][^\n]*|/\*!\d*|/\*(?!!).*?(?:\*/|\Z))
    |(?P<string>'(?:[^'\\]++|''|\\'(?=\w)|\\)*+(?:'|\Z))
    |(?P<dollar>\$(?P<tag>[A-Za-z_]?\w*)\$.*?(?:\$(?P=tag)\$|\Z))
    |(?P<quoted>"(?:[^"]++|"")*+(?:"|\Z)|`[^`]*+(?:`|\Z)|\[[A-Za-z_][^\[\]\n]*+\])
    |(?P<word>[^\W]\w*(?:[$\#@]\w*)*|(?<![\#@])[\#@]++\w+)
    |(?P<mark>[;(),.=*<>!])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """One token of a statement."""

    kind: str
    text: str
    """As written, without quotes; a word in lower case."""


_MARKS: Final = {mark: Token("mark", mark) for mark in ";(),.=*<>!"}
END: Final = _MARKS[";"]


def tokens_of(text: str, work: StepBudget | None = None) -> list[Token]:
    """Return the tokens of a text without its comments, as far as the budget of steps goes."""
    work = work or StepBudget()
    left, steps = work.left, 0
    tokens = []
    known: dict[str, Token] = {}
    for found in _TOKEN.finditer(text):
        steps += 1
        if steps > left:
            break
        kind, shown = found.lastgroup, found[0]
        if kind == "word":
            token = known.get(shown)
            if token is None:
                token = known[shown] = Token("word", shown.lower())
            tokens.append(token)
        elif kind == "mark":
            tokens.append(_MARKS[shown])
        elif kind == "quoted":
            tokens.append(Token("quoted", shown.strip('"`[]').lower()))
        elif kind == "string":
            tokens.append(Token("string", shown.strip("'")))
        elif kind != "comment":
            tokens.append(Token("dollar", shown.split("$", 2)[-1]))
    work.take(steps)
    return tokens


def holds_for_every_row(condition: str) -> bool:
    """Return whether a text is a condition of SQL that excludes nothing."""
    return excludes_nothing(
        tuple(f"'{text}'" if kind == "string" else text for kind, text in tokens_of(condition[:160]))
    )


def excludes_nothing(condition: tuple[str, ...]) -> bool:
    """Return whether the words of a condition hold for every row."""
    found = _TAUTOLOGY.fullmatch(" ".join(condition))
    return found is not None and (found["one"] is None or int(found["one"]) > int(found["other"]))
