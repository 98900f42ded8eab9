"""What the demonstration claims, and whether it was so."""

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Fact:
    """One claim, whether it holds, and what was seen."""

    claim: str
    holds: bool
    seen: str


def table(facts: list[Fact]) -> Table:
    """The facts for people."""
    shown = Table("", "claim", "seen")
    for fact in facts:
        verdict = Text("ok", "green") if fact.holds else Text("FAILED", "bold red")
        shown.add_row(verdict, Text(fact.claim), Text(fact.seen))
    return shown
