"""The first steps of an operator for each problem; deploy/runbooks has the rest."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Step:
    """One step."""

    text: str
    command: str = ""
    """A shell command; empty: none."""


STEPS: Final[dict[str, tuple[Step, ...]]] = {
    "workers": (
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
    "broker": (
        Step("See which broker is unavailable, and whether it is the network or the credentials.", "haltline doctor"),
        Step("Restore the broker. Workers, sink and console resume automatically."),
    ),
    "canary": (
        Step("Send one by hand: it reports which part is missing.", "haltline canary --within 30s"),
        Step("No verdict: no worker decides.", "haltline status"),
        Step(
            "No kill after ten calls: the policy in force does not kill. Publish the previous version.",
            "haltline policy publish FILE --by NAME --reason 'the canary was not killed'",
        ),
    ),
    "canary_silent": (
        Step("Start it where it ran before.", "haltline canary --every 5m"),
        Step("If it runs and no result arrives: its log names the broker or the credentials.", "haltline doctor"),
    ),
    "sink": (
        Step("See whether a sink runs and how far it is.", "haltline doctor"),
        Step("If it does not run: the last line of its log has the reason. Start it; it resumes where the table ends."),
        Step("If it runs: its store is slow or refuses writes; see its log."),
    ),
    "shadow": (
        Step("See how far the group is.", "haltline status"),
        Step("Start it; it resumes from its last checkpoint.", "haltline worker --rules shadow"),
    ),
    "console": (
        Step("Ask Kafka itself, not the console.", "haltline status"),
        Step("After a start or --rebuild it reads the topics, and catches up automatically."),
        Step("Otherwise its database is slow or full, which its log says. Restart it; the read model can be rebuilt."),
    ),
    "console_waits": (
        Step("Create them, or start haltline's own broker instead: haltline up.", "haltline topics create"),
        Step("If they are there under another prefix, or on another cluster: correct --prefix or --bootstrap."),
    ),
    "console_gap": (
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
    "console_ahead": (
        Step("See whether topics are missing or were recreated.", "haltline topics check"),
        Step(
            "If a topic was recreated or cut off: have the read model rebuilt from what the topics hold, without "
            "--audit-table, which ends where the old topic did.",
            "haltline console --rebuild",
        ),
        Step("If it is another cluster than before: correct --bootstrap or --database."),
    ),
}
"""By the problem's part; for the canary and the console's offsets, by the kind of problem."""
