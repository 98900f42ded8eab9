"""An act is reported as done, and what it should have done is not seen.

Fires: `verify_mismatch` when something that was destroyed is there afterwards: the result itself says so ("asset
    still exists"), reading or listing it shows it, or destroying it succeeds once more; and when something that
    a tool made is not found. `medium`, `high` and `critical` count how often the same thing was not so.
Quiet: what was recreated in between, or may have been, by a program; reading that says that it is gone; acts
    that failed or were refused; claims more than `last_actions` actions old; things that were only emptied or
    overwritten; results that do not say what they are of, since their proposal was lost or comes late.
Misses: things under another name; effects that nobody looks at; results whose beginning is not published.
"""

import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import pydantic
from pydantic import Field, model_validator

from haltline.detectors.features.error_normalization import Normalization
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.features.tool_classifier import UNKNOWN
from haltline.detectors.framework.base import SETTINGS, Detector
from haltline.detectors.framework.severity_counts import require_ascending
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import INDEX, Entry, entry, evidence, seconds
from haltline.schemas.events import Effect, Kind
from haltline.schemas.findings import Finding, Severity

# Looked up at every event: from their class, members take ten times as long.
_WRITE, _READ = Effect.WRITE, Effect.READ

_MAX_CLAIMS = 16
_MAX_ROWS = 12
_READ_CHARS = 4096
_MIN_NAME_CHARS = 4
"""Shorter names are found everywhere."""
_STILL = re.compile(
    r"\bstill (?:exists?|there|present|in use|listed)\b|\bnot (?:been )?(?:deleted|removed|dropped)\b|\bremains\b"
    r"|\b0 rows? (?:affected|deleted)|\bDELETE 0\b",
    re.IGNORECASE,
)
_GONE = re.compile(
    r"not[ _]found|no such|does(?: not|n't) exist|\bdeleted|\bremoved|\bdropped|\bgone\b|no longer|\bnull\b"
    r"|^\W*(?:none)?\W*$",
    re.IGNORECASE,
)
_EMPTIES = frozenset((
    "delete_rows", "delete_all_rows", "update_all_rows", "truncate_table", "truncate", "rsync_delete",
    "s3_sync_delete", "find_delete", "redis_flushall", "redis_flushdb", "git_push_force", "git_push_mirror",
    "git_reset_hard", "git_checkout", "git_restore", "git_clean", "git_stash_clear", "git_reflog_expire",
    "git_gc_prune", "kubectl_scale_to_zero", "kubectl_drain", "docker_prune", "reset_database",
    "chmod_recursive", "chown_recursive", "power_off", "kill_all", "firewall_flush", "write_device", "dd",
))  # fmt: skip
"""What takes away something of a thing, and leaves the thing: that it is there afterwards is as it should be."""
_LISTS = re.compile(r"(?:^|&&|;)\s*(?:ls|stat|find|tree)\b")


@dataclass
class Claim:
    """What was said to be done, and what spoke against it since. Plain JSON values: part of the session's state."""

    made: bool
    """It was made; False: it was destroyed."""
    rows: list[Entry]
    """The claim, then each time it was not so."""
    mismatches: int = 0


@dataclass
class State:
    """By target: what the session says that it destroyed or made."""

    claims: dict[str, Claim] = field(default_factory=dict)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True, config=SETTINGS)
