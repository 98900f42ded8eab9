"""Jobs that a tool starts by a destructive name: `run_workflow(name="destroy-prod")`; extensible sets of words.

Misses: jobs whose names do not show what they do; orders in prose to another agent, whose own calls are read.
"""

from collections.abc import Mapping
from typing import Any

from haltline.detectors.commands.effects.tools import pairs
from haltline.detectors.commands.rows import words_of
from haltline.schemas.tool_names import destroying_verb, words

STARTS = words_of("verbs that start a job")
_JOBS = words_of("jobs")
_STRONG = words_of("verbs of jobs that destroy")
_RELEASES, _PRODUCTION = frozenset(("deploy", "release", "rollout")), frozenset(("prod", "production", "live"))
_MAX_CHARS = 160


def started(action: str, args: Mapping[str, Any]) -> str:
    """Return the destructive name of a job that a call starts; empty if there is none."""
    named = [word.removesuffix("s") for word in words(action)]
    if STARTS.isdisjoint(named) or _JOBS.isdisjoint(named):
        return ""
    for _, value in pairs(args):
        if isinstance(value, str) and len(value) <= _MAX_CHARS and " " not in value.strip():
            parts = words(value)
            if not _STRONG.isdisjoint(parts) and destroying_verb(value.rpartition("/")[2]) != "":
                return value
            if not _STRONG.isdisjoint(parts[:1] + parts[-2:]) or (
                not _RELEASES.isdisjoint(parts) and not _PRODUCTION.isdisjoint(parts)
            ):
                return value
    return ""
