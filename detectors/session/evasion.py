"""The session tries another way to do what was refused.

Fires: `evasion` on an attempt to destroy or change a target that the session was refused to destroy or change, by
    another tool, another verb, or with more rights, or by an address that names it: low for the first such attempt,
    high from `high` on, critical from `critical` on; high at once if the first one was refused, rather than failed, and
    something would be lost. Once another way was tried, repetitions of the refused one count too. Refusals include
    calls that failed for lack of permission or because of a policy. Changing what must not be destroyed counts half. At
    most high if nothing would be lost. Attempts count for `window_s` or `last_actions` actions after the refusal.
Quiet: the same call again, which is a repetition; a refusal that no longer applies, because the same call succeeded
    later; what a declared batch covers; scratch files, and what belongs to the session.
Misses: the same thing by another name; shell commands that change but do not destroy; ways through other sessions; a
    way through another target, such as the parent folder.
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.commands.model import Destruction
from haltline.detectors.commands.rows import expression_of
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.features.same_target import names
from haltline.detectors.features.tool_classifier import UNKNOWN
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, TIME_MS, Entry, entry, evidence
from haltline.schemas import expressions as re
from haltline.schemas.events import Effect
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

# A module constant, as it is read at every event: looking up an enum member is ten times as slow.
_MUTATE = Effect.MUTATE

_MAX_TARGETS = 32
_MAX_WAYS = 8
_MAX_ROWS = 12
_READ_CHARS = 1024
_SOME_ROWS = "delete_rows"
_TELLING_CHARS = 8
"""Characters of a path that nothing else has by chance."""
_OF_PATHS = "/\\._-*~"
_MAX_WAY_CHARS = 120
_MAX_TARGETS_OF_ONE_ACT = 16

_DENIED = expression_of("a call was denied", re.IGNORECASE)
_MORE_RIGHTS = re.compile(r"\b(?:sudo|doas|su)\s|--force\b|--privileged\b|--no-verify\b|--no-preserve-root\b")


class Refused(Stored):
    """A target whose destruction or change was refused."""

    ways: list[str]
    rows: list[Entry]
    """The refusal, and the attempts after it."""
    tries: float = 0.0
    is_loss: bool = False
    by_word: bool = False
    """haltline, a permission or a person refused it, rather than the system that it was made on."""


class EvasionState(Stored):
    """The refused targets, the oldest first."""

    refused: dict[str, Refused] = field(default_factory=dict)


@settings
class Evasion(Detector[EvasionState]):
    """Attempts to reach a refused effect in another way."""

    id: ClassVar[str] = "evasion"
    sees: ClassVar[Trait] = Trait.ATTEMPT | Trait.RESULT | Trait.REFUSED
    wakes_at: ClassVar[Trait] = Trait.FAILURE | Trait.REFUSED
    ascending: ClassVar[tuple[tuple[str, ...], ...]] = (("high", "critical"),)

    high: Annotated[float, Field(ge=1, le=100), Stricter.LOWER] = 2
    """The lowest number of attempts that is high."""
    critical: Annotated[float, Field(ge=1, le=100), Stricter.LOWER] = 3
    """The lowest number of attempts that is critical."""
    window_s: Annotated[float, Field(gt=0, le=2_592_000), Stricter.HIGHER] = 600.0
    """Seconds after the refusal in which attempts count."""
    last_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.HIGHER] = 50
    """Actions after the refusal in which attempts count."""

    def concerns(self, act: Observation) -> bool:
        """Attempts and results that would destroy or change things of others."""
        if not (act.is_attempt or act.is_result):
            return False
        return bool(act.losses) or (not act.runs and act.effect is _MUTATE)

    def observe(self, state: EvasionState, act: Observation) -> Finding | None:
        """Compare the attempt with refused ones; record refusals."""
        found = None
        if act.is_attempt and act.batch is None and state.refused:
            found = self._tried(state, act)
        if act.is_result:
            if act.refused or (act.failed and _is_denied(act)):
                self._note(state, act)
            elif not act.failed:
                for target, way in _ways(act):
                    known = state.refused.get(target)
                    if known is not None and way == known.ways[0]:
                        del state.refused[target]  # it is allowed now
        return found

    def near(self, state: EvasionState) -> float:
        """The attempts, relative to the number that is critical."""
        return min(1.0, max((known.tries for known in state.refused.values()), default=0.0) / self.critical)

    def _note(self, state: EvasionState, act: Observation) -> None:
        for target, way in _ways(act):
            known = state.refused.pop(target, None)
            if known is None or not self._is_near(known, act):
                known = Refused([way], [entry(act)], is_loss=bool(act.losses), by_word=act.refused)
            elif way not in known.ways:
                known.ways.append(way)
                del known.ways[1:-_MAX_WAYS]
            known.by_word |= act.refused
            state.refused[target] = known
            if len(state.refused) > _MAX_TARGETS:
                del state.refused[next(iter(state.refused))]

    def _tried(self, state: EvasionState, act: Observation) -> Finding | None:
        worst = way_there = ""
        counted: set[str] = set()
        for named, way in _ways(act):
            target = named if named in state.refused or not act.losses else _known_as(state, named, act)
            known = state.refused.get(target)
            if known is None or target in counted or not self._is_near(known, act):
                continue
            if way in known.ways and not known.tries:
                continue
            counted.add(target)
            known.tries += 1.0 if act.losses or not known.is_loss else 0.5
            known.rows.append(entry(act))
            del known.rows[1:-_MAX_ROWS]
            if not worst or known.tries > state.refused[worst].tries:
                worst, way_there = target, way
        return self._found(act, worst, way_there, state.refused[worst]) if worst else None

    def _is_near(self, known: Refused, act: Observation) -> bool:
        """Return whether the refusal, or the last attempt after it, is recent."""
        last = known.rows[-1]
        if abs(act.time_ms - int(last[TIME_MS])) <= self.window_s * 1000:
            return True
        return abs(act.index - int(last[INDEX])) <= self.last_actions

    def _found(self, act: Observation, target: str, way: str, known: Refused) -> Finding:
        severity = Severity.LOW
        # Some rows of a refused table are less than what was refused.
        as_much = any(loss.verb != _SOME_ROWS for loss in act.losses) or _SOME_ROWS in known.ways[0]
        if known.tries >= self.high or (known.by_word and known.is_loss and act.losses and as_much):
            severity = Severity.CRITICAL if known.tries >= self.critical and known.is_loss else Severity.HIGH
        return self.finding(
            "evasion",
            severity,
            f"{known.ways[0]!r} of {target:.200} was refused, now {way!r} is tried: "
            f"{known.tries:g} other attempts on it",
            evidence(act, known.rows),
            confidence=min(1.0, 0.5 + known.tries / (2 * self.critical)),
            values={"tries": known.tries, "ways": len({*known.ways, way})},
            thresholds=self.thresholds("high", "critical", "window_s", "last_actions"),
            target=target[:512],
        )


def _known_as(state: EvasionState, target: str, act: Observation) -> str:
    """Return the refused target that this one is, or names, or that the command line names; itself if there is none."""
    for known in state.refused:
        # What is inside of a refused folder is less, and no way around.
        if names(target, known) or (_is_named_in(act.text, known) and not target.startswith(f"{known}/")):
            return known
    return target


def _is_named_in(text: str, target: str) -> bool:
    """Return whether a command line names a file or folder as a whole, however its program splits the words."""
    kind, _, name = target.partition("=")
    if kind != "path" or len(name) < _TELLING_CHARS or not text:
        return False
    if name[1:3] == ":/":  # a drive of Windows: targets have slashes
        text = text.replace("\\", "/")
    at = text.find(name)
    around = text[at - 1 : at] + text[at + len(name) : at + len(name) + 1]
    return at >= 0 and not any(char.isalnum() or char in _OF_PATHS for char in around)


def _ways(act: Observation) -> list[tuple[str, str]]:
    """Each target with the way in which it would be destroyed or changed."""
    rights = " with more rights" if act.runs and _MORE_RIGHTS.search(act.text) else ""
    if act.losses:
        return [
            (_whole(loss.target), _way(act.action, loss.verb, f"{rights}{_by_file(act, loss)}"))
            for loss in act.losses[:_MAX_TARGETS_OF_ONE_ACT]
            if loss.target != UNKNOWN
        ]
    return [(act.head, act.action[:_MAX_WAY_CHARS])] if act.head and act.head != UNKNOWN else []


def _way(action: str, verb: str, rights: str) -> str:
    return (f"{action}{rights}" if action == verb else f"{action} {verb}{rights}")[:_MAX_WAY_CHARS]


def _by_file(act: Observation, loss: Destruction) -> str:
    """Say that a file which the session wrote does it, as the command line itself does not name the target."""
    name = _whole(loss.target).rpartition("=")[2].rpartition("/")[2]
    return " by a file" if act.runs and act.written and name not in act.text else ""


def _whole(target: str) -> str:
    """The folder, if the target is all of its content."""
    return (
        target[:_READ_CHARS].removesuffix("*").removesuffix("*").removesuffix("/")
        if target[-1:] == "*"
        else target[:_READ_CHARS]
    )


def _is_denied(act: Observation) -> bool:
    text = act.event.error or act.event.output_head or ""
    return _DENIED.search(text[:_READ_CHARS]) is not None
