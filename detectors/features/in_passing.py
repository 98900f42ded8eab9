"""Things that an action both creates and destroys: they did not exist before it.

A command line that writes a file and then removes it; a program that removes a file and rewrites it; a test's own
database or table that is recreated. A recreated folder does not count, as its content is lost.

Misses: the order in which a command line uses a name that it assembles, unless the name is computed when it runs.
"""

from collections.abc import Collection

from haltline.detectors.commands.code.creations import code_creations
from haltline.detectors.commands.model import MAX_COMMAND_CHARS, unplaced
from haltline.detectors.commands.names import is_for_tests
from haltline.detectors.commands.rows import expression_of
from haltline.detectors.features.observation_protocol import Observed
from haltline.schemas import expressions as re

_COMPUTED = "$("


def made_in_passing(act: Observed) -> Collection[str]:
    """Targets, with where they are, that an attempt destroys, and that did not exist before it."""
    if not act.runs or not act.text:
        return ()
    by_code = code_creations(act.text, cwd=act.cwd, folders=False)
    made = act.creates
    taken = {one.target for one in act.destroys if one.target.startswith("path=")}
    if len(taken) < len(act.destroys):
        others = {one.placed for one in act.destroys if one.target.startswith(_MADE_BY_COMMANDS)}.intersection(made)
        taken |= (
            others if others and _is_made_first(act.text) else {one for one in others if is_for_tests(unplaced(one))}
        )
    return {
        target
        for target in taken.intersection((*made, *by_code))
        if target in by_code
        or not target.startswith("path=")
        or _COMPUTED in target
        or _is_written_before(act.text, target.rpartition("/")[2])
    }


_MADE_BY_COMMANDS = ("database=", "table=", "container=", "k8s=", "branch=", "tag=", "stash=")
_MAKES = expression_of("a command line makes a thing", re.IGNORECASE)
_TAKES = re.compile(r"\bdrop(?:db)?\b|\bdelete\b|\brm\b|\bbranch -|\btag -|\bstash (?:drop|clear)", re.IGNORECASE)


def _is_made_first(text: str) -> bool:
    makes, takes = _MAKES.search(text, 0, MAX_COMMAND_CHARS), _TAKES.search(text, 0, MAX_COMMAND_CHARS)
    return makes is not None and takes is not None and makes.start() < takes.start()


def _is_written_before(text: str, target: str) -> bool:
    """Return whether a command line writes a file before it first removes it."""
    name = re.escape(target.removeprefix("path="))
    removal = re.compile_given(rf"\b(?:rm|rmdir|unlink|shred|trash)\b[^;&|\n]{{0,1000}}?{name}").search(
        text, 0, MAX_COMMAND_CHARS
    )
    written = re.compile_given(
        rf"(?:>|\btee|-[oO]|\bmkdir(?:\s+-p)?|\btouch|\bclone\s+\S+|-m\s+venv)\s*[\"']?[\w./~-]{{0,300}}{name}"
    ).search(text, 0, MAX_COMMAND_CHARS)
    return removal is not None and written is not None and written.start() < removal.start()
