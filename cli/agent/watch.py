"""`haltline watch`: runs an agent as a child process. Does not need the processor: it is installed beside the agent."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from haltline.cli.cluster import with_guard
from haltline.cli.common import Exit, PolicyFile, fail

if TYPE_CHECKING:
    from haltline.streams.scan.following import Trip

_EVERY_S: Final = 2.0
_MAC: Final = "on run {title, text}\ndisplay notification text with title title\nend run"
STOPPED = 90
NOT_STOPPED = 91


@with_guard(of_one_session=True)
def watch(
    command: Annotated[
        list[str] | None, typer.Argument(help="The agent's command, after --.", metavar="-- COMMAND...")
    ] = None,
    *,
    given: dict[str, Any],
    grace: Annotated[float, typer.Option(help="Seconds from SIGTERM to SIGKILL.")] = 5.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Instead: print findings in the histories that agents here write now.")
    ] = False,
    notify: Annotated[
        Literal["terminal", "desktop"],
        typer.Option(help="desktop: also a desktop notification, by notify-send or osascript."),
    ] = "terminal",
    policy: PolicyFile = None,
    ctx: typer.Context,
) -> None:
    """Run an agent that prints JSON lines; end it and its child processes when its session is killed.

    The agent prints like `claude --output-format stream-json` or `codex exec --json`; its output is passed on, and its
    events are published; without a broker it is decided here. With --all nothing is run or stopped: what `haltline
    scan` would find is printed, one line each; --notify and --policy are for that only. --bootstrap on its command line
    publishes what the agents do, too.

    Exit codes: the agent's own (128 and the number of the signal that ended it); 90: it was stopped with all its
    processes; 91: it was stopped, and some of its processes still run; 2: the command or its configuration is wrong.

    Example: haltline watch -- claude -p 'tidy up' --output-format stream-json --verbose

    Example: haltline watch --all --notify desktop
    """
    if everything == bool(command):
        fail(f"watch: expected a command after --, or --all; got {'both' if command else 'none'}", Exit.USAGE)
    if command:
        raise typer.Exit(_run(command, given, grace))
    source = ctx.get_parameter_source("bootstrap")
    # What a broker is configured for, such as a hook, may publish the same already.
    _watch_all(policy, notify, given if source and source.name == "COMMANDLINE" else None)


def _run(command: list[str], given: dict[str, Any], grace_s: float) -> int:
    """Run the agent's command until it ends. Returns the exit code."""
    from haltline.cli.agent.reaching import Reach, options_of, session_in, settings_of_sessions
    from haltline.interventions.agent.watch.watching import Watch

    begins = {"session_id": uuid.uuid4().hex} | session_in(os.environ)
    begins |= {name: given[name] for name in ("agent_id", "session_id") if name in given}
    try:
        reach = Reach(options_of(given), os.environ)
        if not {"HALTLINE_BOOTSTRAP", "HALTLINE_MODE"} & reach.environ.keys():  # it decides here
            reach = Reach({}, os.environ | {"HALTLINE_MODE": "local"})
        settings_of_sessions(reach.environ)  # checked at the start
        watching = Watch(reach, begins, grace_s=grace_s, on_hint=lambda hint: _say(f"hint: {hint}", 0))
    except (ValueError, OSError) as error:
        return _say(str(error), 2)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watching.stop())
    _say(f"session {begins['session_id']}", 0)
    try:
        ended = watching.run(command)
    except OSError as error:
        return _say(f"{shlex.join(command)}: {error}", 2)
    if ended.living:
        _say(f"{ended.refused or 'asked to end'}\nhaltline: watch: still alive: {list(ended.living)}", 0)
        return NOT_STOPPED
    if ended.refused is not None:
        return _say(f"{ended.refused}\nhaltline: watch: the agent and all its child processes have ended", STOPPED)
    code = ended.code or 0
    return code if code >= 0 else 128 - code


def _watch_all(policy: Path | None, notify: str, given: dict[str, Any] | None) -> None:
    """Print findings in the histories that grow, until interrupted; `given`, a guard's settings, publishes events."""
    from haltline.cli.policy_option import read_policy
    from haltline.interventions.agent.producers.publishing import Publisher
    from haltline.interventions.agent.settings import GuardSettings
    from haltline.streams.importing.reading import shown
    from haltline.streams.kafka.log_reader import open_consumer
    from haltline.streams.scan.following import Following
    from haltline.streams.stop_signals import stopped_by_signals

    show = _desktop() if notify == "desktop" else lambda *_: None
    if show is None:
        fail("--notify desktop: expected notify-send or osascript, got neither", Exit.USAGE)
    rules, publisher = read_policy(policy), None
    if given is not None:
        try:
            settings = GuardSettings.from_env(**given)
        except (ValueError, OSError) as error:
            fail(f"watch: {error}", Exit.USAGE)
        open_consumer(given["bootstrap"], client=settings.kafka).close()
        publisher = Publisher(settings)
    following = Following(
        rules, on_event=lambda event: publisher and publisher.publish([event]), since_ms=int(time.time() * 1000)
    )
    count = following.start()
    what = f"{count} histor{'y' if count == 1 else 'ies'}, and new ones" if count else "no histories yet, but new ones"
    _say(f"{what}; Ctrl-C ends", 0)
    ended: SimpleQueue[None] = SimpleQueue()
    with stopped_by_signals(lambda: ended.put(None), "watch"):
        # An exception in the midst of a poll could come out as an error of the library that it interrupts.
        while True:
            for trip in following.poll():
                title, text = map(shown, line_of(trip))
                print(f"{time.strftime('%H:%M:%S')} {title}: {text}", flush=True)
                show(title, text)
            with suppress(Empty):
                ended.get(timeout=_EVERY_S)
                break
    if publisher is not None:
        publisher.close()


def line_of(trip: "Trip") -> tuple[str, str]:
    """The session and the decision; the reason and the message to the agent."""
    decision = trip.decision
    advice = f" Hint: {' '.join(decision.message.split())}" if decision.message else ""
    title = f"{trip.agent} {trip.project} {decision.session_id} {decision.level.name} {decision.detector}"
    return title, f"{' '.join(decision.reason.split())}.{advice}"


def _desktop() -> Callable[[str, str], object] | None:
    """The desktop's notification command, which receives the text as an argument and never runs it."""
    if sys.platform == "darwin":
        return lambda title, text: subprocess.run(["osascript", "-e", _MAC, title, text], check=False)
    program = shutil.which("notify-send")
    if program is None:
        return None
    return lambda title, text: subprocess.run([program, "--app-name=haltline", "--", title, text], check=False)


def _say(text: str, code: int) -> int:
    print(f"haltline: watch: {text}", file=sys.stderr, flush=True)
    return code


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(context_settings={"allow_interspersed_args": False})(watch)
