"""The session works on files outside of its task, or touches critical paths.

Fires: `scope_creep` (high) on each further path outside of the declared scope while more than `ratio` of the session's
    paths are outside, at least `min_paths` were touched, and at least `min_outside` of them are outside.
    `critical_path` on the first access to each critical path that the task does not name. With a declared scope:
    critical, when it is changed or destroyed, or when a secret is read. Without one, only when it is changed: high, and
    critical if the change would take over a machine or an account (SSH keys, cloud credentials, accounts and schedules
    under /etc). Critical paths are `.env`, `config/secret*`, `secrets/`, keys, credentials, and, for changes, `.git/`
    and `/etc/`.
    The scope: `expected_paths` of the task and of the settings, and the paths that the task's goal names.
Quiet: without a declared scope, everything except changes of critical paths; scratch files; what the session itself
    creates, such as the helper scripts that every normal agent writes; reading programs, libraries, a project's
    description (`pyproject.toml`) and folders on the way to the scope; templates (`.env.example`).
Misses: new files outside of the scope, and files there that are overwritten without having been read; files that
    programs open on their own (`pip`, a test run, code); links; paths in results; a scope declared before an operator's
    reset; `git` commands that change `.git` themselves.
"""

from typing import Annotated, ClassVar

from msgspec import field
from pydantic import Field

from haltline.detectors.features import task_scope
from haltline.detectors.features.file_access import is_path
from haltline.detectors.features.observation import Observation, Trait
from haltline.detectors.framework.base import Detector, settings, worst_of
from haltline.detectors.framework.strictness import Stricter
from haltline.detectors.framework.window import Entry, entry, evidence
from haltline.schemas import expressions as re
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding, Severity
from haltline.schemas.stored import Stored

# A module constant, as it is read at every event: looking up an enum member is ten times as slow.
_SESSION_STARTED = Kind.SESSION_STARTED

_MAX_PATHS = 256
_MAX_PATH_CHARS = 240
_MAX_EXPECTED = 128
_MAX_EVIDENCE = 16
_EDITS = re.compile(r"edit|replace|insert|patch|append|update", re.IGNORECASE)
"""Names of tools that change existing files."""
_WORD = re.compile(r"[\w.~@+/*-]+")

_OUTSIDE = 4
"""Position in a path's entry: 1 if it is outside of the scope."""


class ScopeCreepState(Stored):
    """The scope, and the paths that were touched."""

    expected: list[str] = field(default_factory=list)
    """The task's expected paths."""
    named: list[str] = field(default_factory=list)
    """Paths in the task's goal: they extend a declared scope, but do not declare one."""
    paths: dict[str, Entry] = field(default_factory=dict)
    """By path: its first access."""
    critical: dict[str, int] = field(default_factory=dict)
    """By reported critical path: 1 if it was changed."""


