"""`haltline watch --all`: prints findings from the histories that agents on this machine are writing."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from haltline.cli.common import Exit, fail

if TYPE_CHECKING:
    from haltline.streams.scan.following import Trip

_EVERY_S: Final = 2.0
_MAC: Final = "on run {title, text}\ndisplay notification text with title title\nend run"
Notify = Callable[[str, str], object]


def watch_all(bootstrap: str | None, policy: Path | None, *, desktop: bool) -> None:
    """Run until interrupted. Exits if the configuration is wrong, or no broker answers at `bootstrap`."""
    from haltline.cli.policy_option import read_policy
    from haltline.interventions.agent.integrations.publishing import Publisher
    from haltline.interventions.agent.settings import GuardSettings
    from haltline.streams.importing.reading import shown
    from haltline.streams.kafka.log_reader import Unreachable, open_consumer
    from haltline.streams.scan.following import Following

    notify = _desktop() if desktop else None
    if desktop and notify is None:
        fail("--notify desktop: expected notify-send or osascript, got neither", Exit.USAGE)
    publisher: Publisher | None = None
    rules = read_policy(policy)
    try:
        if bootstrap:
            settings = GuardSettings.from_env(bootstrap=bootstrap)
            open_consumer(bootstrap, client=settings.kafka).close()
            publisher = Publisher(settings)
    except Unreachable as error:
        fail(f"watch: {error}", Exit.UNREACHABLE)
    except (ValueError, OSError) as error:
        fail(f"watch: {error}", Exit.USAGE)
    since_ms = int(time.time() * 1000)
    following = Following(rules, on_event=lambda event: publisher and publisher.publish([event]), since_ms=since_ms)
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
