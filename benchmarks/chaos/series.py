"""A series of runs: their seeds, a verdict line for each, and a summary. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.chaos.report import clipped, of_kinds, screen
from benchmarks.chaos.verify import Check

_NAME_WIDTH = 9


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one run."""

    seed: int
    lasts: str
    """The duration of the load, as text."""
    took_s: float
    checks: Sequence[Check] = ()
    error: str = ""
    """The error that ended the run before the comparison."""
    kept: str = ""
    """The folder with logs and differences; empty when nothing differs."""

    @property
    def wrong(self) -> int:
        """Return the number of checks that differ."""
        return sum(not check.ok for check in self.checks)

    @property
    def ok(self) -> bool:
        """Return whether everything was compared and nothing differs."""
        return not self.error and self.wrong == 0 and bool(self.checks)

    @property
    def verdict(self) -> str:
        """Return the verdict in one line."""
        checks = len(self.checks)
        if self.ok:
            result = f"ok, {checks} checks"
        elif self.error:
            result = f"WRONG, it ended before everything was compared: {self.error}"
        else:
            result = f"WRONG, {self.wrong} of {checks} checks differ"
        return clipped(f"seed {self.seed}, {self.lasts}, took {self.took_s:.0f} s: {result}")


def seeds_of(named: Sequence[int], runs: int | None) -> list[int]:
    """Return the named seeds, followed by increments of the last one up to the number of runs."""
    more = max(0, (runs or len(named)) - len(named))
    return [*named, *range(named[-1] + 1, named[-1] + 1 + more)][:runs]


def shown_in_full(result: Result) -> list[str]:
    """Return all checks of a run without differences; else the differences on one screen."""
    if result.ok:
        lines = [f"ok     {check.name}: {check.found}" for check in result.checks]
        notes = [f"         {note}" for check in result.checks for note in check.notes]
        return [clipped(line) for line in [*lines, *notes]]
    kept = [f"Everything about it: {result.kept} (differences.txt, story.txt, logs)"] if result.kept else []
    return screen(result.verdict, result.checks, kept)


def every_difference(result: Result) -> list[str]:
    """Return all differences by check, in full, for the file."""
    lines = [result.verdict]
    for check in result.checks:
        lines += ["", f"{'ok' if check.ok else 'WRONG'}  {check.name}: {check.found}"]
        lines += [f"  {line}" for line in (*of_kinds(check.differences), *check.notes, *check.differences)]
    return lines


def summary(results: Sequence[Result]) -> list[str]:
    """Return a table of the runs, if there are several, and the verdict."""
    lines = []
    if len(results) > 1:
        lines = [f"{'seed':>{_NAME_WIDTH}}  {'load':20}{'took':>8}  checks wrong"]
        for result in results:
            wrong = "ended early" if result.error else f"{result.wrong} of {len(result.checks)}"
            lines.append(f"{result.seed:>{_NAME_WIDTH}}  {result.lasts:20}{result.took_s:>6.0f} s  {wrong}")
        lines.append("")
    failed = sum(not result.ok for result in results)
    runs = f" in {len(results)} runs" if len(results) > 1 else ""
    if failed or not results:
        return [*lines, f"VERDICT: WRONG: {failed} of {len(results)} runs differ."]
    return [*lines, f"VERDICT: nothing lost, nothing counted twice{runs}."]
