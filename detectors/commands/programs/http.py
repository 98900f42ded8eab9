"""HTTP clients: requests that delete or are otherwise irreversible, and statements in their bodies.

Misses: `curl -K`, bodies in files, requests whose path and body are uninformative.
"""

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import unquote_plus

import orjson

from haltline.detectors.commands import graphql
from haltline.detectors.commands.arguments import objects_of
from haltline.detectors.commands.effects import requests
from haltline.detectors.commands.model import Badness, Destruction, listed
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import parse
from haltline.detectors.commands.sql import sql_destructions
from haltline.detectors.commands.surroundings import is_own_server
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import destroying_verb

_CURL_VALUE_OPTIONS = frozenset(listed("""
    -X --request -H --header -d --data --data-raw -o --output -u --user -A -e -b -c -m --max-time --data-binary
    --data-urlencode --json --post-data --method -w --write-out --cacert --cert --key -F -x --retry -T
"""))  # fmt: skip
_BODY_OPTIONS = ("-d", "--data", "--data-raw", "--data-binary", "--data-urlencode", "--json", "--post-data")


def _curl(invocation: Invocation) -> Iterator[Destruction]:
    options = parse(invocation.argv[1:], _CURL_VALUE_OPTIONS)
    method = options.value("-X", "--request", "--method") or ""
    urls = (*options.operands, *options.values("--url"))
    headers = " ".join(options.values("-H", "--header")).lower().replace(" ", "")
    posts = options.has(*_BODY_OPTIONS, "-F") or method.upper() in ("POST", "PUT", "PATCH")
    bodies = options.values(*_BODY_OPTIONS)
    by_get = options.has("-G", "--get")
    if "x-http-method-override:delete" in headers:
        method = "DELETE"
    for url in urls:
        place = url if not by_get else f"{url}{'&' if '?' in url else '?'}{'&'.join(bodies)}"
        yield from _requested(method or ("POST" if posts and not by_get else "GET"), place, " ".join(bodies))
    for body in bodies:
        yield from body_losses(body)


def body_losses(text: str) -> Iterator[Destruction]:
    """Yield the losses by the body of a request: a statement, or a GraphQL mutation."""
    value: object = text
    if text[:1] == "{":
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
    if isinstance(value, dict):
        for deed in graphql.graphql(objects_of(value)):
            yield deed.loss()
        for inner in objects_of(value):
            for name in _OF_STATEMENTS:
                if isinstance(inner.get(name), str):
                    yield from sql_destructions(inner[name])
        if isinstance(value.get("method"), str) and destroying_verb(value["method"]):  # JSON-RPC
            about = orjson.dumps(value.get("params")).decode()[:120]
            yield Destruction(value["method"][:60], f"rpc={value['method'][:120]} {about}", Badness.PLAIN)
    else:
        form = _FORM.match(text)
        yield from sql_destructions(text if form is None else unquote_plus(text[form.end() :]))


_OF_STATEMENTS = ("statement", "query", "sql", "gremlin", "cypher", "update")
_FORM = re.compile(rf"(?:{'|'.join(_OF_STATEMENTS)})=")


_OF_HTTPIE = frozenset(
    listed("-A --auth-type -a --auth -o --output -p --print -s --style --session --timeout --verify --proxy")
)
"""Options with a value."""


def _httpie(invocation: Invocation) -> Iterator[Destruction]:
    operands = parse(invocation.argv[1:], _OF_HTTPIE).operands
    method, rest = (operands[0], operands[1:]) if operands[:1] and operands[0].isalpha() else ("", operands)
    if rest:
        posts = len(rest) > 1 and any("=" in word for word in rest[1:])
        yield from _requested(method or ("POST" if posts else "GET"), rest[0], " ".join(rest[1:]))


def _requested(method: str, url: str, body: str) -> Iterator[Destruction]:
    """Yield the effect of a request; none for a request to a local development server."""
    if method.upper() == "DELETE":
        if not is_own_server(url):
            yield _url(url)
        return
    act = requests.act(method, url, body)
    if act is not None:
        yield act


def _grpc(invocation: Invocation) -> Iterator[Destruction]:
    """`grpcurl -d '{"id": 1}' host:443 package.Service/DeleteThing`."""
    options = invocation.options("-d -H -proto -import-path", single_dash_words=True)
    for word in options.operands[-1:]:
        if destroying_verb(word.rpartition("/")[2]):
            yield Destruction("grpc_call", f"rpc={word} {options.value('-d') or ''}"[:200], Badness.PLAIN)


def _url(url: str) -> Destruction:
    return requests.deletion(url)


TOOLS: Mapping[str, Callable[[Invocation], Iterator[Destruction]]] = {
    **dict.fromkeys(("curl", "wget"), _curl),
    **dict.fromkeys(listed("http https xh xhs curlie hurl"), _httpie),
    **dict.fromkeys(("grpcurl", "evans"), _grpc),
}
