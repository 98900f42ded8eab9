"""The relevant calls of a program as they are found, within the limits of their number and length.

Misses: files that are renamed by a computed name.
"""

from collections.abc import Sequence

from haltline.detectors.commands.code.values import MAX_TEXT_CHARS, MAX_TEXTS, Call
from haltline.detectors.commands.step_budget import StepBudget

MAX_CALLS = 1024


class Findings:
    """The calls found so far; files that the program renamed are reported under their original names."""

    def __init__(self, work: StepBudget) -> None:
        self.calls: list[Call] = []
        self.renamed: dict[str, str] = {}
        self._work = work

    def add(self, kind: str, name: str, texts: Sequence[str]) -> None:
        """Record a call for each of its possible arguments."""
        for text in texts[:MAX_TEXTS]:
            if len(self.calls) >= MAX_CALLS or len(text) > MAX_TEXT_CHARS or not self._work.take(5):
                self._work.cut = True
            else:
                self.calls.append(Call(kind, name, self._origin(text) if kind in ("path", "tree") else text))

    def _origin(self, path: str) -> str:
        self._work.take(len(self.renamed) // 4)
        for new, old in self.renamed.items():
            if path == new or path.startswith(f"{new}/"):
                return old + path[len(new) :]
        return path
