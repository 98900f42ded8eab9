"""`haltline watch --all`: prints findings from the histories that agents on this machine are writing."""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from haltline.streams.scan.following import Trip

_EVERY_S: Final = 2.0
_MAC: Final = "on run {title, text}\ndisplay notification text with title title\nend run"
Notify = Callable[[str, str], object]


def main(arguments: list[str]) -> int:
    """Run until interrupted. Returns the exit code: 0; 2 for a wrong configuration; 3 if no broker answers."""
    parser = argparse.ArgumentParser(
        prog="haltline watch",
        usage="haltline watch --all [options]",
        description="Print, one line each, findings in the histories that the agents on this machine write now: "
        "what `haltline scan` would find. Nothing is stopped; `haltline hook install --local` does that.",
        epilog="Exit codes: 0 interrupted; 2 wrong configuration; 3 no broker answers. "
        "Example: haltline watch --all --notify desktop",
    )
    parser.add_argument("--all", action="store_true", required=True, help="every agent on this machine")
    parser.add_argument("--notify", choices=("terminal", "desktop"), default="terminal",
                        help="desktop: also a desktop notification, by notify-send or osascript")  # fmt: skip
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="policy document (YAML); default: every rule with its defaults"
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT",
                        help="also publish what the agents do to Kafka, for workers and the console")  # fmt: skip
    options = parser.parse_args(arguments)
    import typer

    from haltline.cli.common import Exit
    from haltline.cli.policy_option import read_policy
    from haltline.interventions.agent.producers.publishing import Publisher
    from haltline.interventions.agent.settings import GuardSettings
    from haltline.streams.importing.reading import shown
    from haltline.streams.kafka.log_reader import Unreachable, open_consumer
    from haltline.streams.scan.following import Following

    notify = _desktop() if options.notify == "desktop" else None
    if options.notify == "desktop" and notify is None:
        parser.error("--notify desktop: expected notify-send or osascript, got neither")
    publisher: Publisher | None = None
    try:
        policy = read_policy(options.policy)
        if options.bootstrap:
            settings = GuardSettings.from_env(bootstrap=options.bootstrap)
            open_consumer(options.bootstrap, client=settings.kafka).close()
            publisher = Publisher(settings)
    except typer.Exit as ended:
        return ended.exit_code
    except (Unreachable, ValueError, OSError) as error:
        print(f"haltline: watch: {error}", file=sys.stderr)
        return Exit.UNREACHABLE if isinstance(error, Unreachable) else Exit.USAGE
    since_ms = int(time.time() * 1000)
    following = Following(policy, on_event=lambda event: publisher and publisher.publish([event]), since_ms=since_ms)
    count = following.start()
    what = f"{count} histor{'y' if count == 1 else 'ies'}, and new ones" if count else "no histories yet, but new ones"
    print(f"haltline: watch: {what}; Ctrl-C ends", file=sys.stderr, flush=True)
    with suppress(KeyboardInterrupt):
        while True:
            for trip in following.poll():
                title, text = map(shown, line_of(trip))
                print(f"{time.strftime('%H:%M:%S')} {title}: {text}", flush=True)
                if notify is not None:
                    notify(title, text)
            time.sleep(_EVERY_S)
    if publisher is not None:
        publisher.close()
    return 0


def line_of(trip: "Trip") -> tuple[str, str]:
    """The session and the decision; the reason and the message to the agent."""
    decision = trip.decision
    advice = f" Hint: {' '.join(decision.message.split())}" if decision.message else ""
    title = f"{trip.agent} {trip.project} {decision.session_id} {decision.level.name} {decision.detector}"
    return title, f"{' '.join(decision.reason.split())}.{advice}"


def _desktop() -> Notify | None:
    """The desktop's notification command, which receives the text as an argument and never runs it."""
    if sys.platform == "darwin":
        return lambda title, text: subprocess.run(["osascript", "-e", _MAC, title, text], check=False)
    program = shutil.which("notify-send")
    if program is None:
        return None
    return lambda title, text: subprocess.run([program, "--app-name=haltline", "--", title, text], check=False)
