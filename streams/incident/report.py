"""The human-readable page of a bundle: one HTML file that loads nothing. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from haltline.schemas.decisions import Decision, Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.record import rfc3339
from haltline.streams.audit.incident import whole
from haltline.streams.incident.picture import Mark, timeline

_LANES: Final = ("model", "tool calls", "findings", "decisions", "operators", "control")
_MAX_MARKS: Final = 2_000
_MAX_ROWS: Final = 500
_MAX_ARGUMENTS: Final = 200
_COLOUR: Final = {
    Level.ALLOW: "#999999",
    Level.NUDGE: "#b8860b",
    Level.REINFORCE: "#b8860b",
    Level.THROTTLE: "#b45f06",
    Level.PAUSE: "#674ea7",
    Level.BLOCK: "#cc4125",
    Level.ROLLBACK: "#cc4125",
    Level.KILL: "#b00020",
}
_MARKED: Final = {
    "finding": ("findings", "dot", "#b45f06"),
    "operator": ("operators", "diamond", "#0b5394"),
    "control": ("control", "diamond", "#444444"),
}
_CSS: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:66em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;width:100%;font-size:13px}th,td{text-align:left;padding:.25em .6em;"
    "border-bottom:1px solid #ddd;vertical-align:top;overflow-wrap:anywhere}.s{white-space:nowrap}.w{overflow-x:auto}"
    "h1{font-size:1.5em}"
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
        "<p>Times are in UTC and to scale, but for grey waits without records. Point at a mark to see what it is.</p>"
    )
    if stop is not None and stop.level is Level.KILL:
        parts += _report_of(stop, decisions, events)
    shown = [d for d in decisions if d.level > Level.ALLOW or d.would]
    parts.append(f"<h2>Decisions ({len(shown)})</h2>")
    parts.append(
        _table(
            ("time", "level", "rule", "event", "reason", "policy"),
            (
                (rfc3339(d.time), d.level.value, d.detector, d.event_id, d.reason, f"{d.policy} {d.policy_version}")
                for d in shown
            ),
            ("time", "level", "rule"),
        )
    )
    other = sorted(others, key=lambda one: one[1])
    parts.append(f"<h2>Findings, operators and control ({len(other)})</h2>")
    parts.append(
        _table(("time", "what", "said"), ((rfc3339(time), kind, what) for kind, time, what in other), ("time", "what"))
    )
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
    rows = (
        (
            rfc3339(act["time"]),
            str(act.get("action", "")),
            " ".join(act.get("targets", ())),
            str(act.get("outcome", "")),
            str(act.get("error", "")),
        )
        for act in actions
    )
    parts.append(_table(("time", "action", "targets", "outcome", "error"), rows, ("time", "outcome")))
    return parts


def _marks(
    events: Sequence[ActionEvent], decisions: Sequence[Decision], others: Sequence[tuple[str, int, str]]
) -> list[Mark]:
    marks = [Mark(_MARKED[kind][0], time, *_MARKED[kind][1:], what) for kind, time, what in others if kind in _MARKED]
    marks += [
        Mark(
            "decisions",
            d.time,
            "cross" if d.level >= Level.PAUSE else "dot",
            _COLOUR[d.level],
            f"{d.level.value}: {d.reason}",
        )
        for d in decisions
    ]
    calls = {e.call_id: e.time for e in events if e.kind is Kind.PROPOSED and e.call_id is not None}
    acts = [e for e in events if e.kind in (Kind.PROPOSED, Kind.COMPLETED)][-_MAX_MARKS:]
    marks += [
        Mark(
            "tool calls",
            e.time,
            "tick",
            "#b00020" if e.error else "#38761d",
            f"{e.kind.value} {e.action} {' '.join(e.targets)} {_arguments(e)}".rstrip(),
            begun_ms=calls.get(e.call_id) if e.kind is Kind.COMPLETED and e.call_id is not None else None,
            text=f"{e.action} {' '.join(e.targets) or _arguments(e)}".strip() if e.kind is Kind.PROPOSED else "",
        )
        for e in acts
    ]
    turns = [e for e in events if e.kind is Kind.MODEL_TURN][-_MAX_MARKS:]
    marks += [Mark("model", e.time, "dot", "#666666", e.kind.value) for e in turns]
    return marks


def _arguments(event: ActionEvent) -> str:
    text = ", ".join(f"{name}={value}" for name, value in (event.args or {}).items())
    return text if len(text) <= _MAX_ARGUMENTS else text[: _MAX_ARGUMENTS - 1] + "\u2026"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], short: Collection[str] = ()) -> str:
    """Return a table without empty columns; cells of the columns `short` are not wrapped."""
    found = list(rows)
    columns = [number for number in range(len(names)) if any(row[number] for row in found)]
    one_line = [' class="s"' if names[number] in short else "" for number in columns]
    lines = [
        "<tr>" + "".join(f"<td{c}>{escape(row[n])}</td>" for n, c in zip(columns, one_line, strict=True)) + "</tr>"
        for row in found
    ]
    more = f"<p>and {len(lines) - _MAX_ROWS} more</p>" if len(lines) > _MAX_ROWS else ""
    head = "".join(f"<th>{escape(names[number])}</th>" for number in columns)
    return f"<table><tr>{head}</tr>{''.join(lines[:_MAX_ROWS])}</table>{more}"
