"""The report as one HTML file that needs no network."""

from importlib.resources import files

import orjson

from haltline.streams.scan.report import BY, WORDS, Report

_PLACE = b"{{data}}"


def page_of(report: Report) -> str:
    """The page. What histories say stands in it as JSON in which nothing can end the script; it is shown as text."""
    sessions = [
        {
            "id": one.session_id,
            "agent": one.agent,
            "project": one.project,
            "models": one.models,
            "time": one.began_ms if one.has_times else None,
            "events": one.events,
            "tokens": one.tokens,
            "cost": one.cost_usd,
            "waste": one.waste,
            "hints": one.hints,
            "asks": one.asks,
        }
        for one in report.sessions
    ]
    data = {
        "totals": report.totals_line(),
        "cache": report.cache_line(),
        "read": report.read_line(),
        "spent": {
            by: [{"name": one.name, "tokens": one.tokens, "cost": one.cost_usd} for one in report.groups(by)]
            for by in BY
        },
        "wasted": report.wasted_line(),
        "words": WORDS,
        "unpriced": report.unpriced,
        "sessions": sessions,
    }
    inside_script = orjson.dumps(data).replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")
    template = (files("haltline.streams.scan") / "page.html").read_bytes()
    return template.replace(_PLACE, inside_script).decode()
