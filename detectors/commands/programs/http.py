"""HTTP clients: requests that delete or are otherwise irreversible, and statements in their bodies.

Misses: `curl -K`, bodies in files, requests whose path and body are uninformative.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote_plus

import orjson

from haltline.detectors.commands import graphql
from haltline.detectors.commands.arguments import objects_of
from haltline.detectors.commands.effects import requests
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.rows import cells_of
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import OPTIONS, Options, parse
from haltline.detectors.commands.sql import sql_destructions
from haltline.detectors.commands.surroundings import is_own_server
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb

_FORGES = frozenset(("gh", "glab"))
_CHANGES = frozenset(("POST", "PUT", "PATCH"))
_OF_STATEMENTS = ("statement", "query", "sql", "gremlin", "cypher", "update")
_FORM = re.compile(rf"(?:{'|'.join(_OF_STATEMENTS)})=")


@dataclass(frozen=True, slots=True)
class _Client:
    """One line of `requests.txt`."""

    methods: tuple[str, ...]
    bodies: tuple[str, ...]
    valued: frozenset[str]
    windows: bool
    """Its options have one dash, and no case."""

    def __call__(self, invocation: Invocation) -> Iterator[Destruction]:
        words = invocation.argv[1:]
        if self.windows:
            words = tuple(word.lower() if word[:1] == "-" else word for word in words)
        options = parse(words, self.valued, single_dash_words=self.windows)
        operands = options.operands
        if invocation.name in _FORGES:
            if operands[:1] != ("api",):
                return
            operands = tuple(f"/{place.lstrip('/')}" for place in operands[1:2])
        method = (options.value(*self.methods) or "").upper()
        bodies = options.values(*self.bodies)
        if not self.methods:
            named = operands[:1] if operands[:1] and operands[0].isalpha() else ()
            method, operands = "".join(named).upper(), operands[len(named) :]
            operands, bodies = operands[:1], operands[1:]
        yield from self._requested(method, operands, bodies, options)

    def _requested(
        self, method: str, operands: tuple[str, ...], bodies: tuple[str, ...], options: Options
    ) -> Iterator[Destruction]:
        by_get = options.has("-G", "--get")
        if "x-http-method-override:delete" in " ".join(options.values("-H", "--header")).lower().replace(" ", ""):
            method = "DELETE"
        posts = options.has(*self.bodies, "-F") if self.methods else any("=" in part for part in bodies)
        method = method or ("POST" if posts and not by_get else "GET")
        for url in (*operands, *options.values("--url", "-uri")):
            place = url if not by_get else f"{url}{'&' if '?' in url else '?'}{'&'.join(bodies)}"
            if method != "DELETE":
                act = requests.act(method, place, " ".join(bodies))
                yield from () if act is None else (act,)
            elif not is_own_server(place):
                yield requests.deletion(place)
        for body in bodies if self.methods else ():
            yield from body_losses(body)


def body_losses(text: str) -> Iterator[Destruction]:
    """Yield the losses by the body of a request: a statement, or a GraphQL mutation."""
    form = _FORM.match(text)
    value: object = text
    if text[:1] == "{":
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
    elif form is not None:
        text = unquote_plus(text[form.end() :])
        value = {"query": text} if "mutation" in text else text
    if not isinstance(value, dict):
        yield from sql_destructions(text)
        return
    for deed in graphql.graphql(objects_of(value)):
        yield deed.loss()
    for inner in objects_of(value):
        for name in _OF_STATEMENTS:
            if isinstance(inner.get(name), str):
                yield from sql_destructions(inner[name])
    if isinstance(value.get("method"), str) and destroying_verb(value["method"]):  # JSON-RPC
        about = orjson.dumps(value.get("params")).decode()[:120]
        yield Destruction(value["method"][:60], f"rpc={value['method'][:120]} {about}", Badness.PLAIN)


def _clients() -> Iterator[tuple[str, _Client]]:
    for names, methods, bodies in cells_of("requests"):
        for name in names.split(","):
            others = OPTIONS.get(name, frozenset())
            valued = others | {*methods.split(), *bodies.split()}
            yield name, _Client(tuple(methods.split()), tuple(bodies.split()), valued, "windows" in others)


def _grpc(invocation: Invocation) -> Iterator[Destruction]:
    """`grpcurl -d '{"id": 1}' host:443 package.Service/DeleteThing`."""
    options = invocation.options("-d -H -proto -import-path", single_dash_words=True)
    for word in options.operands[-1:]:
        if destroying_verb(word.rpartition("/")[2]):
            yield Destruction("grpc_call", f"rpc={word} {options.value('-d') or ''}"[:200], Badness.PLAIN)


TOOLS: Mapping[str, Callable[[Invocation], Iterator[Destruction]]] = {
    **dict(_clients()),
    **dict.fromkeys(("grpcurl", "evans"), _grpc),
}
