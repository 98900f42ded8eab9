"""Correlation rules of a policy: several matches in one session that are meaningful together.

Fires: on each event that matches one of the rule's selections and with which the rule applies. For counts, values, sums
    and means: the number of matches, the number of different values, or the sum or mean over the matches of the event's
    group, within the timespan (or the last actions), meets the condition. For `temporal` and `temporal_ordered`: every
    selection has a match; for `temporal_ordered` also in the order in which the selections are written.
Quiet: matches of other groups; events that lack one of the fields to group by; selections of findings if the rule that
    finds them is switched off.
Misses: other sessions; more than 128 matches within the timespan, as the oldest are dropped.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, ClassVar, Final

from haltline.detectors.features import task_scope
from haltline.detectors.features.observation import Observation
from haltline.detectors.framework.base import Detector, settings
from haltline.detectors.framework.window import EVENT_ID, INDEX, TIME_MS, Entry, entry, evidence, within
from haltline.schemas.correlation import MAX_ENTRIES, Correlation, CorrelationType, Selection
from haltline.schemas.events import Kind
from haltline.schemas.findings import Finding
from haltline.schemas.record import Values

_GROUP, _SELECTION, _VALUE = 4, 5, 6
_MAX_CHARS: Final = 96
_MAX_EVIDENCE: Final = 16

State = dict[str, Any]
"""`rule`: a digest of what the rule looks for; `matches`: `[time_ms, index, event_id, offset, group, selection,
value]`, in order of arrival. Plain JSON, so that the state of a rule that exists only in a policy needs no type."""
_RULE: Final = "rule"
_MATCHES: Final = "matches"
_MAX_VALUE: Final = 1e15
"""Larger numbers are not counted: sums must stay finite."""


@settings
class Correlated(Detector[State]):
    """A correlation rule; `detector_of` creates a subclass for each."""

    reads: ClassVar[frozenset[Kind]] = frozenset(Kind)
    rule: ClassVar[Correlation]
    names: ClassVar[tuple[str, ...]]
    looks_for: ClassVar[str]
    """A digest. State with another digest belongs to an older version of the rule, and is dropped."""

    def start(self) -> State:
        """A state without matches."""
        return {_RULE: self.looks_for, _MATCHES: []}

    def concerns(self, act: Observation) -> bool:
        """Return whether one of the selections matches the event."""
        return any(_selects(selection, act) for selection in self.rule.select.values())

    def observe(self, state: State, act: Observation) -> Finding | None:
        """Record the matches of the event, and evaluate the rule for their groups."""
        if state[_RULE] != self.looks_for:
            state.update(self.start())
        matches: list[Entry] = state[_MATCHES]
        new = list(self._matches(act))
        matches += new
        del matches[:-MAX_ENTRIES]
        for match in new:
            rows = self._near_to(matches, match)
            value = self._value(rows, match)
            if value is not None:
                return self._found(act, match, rows, value)
        return None

    def _matches(self, act: Observation) -> Iterator[Entry]:
        field = self.rule.condition.field if self.rule.condition is not None else None
        for number, selection in enumerate(self.rule.select.values()):
            for finding in _selects(selection, act):
                group = self._group(act, finding)
                if group is None:
                    continue
                value = 0 if field is None else self._measured(_values(field, act, finding))
                if value is None:
                    continue
                yield entry(act, group, number, value)
                break

    def _measured(self, values: Sequence[str | float]) -> float | str | None:
        """The value to store of a field; None: it cannot be counted."""
        if not values:
            return None
        if self.rule.type is CorrelationType.VALUE_COUNT:
            return _short(str(values[0]))
        number = values[0]
        return float(number) if not isinstance(number, str) and abs(number) <= _MAX_VALUE else None

    def _group(self, act: Observation, finding: Finding | None) -> str | None:
        """The group of a match, from its values of the fields to group by; None if one is missing."""
        parts = []
        for name in self.rule.group_by:
            values = _values(name, act, finding)
            if not values:
                return None
            parts.append(_short(str(values[0])))
        return _short(", ".join(parts))

    def _near_to(self, matches: Sequence[Entry], match: Entry) -> list[Entry]:
        """The matches of the same group in the same window as this one."""
        until = next(i for i, m in enumerate(matches) if m is match) + 1
        rows = [m for m in matches[:until] if m[_GROUP] == match[_GROUP]]
        fast = within(rows, self.rule.timespan_ms)
        if self.rule.last_actions is None:
            return fast
        slow = within(rows, self.rule.last_actions - 1, key=INDEX)
        return fast if len(fast) >= len(slow) else slow

    def _value(self, rows: list[Entry], match: Entry) -> float | None:
        """The value with which the rule applies; None: it does not."""
        kind = self.rule.type
        if kind is CorrelationType.TEMPORAL:
            return float(len(rows)) if len({m[_SELECTION] for m in rows}) == len(self.names) else None
        if kind is CorrelationType.TEMPORAL_ORDERED:
            return float(len(rows)) if _in_order(rows, match, len(self.names)) else None
        value = _MEASURES[kind](rows)
        condition = self.rule.condition
        return value if condition is not None and condition.holds(value) else None

    def _found(self, act: Observation, match: Entry, rows: list[Entry], value: float) -> Finding:
        rule = self.rule
        others = [m for m in rows if m[EVENT_ID] != match[EVENT_ID]][-_MAX_EVIDENCE + 1 :]
        by_name = {name: sum(m[_SELECTION] == number for m in rows) for number, name in enumerate(self.names)}
        counts = ", ".join(f"{count} {name}" for name, count in by_name.items() if count)
        group = f" of {match[_GROUP]}" if rule.group_by else ""
        values: Values = {"value": round(value, 6), "matches": len(rows), "group": str(match[_GROUP])}
        targets = _values("target", act, None)
        return self.finding(
            rule.name,
            rule.severity,
            f"{rule.title or rule.name}: {rule.type.value} {round(value, 3):g}{group} within {rule.timespan} "
            f"({counts})",
            evidence(act, [*others, match]),
            values=values,
            thresholds={"timespan": rule.timespan, **(rule.condition.limits if rule.condition else {})},
            target=str(targets[0])[:512] if targets else None,
        )


def detector_of(rule: Correlation) -> type[Detector[Any]]:
    """Create the detector class of a rule."""
    about = rule.model_dump_json(include={"type", "select", "group_by"})
    looks_for = f"{about} {rule.condition.field if rule.condition is not None else None}"
    settings = {
        "id": rule.rule_id,
        "rule": rule,
        "names": tuple(rule.select),
        "combines": any(selection.of_findings for selection in rule.select.values()),
        "looks_for": blake2b(looks_for.encode(), digest_size=6).hexdigest(),
        "__doc__": rule.title or rule.name,
    }
    return type(f"Correlated_{rule.name}", (Correlated,), settings)


def _selects(selection: Selection, act: Observation) -> Sequence[Finding | None]:
    """The findings of this event that the selection matches, or one None for the event itself; empty: no match."""
    if selection.of_findings and not act.found:
        return ()
    if not _is_part(selection.part, act) or not _matches_event(selection, act):
        return ()
    if not selection.of_findings:
        return (None,)
    return [f for f in act.found if _matches_finding(selection, f)]


def _is_part(part: str, act: Observation) -> bool:
    return part == "event" or (act.is_attempt if part == "attempt" else act.is_result)


def _matches_event(selection: Selection, act: Observation) -> bool:
    event = act.event
    if selection.kind is not None and event.kind is not selection.kind:
        return False
    if selection.action is not None and not fnmatchcase(act.action, selection.action):
        return False
    if selection.agent_id is not None and not fnmatchcase(event.agent_id, selection.agent_id):
        return False
    if selection.outcome is not None and event.outcome is not selection.outcome:
        return False
    if selection.error is not None and not fnmatchcase(event.error or "", selection.error):
        return False
    if selection.effect is not None and not act.effect >= selection.effect:
        return False
    if selection.reads_secret and not any(task_scope.is_secret(path) for path, changes in act.accesses if not changes):
        return False
    args = event.args or {}
    if any(name not in args or not fnmatchcase(str(args[name]), glob) for name, glob in selection.args.items()):
        return False
    return selection.target is None or any(fnmatchcase(str(t), selection.target) for t in _values("target", act, None))


def _matches_finding(selection: Selection, finding: Finding) -> bool:
    if selection.finding is not None and not fnmatchcase(finding.detector, selection.finding):
        return False
    if selection.code is not None and not fnmatchcase(finding.code, selection.code):
        return False
    return selection.severity is None or finding.severity >= selection.severity


def _values(name: str, act: Observation, finding: Finding | None) -> list[str | float]:
    """The values of a field on this event; empty if there are none."""
    event = act.event
    source, _, inner = name.partition(".")
    values: Any
    if source == "args":
        values = (event.args or {}).get(inner)
    elif source == "usage":
        values = getattr(event.usage, inner, None)
    elif name == "target":
        if finding is not None and finding.target is not None:
            return [finding.target]
        if event.targets:
            return list(event.targets)
        losses = [loss.target for loss in act.losses]
        return losses or ([] if act.runs else [act.head])  # type: ignore[return-value]  # texts are texts or numbers
    elif name in ("detector", "code", "severity"):
        values = getattr(finding, name, None)
    elif name in ("action", "effect"):
        values = getattr(act, name)
    else:
        values = getattr(event, name, None)
    if values is None or values == "":
        return []
    return [values if isinstance(values, (int, float)) and not isinstance(values, bool) else str(values)]


def _short(text: str | float) -> str:
    """The text; if it is long, its beginning and a digest of the whole text."""
    text = str(text)
    if len(text) <= _MAX_CHARS:
        return text
    return f"{text[: _MAX_CHARS - 20]}...{blake2b(text.encode(errors='replace'), digest_size=8).hexdigest()}"


def _in_order(rows: Sequence[Entry], match: Entry, count: int) -> bool:
    """Return whether every selection has a match, in order of time, with `match` among them."""
    ordered = sorted(rows, key=lambda m: int(m[TIME_MS]))
    selected = int(match[_SELECTION])
    here = next(i for i, m in enumerate(ordered) if m is match)
    before, after = iter(ordered[:here]), iter(ordered[here + 1 :])
    return all(any(m[_SELECTION] == n for m in before) for n in range(selected)) and all(
        any(m[_SELECTION] == n for m in after) for n in range(selected + 1, count)
    )


def _sum(rows: Sequence[Entry]) -> float:
    return round(sum(float(m[_VALUE]) for m in rows), 9)


_MEASURES: Final[Mapping[CorrelationType, Callable[[Sequence[Entry]], float]]] = {
    CorrelationType.EVENT_COUNT: lambda rows: float(len({m[EVENT_ID] for m in rows})),
    CorrelationType.VALUE_COUNT: lambda rows: float(len({m[_VALUE] for m in rows})),
    CorrelationType.VALUE_SUM: _sum,
    CorrelationType.VALUE_AVG: lambda rows: round(_sum(rows) / len(rows), 9),
}
