"""What an operator does first about each problem of the protection; deploy/runbooks has the rest."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Step:
    """One thing to do."""

    text: str
    command: str = ""
    """For a shell; empty: none."""


STEPS: Final[dict[str, tuple[Step, ...]]] = {
    "workers": (
        Step("See which group is behind, and what else is wrong.", "haltline doctor"),
        Step(
            "A worker runs, and its /healthz answers 503 or not at all: restart it. Its state is in the changelog, so "
            "nothing is lost."
        ),
        Step("None runs: the last line of its log says why it ended. Start it; it goes on where it was."),
        Step("Until then, stop by other means what could destroy: credentials, schedulers, the agents' own processes."),
    ),
    "broker": (
        Step("See which broker is away, and whether it is the network or the credentials.", "haltline doctor"),
        Step("Bring the broker back. Workers, sink and console go on by themselves where they were."),
    ),
    "canary_not_stopped": (
        Step("Send one by hand: it reports which part is missing.", "haltline canary --within 30s"),
        Step("No verdict: no worker decides.", "haltline status"),
        Step("No kill after ten calls: the policy in force does not kill. Publish the one before.", "haltline policy"),
    ),
    "canary_silent": (
        Step("Start it where it ran before.", "haltline canary --every 5m"),
        Step("It runs and no flight arrives: its log names the broker or the credentials.", "haltline doctor"),
    ),
    "sink": (
        Step("See whether a sink runs and how far it is.", "haltline doctor"),
        Step("It does not run: the last line of its log says why. Start it; it goes on where the table ends."),
        Step("It runs: its store is slow or refuses it, which its log says."),
    ),
    "shadow": (
        Step("See how far the group is.", "haltline status"),
        Step("Start it; it goes on where it was.", "haltline worker --rules shadow"),
    ),
    "console": (
        Step("Ask Kafka itself, not the console.", "haltline status"),
        Step("After a start or --rebuild it takes in what the topics hold, and catches up by itself."),
        Step("Otherwise its database is slow or full, which its log says. Restart it; the read model can be rebuilt."),
    ),
}
"""By the problem's part, of the canary by what is wrong."""
