"""Irreversible HTTP requests, by method and path: an extensible table for programs, tools and calls inside programs.

The rows of `web.txt`; the first matching one applies. Requests to a local development
server (`localhost` with one of the usual ports) have no effect on others and are ignored.

Misses: effects that only the body shows, except for a few words; services with uninformative paths.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson

from haltline.detectors.commands.effects import tools
from haltline.detectors.commands.model import ActEffect, Badness, Destruction
from haltline.detectors.commands.names import is_main_branch
from haltline.detectors.commands.rows import cells_of, expression_of
from haltline.detectors.commands.surroundings import is_own_server
from haltline.schemas import expressions as re
from haltline.schemas.tools import arguments


class _Row(NamedTuple):
    """One line of `web.txt`."""

    effect: ActEffect
    verb: str
    severe: bool
    methods: frozenset[str]
    path: re.Pattern[str]
    body: re.Pattern[str] | None


def _read(name: str) -> Iterator[_Row]:
    for act, methods, path, *body in cells_of(name):
        effect, _, verb = act.partition(" ")
        patterns = [re.compile(pattern, re.IGNORECASE) for pattern in (path, *body)]
        severe = effect.endswith("!")
        kinds = frozenset(methods.split())
        yield _Row(ActEffect(effect.rstrip("!")), verb, severe, kinds, patterns[0], patterns[1] if body else None)


_ROWS, _BODIES = tuple(_read("web")), tuple(_read("bodies"))
_IN_THE_INTERNET = expression_of("an address in the internet", re.IGNORECASE)
_LOOKS = expression_of("a request that only looks", re.IGNORECASE)
_MAX_CHARS = 480
_FIELD = re.compile(r"""["']?([\w.-]{2,40})["']?\s*:?[:=]\s*["']?([^"'&\s,{}\[\]]{1,80})""")
_REQUEST_LINE = re.compile(r"\A\s*(?P<method>DELETE|POST|PUT|PATCH)\s+(?P<place>\S+)")
_BY_POST = frozenset((ActEffect.EXPOSES, ActEffect.SENDS))
"""The effects of settings that count in a POST request, which usually creates something new."""
_MAX_BODY_CHARS = 4096
_CHANGES = frozenset(("POST", "PUT", "PATCH"))
_METHODS = ("method", "http_method", "verb", "request_method")
_PLACES = arguments("place")


def deletion(place: str) -> Destruction:
    """Return the act of a DELETE request, whatever server it is for."""
    return act("DELETE", place) or Destruction("http_delete", f"url={place}", Badness.PLAIN)


def act(method: str, place: str, body: str = "") -> Destruction | None:
    """Return the irreversible act of a request; None if no such act is known."""
    method = method.upper()
    if is_own_server(place) or (method != "DELETE" and _LOOKS.search(place) is not None):
        return None
    path = "/" + place.partition("://")[2].partition("/")[2] if "://" in place else place
    if not path.startswith("/"):
        path = "/" + path.partition("/")[2]
    target = f"url={place}"[:_MAX_CHARS]
    by_row = _by_row(_ROWS, method, place, path, body)
    if by_row is not None or not body or method not in _CHANGES:
        return by_row
    setting = tools.by_setting("update", _fields(body[:_MAX_BODY_CHARS]))
    if setting is not None and (method != "POST" or setting[1] in _BY_POST):
        verb = f"http_{method.lower()} {setting[0]}"
        return Destruction(verb, f"{target} {setting[0]}"[:_MAX_CHARS], Badness.PLAIN, setting[1])
    return _by_row(_BODIES, method, place, path, f"{body[:_MAX_BODY_CHARS]} ")


def _by_row(rows: Iterable[_Row], method: str, place: str, path: str, body: str) -> Destruction | None:
    for row in rows:
        if method not in row.methods or (row.body is not None and row.body.search(body) is None):
            continue
        found = row.path.search(place if "whole" in row.methods else path)
        if found is not None:
            severe = row.severe and ("internet" not in row.methods or _IN_THE_INTERNET.match(place) is not None)
            target = (f"url={place} {body.strip()}" if "told" in row.methods else f"url={place}")[:_MAX_CHARS]
            for kind, name in found.groupdict().items():
                target, severe = f"{kind}={name}", severe or (kind == "branch" and is_main_branch(name))
            bad = Badness.SEVERE if severe else Badness.PLAIN
            return Destruction(row.verb or f"http_{method.lower()}", target, bad, row.effect)
    return None


def _fields(body: str) -> dict[str, Any]:
    """Return the fields of a body: JSON, a form, or the source of either in a program."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError:
        return dict(islice(_FIELD.findall(body), 64))
    return fields if isinstance(fields, dict) else {"items": fields} if fields else {}


def of_arguments(args: Mapping[str, Any], *, guess: bool = True) -> Destruction | None:
    """Return the act of a request in parts; `guess`: the default for places of people and automations is POST."""
    for name in ("options", "init", "config", "request"):
        inner = args.get(name)
        if isinstance(inner, dict):
            args = {**inner, **args}
        elif isinstance(inner, str) and (line := _REQUEST_LINE.match(inner)) is not None:
            return act(line["method"], line["place"], inner.partition("\n\n")[2])
    place = next((args[name] for name in _PLACES if isinstance(args.get(name), str)), "")
    if not place or not ("://" in place or place.startswith("/")):
        return None
    method = next((args[name] for name in _METHODS if isinstance(args.get(name), str)), "")
    body = next((args[name] or "{}" for name in ("json", "body", "data", "payload") if args.get(name) is not None), "")
    if (
        not method
        and guess
        and len(args) > 1
        and any(row.path.search(place) for row in _ROWS if "whole" in row.methods)
    ):
        method = "POST"
    if not method:
        return None
    return act(method, place, body if isinstance(body, str) else _as_text(body))


def _as_text(body: Any) -> str:
    return str(body)[:4096].replace("True", "true").replace("False", "false").replace("'", '"')
