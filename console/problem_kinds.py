"""The kinds of problems with protection, each with an operator's first steps; deploy/runbooks has the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Part(StrEnum):
    """The part of the system with a problem."""

    WORKERS = "workers"
    BROKER = "broker"
    CANARY = "canary"
    SINK = "sink"
    SHADOW = "shadow"
    CONSOLE = "console"


class Urgency(StrEnum):
    """The urgency of a problem."""

    CRITICAL = "critical"
    """Runaways may not be stopped."""
    WARNING = "warning"
    """Enforcement works; something else is late."""


@dataclass(frozen=True)
class Step:
    """One step of an operator."""

    text: str
    command: str = ""
    """A shell command; empty: none."""


@dataclass(frozen=True)
class Partitions:
    """Partitions of one topic."""

    topic: str
    partitions: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class ProblemKind:
    """What problems of one kind have in common."""

    part: Part
    urgency: Urgency = Urgency.WARNING
    title: str
    what: str
    """With `{}` for the partitions or the reason."""
    steps: tuple[Step, ...]
    runbook: str
    """The full instructions, in haltline's repository."""


@dataclass(frozen=True, kw_only=True)
class Problem(ProblemKind):
    """A present problem."""

    since: str
    partitions: Sequence[Partitions]
    """The partitions without progress; empty if the problem does not concern partitions."""


_MEANWHILE: Final = (
    "Agents go on by their own setting: by default destructive calls are refused and all others run (npm package: only "
    "reads run); fail_closed_from or whenDown may say more or less."
)
WORKERS: Final = ProblemKind(
    part=Part.WORKERS,
    urgency=Urgency.CRITICAL,
    title="Protection is down",
    what="Records wait in {}, and no worker processes them: nothing is decided there. Kills stay in force. "
    f"{_MEANWHILE}",
    steps=(
        Step("See which group is behind, and what else is wrong.", "haltline doctor"),
        Step(
            "If a worker runs and its /healthz answers 503 or nothing: restart it. Its state is in the changelog, so "
            "nothing is lost."
        ),
        Step(
            "If no worker runs: the last line of its log has the reason. Start it; it resumes from its last checkpoint."
        ),
        Step("Until then, stop destructive agents by other means: credentials, schedulers, their processes."),
    ),
    runbook="deploy/runbooks/HaltlineNoProgress.md",
)
BROKER: Final = ProblemKind(
    part=Part.BROKER,
    urgency=Urgency.CRITICAL,
    title="The broker does not answer",
    what=f"Without it nothing is decided, killed or approved, and whether workers run is not known. {_MEANWHILE} "
    "The last attempt: {}",
    steps=(
        Step("See which broker is unavailable, and whether it is the network or the credentials.", "haltline doctor"),
        Step("Restore the broker. Workers, sink and console resume automatically."),
    ),
    runbook="deploy/runbooks/HaltlineNoProgress.md",
)
CANARY: Final = ProblemKind(
    part=Part.CANARY,
    urgency=Urgency.CRITICAL,
    title="The canary was not stopped",
    what="Session {} should have been killed and was not. Runaway agents may not be stopped.",
    steps=(
        Step("Send one by hand: it reports which part is missing.", "haltline canary --within 30s"),
        Step("No verdict: no worker decides.", "haltline status"),
        Step(
            "No kill after ten calls: the policy in force does not kill. Publish the previous version.",
            "haltline policy publish FILE --by NAME --reason 'the canary was not killed'",
        ),
    ),
    runbook="deploy/runbooks/HaltlineCanaryNotStopped.md",
)
CANARY_SILENT: Final = ProblemKind(
    part=Part.CANARY,
    title="The canary is silent",
    what="One is expected every {} s. Until it runs again, nothing proves that a runaway is stopped.",
    steps=(
        Step("Start it where it ran before.", "haltline canary --every 5m"),
        Step("If it runs and no result arrives: its log names the broker or the credentials.", "haltline doctor"),
    ),
    runbook="deploy/runbooks/HaltlineCanarySilent.md",
)
SINK: Final = ProblemKind(
    part=Part.SINK,
    title="The audit is not written",
    what="Records wait in {}, and no sink writes them to the audit table. Nothing is lost while the broker keeps them.",
    steps=(
        Step("See whether a sink runs and how far it is.", "haltline doctor"),
        Step("If it does not run: the last line of its log has the reason. Start it; it resumes where the table ends."),
        Step("If it runs: its store is slow or refuses writes; see its log."),
    ),
    runbook="deploy/runbooks/HaltlineSinkBehind.md",
)
SHADOW: Final = ProblemKind(
    part=Part.SHADOW,
    title="Rules in shadow are not run",
    what="Records wait in {}, and no worker of rules in shadow processes them. What is enforced does not wait for "
    "them.",
    steps=(
        Step("See how far the group is.", "haltline status"),
        Step("Start it; it resumes from its last checkpoint.", "haltline worker --rules shadow"),
    ),
    runbook="deploy/runbooks/HaltlineShadowBehind.md",
)
CONSOLE: Final = ProblemKind(
    part=Part.CONSOLE,
    title="The console is behind",
    what="New records of {} are not on these pages yet. Agents are stopped as before.",
    steps=(
        Step("Ask Kafka itself, not the console.", "haltline status"),
        Step("After a start or --rebuild it reads the topics, and catches up automatically."),
        Step("Otherwise its database is slow or full, which its log says. Restart it; the read model can be rebuilt."),
    ),
    runbook="deploy/runbooks/HaltlineConsoleBehind.md",
)
CONSOLE_WAITS: Final = ProblemKind(
    part=Part.CONSOLE,
    title="The console waits for its topics",
    what="{}. These pages are filled as soon as every topic is there; until then no decision is made.",
    steps=(
        Step("Create them, or start haltline's own broker instead: haltline up.", "haltline topics create"),
        Step("If they are there under another prefix, or on another cluster: correct --prefix or --bootstrap."),
    ),
    runbook="deploy/runbooks/HaltlineConsoleBehind.md",
)
CONSOLE_GAP: Final = ProblemKind(
    part=Part.CONSOLE,
    title="The console misses records",
    what="{}. Agents are stopped as before.",
    steps=(
        Step(
            "The audit table has the records, where a sink has read them in time: have the read model rebuilt from it.",
            "haltline console --rebuild --audit-table TABLE",
        ),
        Step(
            "Without an audit table they are lost. This message ends with a read model of what the topics hold.",
            "haltline console --rebuild",
        ),
        Step("Keep records for longer than a console may be away: `retention.ms` of the topics."),
    ),
    runbook="deploy/runbooks/HaltlineConsoleBehind.md",
)
CONSOLE_AHEAD: Final = ProblemKind(
    part=Part.CONSOLE,
    title="The console has read more than the topics hold",
    what="{}. Agents are stopped as before.",
    steps=(
        Step("See whether topics are missing or were recreated.", "haltline topics check"),
        Step(
            "If a topic was recreated or cut off: have the read model rebuilt from what the topics hold, without "
            "--audit-table, which ends where the old topic did.",
            "haltline console --rebuild",
        ),
        Step("If it is another cluster than before: correct --bootstrap or --database."),
    ),
    runbook="deploy/runbooks/HaltlineConsoleBehind.md",
)
