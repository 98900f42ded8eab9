"""The human-readable page of a bundle: one HTML file that loads nothing. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.record import rfc3339
from haltline.streams.audit.incident import whole
from haltline.streams.incident.picture import Mark, timeline

_LANES: Final = ("model", "tool calls", "findings", "decisions", "operators", "control")
_DRAWN: Final = frozenset({Kind.PROPOSED, Kind.COMPLETED, Kind.MODEL_TURN})
_MAX_MARKS: Final = 2_000
_MAX_ROWS: Final = 500
_MAX_ARGUMENTS: Final = 200
_COLOURS: Final = {Level.ALLOW: "#999999", Level.KILL: "#b00020", Level.PAUSE: "#674ea7"}
_MARKED: Final = {
    "finding": ("findings", "dot", "#b45f06"),
    "operator": ("operators", "diamond", "#0b5394"),
    "control": ("control", "diamond", "#444444"),
}
_CSS: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:66em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%;font-size:13px}th,td{text-align:left;padding:.25em .6em;"
    "border-bottom:1px solid #ddd;vertical-align:top;overflow-wrap:anywhere}"
    "td:first-child{white-space:nowrap}.w{overflow-x:auto}h1{font-size:1.5em}"
    "h2{font-size:1.15em;margin-top:1.8em}code{background:#f4f4f4;padding:0 .2em}"
)


def report_html(
    manifest: Mapping[str, Any],
    events: Sequence[ActionEvent],
    decisions: Sequence[Decision],
    stop: Decision | None,
    others: Sequence[tuple[str, int, str]],
    *,
    links: int,
    signed: int,
) -> bytes:
    """Return the page. Texts of an agent are escaped."""
    session = str(manifest["session_id"])
    agent = next((d.agent_id for d in decisions), next((e.agent_id for e in events), "unknown"))
    parts = [f"<h1>Session {escape(session)}</h1><p>Agent {escape(agent)}. "]
    if stop is None:
        parts.append("It was not stopped.</p>")
    else:
        parts.append(
            f"<b>{stop.level.value}</b> at {rfc3339(stop.time)} by {escape(stop.detector or 'an operator')} "
            f"(<code>{escape(stop.code)}</code>): {escape(stop.reason)}</p>"
        )
    drawn = timeline(_LANES, _marks(events, decisions, others), stop.time if stop else None)
    parts.append(f'<h2>Timeline</h2><div class="w" tabindex="0">{drawn}</div>')
    parts.append(
        "<p>Times are in UTC and to scale, but for grey waits. Point at a mark to see when and what it is.</p>"
    )
    if stop is not None and stop.level is Level.KILL:
        parts += _report_of(stop, decisions, events)
    shown = [d for d in decisions if d.level > Level.ALLOW or d.would]
    parts.append(f"<h2>Decisions ({len(shown)})</h2>")
    decided = (
        (rfc3339(d.time), d.level.value, d.detector, d.event_id, d.reason, f"{d.policy} {d.policy_version}")
        for d in shown
    )
    parts.append(_table(("time", "level", "rule", "event", "reason", "policy"), decided))
    other = sorted(others, key=lambda one: one[1])
    parts.append(f"<h2>Findings, operators and control ({len(other)})</h2>")
    parts.append(_table(("time", "what", "said"), ((rfc3339(time), kind, what) for kind, time, what in other)))
    parts.append(
        "<h2>Proof</h2><p>"
        f"{links} links of the audit's hash chains and {signed} signed statements are in this bundle. "
        "<code>haltline replay BUNDLE.zip --public-key KEY.pub</code> checks the digest of each file, the chains, the "
        "signatures, and that the recorded events lead to the same decisions again.</p>"
    )
    body = "".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Session {escape(session)}</title>'
        f"<style>{_CSS}</style></head><body>{body}</body></html>\n"
    ).encode(errors="replace")


def _report_of(stop: Decision, decisions: Sequence[Decision], events: Sequence[ActionEvent]) -> list[str]:
    report, actions = whole(stop, decisions, events)
    parts = [f"<h2>Report</h2><p>{escape(report.summary)}</p><p>Root cause: {escape(report.root_cause)}</p>"]
    for title, lines in (
        ("Contributing", report.contributing_factors),
        ("Now", report.recommendations.immediate),
        ("Next time", report.recommendations.preventive),
        ("Configuration", report.recommendations.configuration),
        ("Touched", report.impact.things),
    ):
        if lines:
            parts.append(f"<p>{title}:</p><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>")
    parts.append(f"<h2>The last {len(actions)} actions before the stop</h2>")
    names = ("action", "targets", "outcome", "error")
    rows = (
        (rfc3339(act["time"]), *(" ".join(v) if isinstance(v := act.get(name, ""), list) else str(v) for name in names))
        for act in actions
    )
    parts.append(_table(("time", *names), rows))
    return parts


def _marks(
    events: Sequence[ActionEvent], decisions: Sequence[Decision], others: Sequence[tuple[str, int, str]]
) -> list[Mark]:
    marks = [Mark(_MARKED[kind][0], time, *_MARKED[kind][1:], what) for kind, time, what in others if kind in _MARKED]
    for d in decisions:
        shape = "cross" if d.level >= Level.PAUSE else "dot"
        marks.append(Mark("decisions", d.time, shape, _COLOURS.get(d.level, "#b45f06"), f"{d.level.value}: {d.reason}"))
    for e in [event for event in events if event.kind in _DRAWN][-_MAX_MARKS:]:
        if e.kind is Kind.MODEL_TURN:
            marks.append(Mark("model", e.time, "dot", "#666666", e.kind.value))
        else:
            what = f"{e.kind.value} {e.action} {' '.join(e.targets)} {_arguments(e)}".rstrip()
            marks.append(Mark("tool calls", e.time, "tick", "#b00020" if e.error else "#38761d", what))
    return marks


def _arguments(event: ActionEvent) -> str:
    text = ", ".join(f"{name}={value}" for name, value in (event.args or {}).items())
    return text if len(text) <= _MAX_ARGUMENTS else text[: _MAX_ARGUMENTS - 1] + "\u2026"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, without the columns that are empty."""
    found = list(rows)
    columns = [number for number in range(len(names)) if any(row[number] for row in found)]
    lines = ["".join(f"<td>{escape(row[number])}</td>" for number in columns) for row in found[:_MAX_ROWS]]
    head = "".join(f"<th>{escape(names[number])}</th>" for number in columns)
    more = f"<p>and {len(found) - _MAX_ROWS} more</p>" if len(found) > _MAX_ROWS else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in [head, *lines])}</table>{more}"