class VerifyMismatch(Detector[State]):
    """So many times the effect of an act on one target was not seen."""

    id: ClassVar[str] = "verify_mismatch"
    optional: ClassVar[bool] = True
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.DONE

    medium: Annotated[int, Field(ge=1, le=1000), Stricter.LOWER] = 1
    """Mismatches of one target from which on it is medium."""
    high: Annotated[int, Field(ge=1, le=1000), Stricter.LOWER] = 2
    """From how many on it is high."""
    critical: Annotated[int, Field(ge=1, le=1000), Stricter.LOWER] = 3
    """From how many on it is critical."""
    last_actions: Annotated[int, Field(ge=1, le=10_000), Stricter.HIGHER] = 50
    """So long a claim is held against what is seen."""

    @model_validator(mode="after")
    def _ordered(self) -> "VerifyMismatch":
        require_ascending(self.medium, self.high, self.critical)
        return self

    def start(self) -> State:
        """Nothing claimed yet."""
        return State()

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Holds the result against what was claimed, then notes what it claims."""
        claims = state.claims
        losses = act.losses
        makes = act.tool.effect is _WRITE and not act.failed
        if not (claims or losses or makes):
            return None
        if claims:
            self._forget(claims, act.index)
        found = ""
        if losses and not act.failed:
            found = _destroyed(claims, act)
        elif claims and not act.failed and not losses:
            found = _seen(claims, act)
        elif claims and act.failed and act.head in claims and claims[act.head].made and _is_absent(act):
            found = act.head
        if makes:
            _claim(claims, act.head, act, made=True)
        if not found:
            return None
        claim = claims[found] = claims.pop(found)
        return self._found(act, found, claim)

    def _forget(self, claims: dict[str, Claim], index: int) -> None:
        """Drops claims that lie too far back; the one not touched for the longest time comes first."""
        oldest = index - self.last_actions
        while claims:
            target = next(iter(claims))
            if int(claims[target].rows[-1][INDEX]) > oldest:
                return
            del claims[target]

    def near(self, state: State) -> float:
        """The most mismatches of one target, to the first count that is a finding."""
        return min(1.0, max((c.mismatches for c in state.claims.values()), default=0) / self.medium)

    def _found(self, act: Observation, target: str, claim: Claim) -> Finding | None:
        claim.mismatches += 1
        claim.rows.append(entry(act))
        del claim.rows[1:-_MAX_ROWS]
        count = claim.mismatches
        if count < self.medium:
            return None
        severity = Severity.MEDIUM
        if count >= self.high:
            severity = Severity.CRITICAL if count >= self.critical else Severity.HIGH
        was = "created but is not found" if claim.made else "deleted but still exists"
        return self.finding(
            "verify_mismatch",
            severity,
            f"{target[:512]} was {was}, {count} times in {seconds(claim.rows)}s",
            evidence(act, claim.rows),
            confidence=min(1.0, 0.6 + 0.2 * (count - 1)),
            values={"mismatches": count, "span_s": seconds(claim.rows)},
            thresholds={"medium": self.medium, "high": self.high, "critical": self.critical},
            target=target[:512],
        )


def _destroyed(claims: dict[str, Claim], act: Observation) -> str:
    """Notes what a call claims to destroy; the target that is destroyed for the second time, or that is still there."""
    made = set(act.creates)
    gone = [loss.target for loss in act.losses if loss.verb not in _EMPTIES]
    targets = [target for target in gone if target not in made and target != UNKNOWN]
    found = next((t for t in targets if t in claims and not claims[t].made), "")
    for target in targets:
        if target != found:
            _claim(claims, target, act, made=False)
    if not found and targets and _STILL.search(act.event.output_head or "", 0, _READ_CHARS):
        found = targets[0]
    return found


def _claim(claims: dict[str, Claim], target: str, act: Observation, *, made: bool) -> None:
    if target == UNKNOWN:
        return
    known = claims.pop(target, None)
    claims[target] = known if known is not None and known.made is made else Claim(made, [entry(act)])
    if len(claims) > _MAX_CLAIMS:
        del claims[next(iter(claims))]


def _seen(claims: dict[str, Claim], act: Observation) -> str:
    """The target that was destroyed and is seen by this call; forgets those that may have been recreated."""
    if act.changes or act.produces:
        for target in [t for t, c in claims.items() if _may_be_anew(t, c, act)]:
            del claims[target]
        return ""
    output = (act.event.output_head or "")[:_READ_CHARS]
    if act.runs:
        listed = [t for t in claims if t.startswith("path=")] if _LISTS.search(act.head) else []
        return next((t for t in listed if not claims[t].made and _shows_path(t, act.head, output)), "")
    if act.head in claims:
        claim = claims[act.head]
        if claim.made or _GONE.search(output):
            claims.pop(act.head)  # it is so
            return ""
        return act.head
    return next((t for t, c in claims.items() if not c.made and _lists(t, output)), "") if output else ""


def _may_be_anew(target: str, claim: Claim, act: Observation) -> bool:
    """Whether an act that changes something may have made or taken away what the claim is about."""
    if act.runs:
        return claim.made or target.startswith(("path=", "worktree="))
    return act.head == target and not claim.made


def _is_absent(act: Observation) -> bool:
    return act.tool.effect is _READ and act.error_key(Normalization.HIGH) in {"not_found", "filenotfounderror"}


def _lists(target: str, output: str) -> bool:
    """Whether the output names the target."""
    name = target.rpartition("=")[2].rpartition("/")[2]
    return len(name) >= _MIN_NAME_CHARS and _names(name, output)


def _shows_path(target: str, command: str, output: str) -> bool:
    """Whether a listing of the folder, or of the thing itself, shows it."""
    folder, _, name = target.removeprefix("path=").rpartition("/")
    return bool(folder) and folder in command and bool(name) and _names(name, output)


def _names(name: str, output: str) -> bool:
    """Whether a line holds the name as a word, and does not say that it is gone."""
    if name not in output:
        return False
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return any(named.search(line) and not _GONE.search(line) for line in output.splitlines())
