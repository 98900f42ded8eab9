"""`haltline watch`: runs an agent as a child process. Does not need the processor: it is installed beside the agent."""

import argparse
import os
import shlex
import signal
import sys
import uuid

STOPPED = 90
NOT_STOPPED = 91
_EXIT_CODES = (
    "Exit codes: the agent's own (128 and the number of the signal that ended it); 90: it was stopped with all its "
    "processes; 91: it was stopped, and some of its processes still run; 2: the command or its configuration is wrong."
)


def main(arguments: list[str]) -> int:
    """Run the command with the arguments after `watch`. Returns the exit code."""
    if "--all" in arguments[: arguments.index("--") if "--" in arguments else None]:
        from haltline.cli.agent import watch_all

        return watch_all.main(arguments)
    options, command = _parsed(arguments)
    from haltline.interventions.agent.settings import GuardSettings
    from haltline.interventions.agent.watch.watching import Watch

    try:
        settings = GuardSettings.from_env(
            **{name: value for name, value in vars(options).items() if value is not None and name != "grace"}
        )
        watch = Watch(
            settings, grace_s=options.grace, on_advice=lambda advice: _say(f"{advice.code}: {advice.message}", 0)
        )
    except (ValueError, OSError) as error:
        return _say(str(error), 2)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watch.stop())
    _say(f"session {settings.session_id}", 0)
    try:
        ended = watch.run(command)
    except OSError as error:
        return _say(f"{shlex.join(command)}: {error}", 2)
    if ended.living:
        _say(f"{ended.refused or 'asked to end'}\nhaltline: watch: still alive: {list(ended.living)}", 0)
        return NOT_STOPPED
    if ended.refused is not None:
        return _say(f"{ended.refused}\nhaltline: watch: the agent and all its child processes have ended", STOPPED)
    code = ended.code or 0
    return code if code >= 0 else 128 - code


def _parsed(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="haltline watch",
        usage="haltline watch [options] -- COMMAND...\n       haltline watch --all [--help]",
        description="Run an agent that prints JSON lines (claude --output-format stream-json, codex exec --json), "
        "publish its events, and end it and its child processes when its session is killed. Its output is passed on. "
        "With --all: print findings in the histories that the agents on this machine write now.",
        epilog=f"{_EXIT_CODES} Example: haltline watch --bootstrap kafka-1:9092 -- "
        "claude -p 'tidy up' --output-format stream-json --verbose",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="Kafka's address; or HALTLINE_BOOTSTRAP")
    parser.add_argument(
        "--prefix", dest="topic_prefix", metavar="TEXT", help="prefix of the topics; or HALTLINE_PREFIX"
    )
    parser.add_argument("--agent-id", metavar="NAME", help="the agent's id; or HALTLINE_AGENT_ID")
    default = os.environ.get("HALTLINE_SESSION_ID") or uuid.uuid4().hex
    parser.add_argument(
        "--session", dest="session_id", metavar="ID", default=default, help="session id; default: a new one"
    )
    parser.add_argument(
        "--grace", type=float, default=5.0, metavar="S", help="seconds from SIGTERM to SIGKILL (%(default)s)"
    )
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = parser.parse_args(arguments[:end]), arguments[end + 1 :]
    if not command:
        parser.error("expected a command after --, got none")
    return options, command


def _say(text: str, code: int) -> int:
    print(f"haltline: watch: {text}", file=sys.stderr, flush=True)
    return code
