"""The demonstration from beginning to end."""

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from haltline.streams.demo.acts import Fact, act_one, act_two
from haltline.streams.demo.stage import open_stage
from haltline.streams.local.subprocesses import ChildDied, TimedOut, interruptible

_TAIL_LINES = 12


def run(console: Console, folder: Path, *, pause_s: float = 6.0) -> bool:
    """Run both acts. Returns True if every fact is true. Logs and the audit table stay in `folder`.

    Ends everything that it started, also on an interrupt (KeyboardInterrupt is passed on).
    """
    began_s = time.monotonic()
    console.print(Text("haltline: a runaway agent is stopped, end to end, on this machine", style="bold"))
    try:
        with interruptible(), open_stage(console, folder) as stage:
            facts = [*act_one(stage, pause_s), *act_two(stage)]
    except (TimedOut, ChildDied) as failure:
        _show_logs(console, folder / "logs")
        console.print(Text(f"\nFAILED: {failure}", style="bold red"))
        return False
    console.print()
    console.print(table(facts))
    holds = all(fact.holds for fact in facts)
    console.print(f"{sum(fact.holds for fact in facts)} of {len(facts)} facts hold, {time.monotonic() - began_s:.0f} s")
    if not holds:
        _show_logs(console, folder / "logs")
    return holds


def table(facts: list[Fact]) -> Table:
    """Return the facts as a table."""
    shown = Table("", "claim", "seen")
    for fact in facts:
        verdict = Text("ok", "green") if fact.holds else Text("FAILED", "bold red")
        shown.add_row(verdict, Text(fact.claim), Text(fact.seen))
    return shown


def _show_logs(console: Console, logs: Path) -> None:
    """Print the last lines of the processes' logs."""
    for file in sorted(logs.glob("*.log")):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
        console.print(Text(f"\nThe end of {file}:", style="bold"))
        console.print(Text("\n".join(lines) or "(nothing was printed)"))