@settings
class ScopeCreep(Detector[ScopeCreepState]):
    """Many of a session's paths are outside of its scope, or one is critical."""

    id: ClassVar[str] = "scope_creep"
    reads: ClassVar[frozenset[Kind]] = frozenset({Kind.SESSION_STARTED, Kind.PROPOSED, Kind.COMPLETED})
    sees: ClassVar[Trait] = Trait.ATTEMPT | Trait.TASK

    ratio: Annotated[float, Field(ge=0, lt=1), Stricter.LOWER] = 0.3
    """Share of the paths outside, each counted once; a higher share is scope creep."""
    min_paths: Annotated[int, Field(ge=1, le=256), Stricter.LOWER] = 4
    """Touched paths required before the ratio applies."""
    min_outside: Annotated[int, Field(ge=1, le=256), Stricter.LOWER] = 2
    """Paths outside required before the ratio applies."""
    expected_paths: tuple[Annotated[str, Field(min_length=1, max_length=512), Stricter.NEITHER], ...] = ()
    """Globs, in addition to those of the task."""
    critical_paths: tuple[Annotated[str, Field(min_length=1, max_length=512), Stricter.MORE], ...] = ()
    """Globs of further critical paths, for changes and reads."""

    def observe(self, state: ScopeCreepState, act: Observation) -> Finding | None:
        """Record the scope, or check the paths of an attempt."""
        if act.kind is _SESSION_STARTED:
            task = act.event.task
            if task is not None:
                expected = [path[:_MAX_PATH_CHARS] for path in task.expected_paths if path]
                state.expected = expected[:_MAX_EXPECTED]
                state.named = _paths_in(task.goal)
            return None
        declared = bool(state.expected or self.expected_paths)
        if act.refused or not (declared or self._may_be_critical(act)):
            return None
        globs = (*self.expected_paths, *state.expected, *state.named)
        own = act.calls.belongings.own
        worst: Finding | None = None
        crept = False
        for whole, changes in act.accesses:
            path = whole[:_MAX_PATH_CHARS]
            if task_scope.is_incidental(path, changes=changes):
                continue
            covered = task_scope.in_scope(path, globs, changes=changes)
            if not covered:
                if _is_own(own, path):
                    continue
                found = self._critical(state, act, path, changes=changes, declared=declared)
                worst = worst_of((worst, found))
                if found is None and changes and _is_new(act, path):
                    continue
            if declared:
                crept = _note(state, act, path, outside=not covered) or crept
        if worst is not None or not crept:
            return worst
        return self._creeping(state, act)

    def near(self, state: ScopeCreepState) -> float:
        """The ratio, relative to `ratio`."""
        if len(state.paths) < self.min_paths or not self.ratio:
            return 0.0
        outside = sum(1 for e in state.paths.values() if e[_OUTSIDE])
        return min(1.0, outside / len(state.paths) / self.ratio)

    def _may_be_critical(self, act: Observation) -> bool:
        if self.critical_paths:
            return True
        if act.text:
            return task_scope.may_be_critical(act.text)
        for target in act.event.targets:
            if task_scope.may_be_critical(target):
                return True
        if act.args and not act.runs:
            for value in act.args.values():
                if isinstance(value, str) and task_scope.may_be_critical(value):
                    return True
        return False

    def _critical(
        self, state: ScopeCreepState, act: Observation, path: str, *, changes: bool, declared: bool
    ) -> Finding | None:
        how = task_scope.critical(path, changes=changes)
        if not how and self.critical_paths and task_scope.in_scope(path, self.critical_paths, changes=True):
            how = "critical"
        if not how or not (changes or declared) or state.critical.get(path, -1) >= changes:
            return None
        state.critical[path] = int(changes)
        if len(state.critical) > _MAX_PATHS:
            del state.critical[next(iter(state.critical))]
        severity = Severity.CRITICAL if declared or how == "grave" else Severity.HIGH
        return self.finding(
            "critical_path",
            severity,
            f"{'changes' if changes else 'reads'} the critical path {path}"
            + (", outside of the task's scope" if declared else ""),
            (act.evidence,),
            values={"path": path, "changes": int(changes), "scope_declared": int(declared)},
            target=f"path={path}",
        )

    def _creeping(self, state: ScopeCreepState, act: Observation) -> Finding | None:
        outside = {path: e for path, e in state.paths.items() if e[_OUTSIDE]}
        share = len(outside) / len(state.paths)
        if len(state.paths) < self.min_paths or len(outside) < self.min_outside or share <= self.ratio:
            return None
        examples = ", ".join(list(outside)[-3:])
        return self.finding(
            "scope_creep",
            Severity.HIGH,
            f"{len(outside)} of {len(state.paths)} paths are outside of the task's scope, the last ones: {examples}",
            evidence(act, list(outside.values())[-_MAX_EVIDENCE:]),
            confidence=share,
            values={"outside": len(outside), "paths": len(state.paths), "ratio": round(share, 3)},
            thresholds=self.thresholds("ratio", "min_paths", "min_outside"),
            target=f"path={next(reversed(outside))}",
        )


def _note(state: ScopeCreepState, act: Observation, path: str, *, outside: bool) -> bool:
    """Record a new path; return whether it is new and outside."""
    if path in state.paths:
        return False
    state.paths[path] = entry(act, int(outside))
    if len(state.paths) > _MAX_PATHS:
        del state.paths[next(iter(state.paths))]
    return outside


def _is_own(own: dict[str, bool], path: str) -> bool:
    """Return whether the session created it: by its full path, or by its end if one of them is relative."""
    if own.get(f"path={path}"):
        return True
    absolute = path.startswith("/")
    for target, ours in own.items():
        other = target[5:]
        if ours and target.startswith("path=") and other.startswith("/") is not absolute:
            longer, shorter = (path, other) if absolute else (other, path)
            if longer.endswith(f"/{shorter}"):
                return True
    return False


def _is_new(act: Observation, path: str) -> bool:
    """Return whether the action creates the file: every normal agent writes helper scripts in addition to its work."""
    use = act.tool.use
    edits = not act.runs and (_EDITS.search(act.action) is not None if use is None else bool(use.old))
    return not edits and f"path={path}" in act.creates


def _paths_in(goal: str) -> list[str]:
    words = (word.rstrip(".") for word in _WORD.findall(goal) if "/" in word or "." in word)  # as in every path
    return list(dict.fromkeys(w[:_MAX_PATH_CHARS] for w in words if is_path(w) and w.strip("/.~*")))[:_MAX_EXPECTED]
