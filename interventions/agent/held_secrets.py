"""Secrets that a session has read, held in memory only, and recognized where a call sends them elsewhere.

Secrets come from results of calls: by their form or name (see `redaction.secrets`), or, where the call reads
credentials (`.env`, a key, `printenv`, a vault's response), every value that looks random. They are recognized in the
arguments of a call that sends: plain, reversed, in base64 or base32, in hex or URL-encoded. Only the kind and a digest
leave the process, under the key of digests or a key of this process. A file of credentials that a call uploads is
reported, too, whether or not it was read.

At most `MAX_SECRETS` are held, the newest ones; of a long secret a part. Sending is allowed to the provider's own
hosts, to hosts that stood next to the secret where it was read, and to this machine.
"""

import base64
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from secrets import token_bytes
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from haltline.interventions.agent.destinations import Destination, destination_of, hosts_in, is_local, is_of
from haltline.interventions.agent.redaction.forms import HOSTS, PUBLIC, is_of_both
from haltline.interventions.agent.redaction.marks import secret_digest
from haltline.interventions.agent.redaction.payload_encoding import Whole, whole_of
from haltline.interventions.agent.redaction.searching import searching
from haltline.interventions.agent.redaction.secrets import find_secrets
from haltline.interventions.agent.uploads import may_upload, uploaded
from haltline.schemas import expressions as re
from haltline.schemas.events import SentSecret
from haltline.schemas.tool_names import names_of

MAX_SECRETS: Final = 2048
MAX_BYTES: Final = 64 * 1024
"""Limit for a result, and for the arguments of a call: the rest is not searched."""
MAX_SENT: Final = 8
"""Maximum per event."""

_LEAST_CHARS: Final = 8
_LONG_CHARS: Final = 96
_FEW: Final = 64
_PART_CHARS: Final = 48
_BESIDE_CHARS: Final = 240
_SPACES: Final = re.compile(r"(?:\s|\\[nrt]|\\\\)+", re.ASCII)
_LABELS: Final = re.compile(r"[A-Za-z0-9_-]{6,63}\.[A-Za-z0-9_-]{2,63}\.[A-Za-z0-9-]{1,63}\.[A-Za-z]")
_ESCAPES: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}
_HOLDS_CREDENTIALS: Final = re.compile(
    r"(?<![A-Za-z0-9])\.env\b|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|vault-token|\.aws/|\.kube/config|\.docker/config"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|\.pem\b|\.p12|\.pfx|\.key\b|/etc/g?shadow|\.tfvars|\.htpasswd"
    r"|(?:credentials?|secrets?)(?:[./_-]\w|[\"']|(?![\s\S]))|[_/.-](?:credentials?|secrets?)\b|secretsmanager|secretmanager"
    r"|(?:get|describe|read|access|fetch|show|view|gcloud)[\s_-]+(?:credentials?|secrets?)\b"
    r"|\bprintenv\b|(?:(?<![\s\S])|[\"'|;&])\s*(?:env|set|export -p)\s*(?:[\"'|;&>]|(?![\s\S]))|/proc/[^\s/]+/environ"
    r"|vault\s+(?:kv|read)|\bop\s+(?:read|item)"
    r"|\bpass\s+show|gopass|doppler|keyvault|key_vault|getenv|os\.environ|process\.env|config:get|heroku\s+config|keychain",
    re.IGNORECASE | re.ASCII,
)
_holds_credentials: Final = searching(_HOLDS_CREDENTIALS)
_VALUE: Final = re.compile(
    r"(?<![^\s=:,'\"{(\[>])([A-Za-z0-9+/_.~!@#$%^&*-]{12,256}={0,2})(?![^\s,'\"})\]<;])", re.ASCII
)
_NO_VALUE: Final = re.compile(
    r"^(?=[^\n]{0,300}\Z)"  # a value is shorter
    r"(?:[0-9a-f]{40}|[0-9a-f]{64}"  # a commit, or a digest
    r"|(?:[A-Za-z0-9_.-]*/)+[A-Za-z0-9_.-]*|[A-Za-z_]+(?:[.-][A-Za-z_]+)*|[0-9.,:TZ+-]+"
    r"|[\w.-]+\.(?:com|org|net|io|dev|py|js|json|md|txt|sh|ya?ml)"
    r"|v?[0-9]+(?:\.[0-9]+)+[\w.-]*|[\w.+-]+@[\w.-]+)",
    re.ASCII,
)


class Held(NamedTuple):
    """A secret that was read."""

    kind: str
    digest: str
    forms: tuple[str, ...]
    """The forms in which it is recognized."""
    hosts: frozenset[str]
    """The hosts that it may be sent to."""
    is_of_known_hosts: bool


class HeldSecrets:
    """The secrets of one session and the sessions below it in this process. Thread safe."""

    def __init__(self, key: bytes = b"", max_secrets: int = MAX_SECRETS) -> None:
        self._key = key or token_bytes(32)
        self._max = max_secrets
        self._held: OrderedDict[str, Held] = OrderedDict()  # by digest, so that a long secret is not stored whole
        self._lock = threading.Lock()

    def take(self, args: Mapping[str, Any] | Whole, *results: Any, action: str = "") -> None:
        """Store the secrets in the results of a call with these arguments; each may be a Whole."""
        for result in map(whole_of, results):
            text = text_of(result)
            if len(text) < _LEAST_CHARS:
                continue
            found = [] if _is_clean(result) else list(_secrets_of(text))
            if _is_about_credentials(action) or _holds_credentials(text_of(whole_of(args))):
                found += _values_of(text)
            if found:
                with self._lock:
                    for kind, secret, hosts in found:
                        self._hold(kind, secret, hosts)

    def sent(self, action: str, args: Mapping[str, Any] | Whole) -> list[SentSecret]:
        """Return the secrets that a call sends to hosts where they do not belong."""
        whole = whole_of(args)
        if not whole.value:
            return []
        if not self._held and not may_upload(whole.json_text()[:MAX_BYTES]):
            return []
        text = text_of(whole)
        destination = destination_of(action, whole.value, text)
        if destination is None or destination.is_local:
            return []
        written = "\0".join(dict.fromkeys(_writings(text)))
        with self._lock:
            held = list(self._held.values())
        listed = ((one, _elsewhere(one, destination)) for one in _written_in(written, held))
        sent = {
            one.digest: SentSecret(kind=one.kind, digest=one.digest, elsewhere=elsewhere)
            for one, elsewhere in listed
            if elsewhere is not False
        }
        files = (
            SentSecret(kind="credential_file", digest=secret_digest(file, self._key)) for file in uploaded(action, text)
        )
        return list(islice((*sent.values(), *files), MAX_SENT))

    def after_fork(self) -> None:
        """In a forked child: keep the parent's secrets."""
        self._lock = threading.Lock()

    def _hold(self, kind: str, secret: str, hosts: frozenset[str]) -> None:
        digest = secret_digest(secret, self._key)
        known = self._held.pop(digest, None)
        if known is not None:
            self._held[digest] = known._replace(hosts=known.hosts | hosts)
            return
        own = HOSTS.get(kind, frozenset())
        self._held[digest] = Held(kind, digest, tuple(_forms_of(secret)), own | hosts, bool(own))
        if len(self._held) > self._max:
            self._held.popitem(last=False)


@lru_cache(maxsize=1024)
def _is_about_credentials(action: str) -> bool:
    """Return whether a tool's name shows that it reads credentials. The pattern expects an object before it."""
    return _holds_credentials(" ".join(("{}", *names_of(action))))


def text_of(whole: Whole) -> str:
    """Return the beginning of a value's text, without JSON escapes."""
    if isinstance(whole.value, str):
        return whole.value[:MAX_BYTES]
    if whole.value is None:
        return ""
    written = whole.json()[0]
    text = whole.json_text() if len(written) <= MAX_BYTES else written[:MAX_BYTES].decode(errors="replace")
    return _ESCAPES.sub(lambda found: _ESCAPED.get(found[1], found[1]), text) if "\\" in text else text


def _is_clean(whole: Whole) -> bool:
    """Return True if `text_of` certainly contains no secret that is recognizable by itself."""
    if isinstance(whole.value, str):
        return len(whole.value) <= MAX_BYTES and whole.is_clean()
    written = whole.json()[0]
    return len(written) <= MAX_BYTES and b"\\" not in written and whole.is_clean()


def _elsewhere(held: Held, destination: Destination) -> bool | None:
    """Return False if it is sent to where it belongs; None: unknown."""
    if destination.is_published:
        return True if held.is_of_known_hosts else None
    if not destination.hosts:
        return None
    others = [host for host in destination.hosts if not is_local(host) and not is_of(host, held.hosts)]
    if not others:
        return False
    is_own_named = len(others) < len(destination.hosts)
    return True if held.is_of_known_hosts and not is_own_named else None


def _secrets_of(text: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    for one in find_secrets(text):
        secret = text[one.start : one.end]
        if one.kind == "url_password":
            secret = secret.partition(":")[2]
        if (
            one.kind not in PUBLIC
            and len(secret) >= _LEAST_CHARS
            and (is_of_both(secret) or len(secret) >= 2 * _LEAST_CHARS)
        ):
            yield one.kind, secret, _hosts_beside(text, one.start, one.end)


def _values_of(text: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    for found in _VALUE.finditer(text):
        value = found[1]
        if is_of_both(value) and _NO_VALUE.fullmatch(value) is None:
            yield "credential", value, _hosts_beside(text, *found.span(1))


def _hosts_beside(text: str, start: int, end: int) -> frozenset[str]:
    return frozenset(hosts_in(text[max(0, start - _BESIDE_CHARS) : end + _BESIDE_CHARS]))


def _written_in(text: str, held: Sequence[Held]) -> Iterator[Held]:
    """Yield the secrets of which a form is in the text."""
    if len(held) <= _FEW:
        yield from (one for one in held if any(form in text for form in one.forms))
        return
    # Most forms are ruled out by their beginnings, without a search for each.
    begun = {text[at : at + _LEAST_CHARS] for at in range(len(text))}
    for one in held:
        if any((form[:_LEAST_CHARS] in begun or len(form) < _LEAST_CHARS) and form in text for form in one.forms):
            yield one


def _writings(text: str) -> Iterator[str]:
    """Yield the text, and what it is without spaces, percent-encoding, and the dots between labels of a host."""
    yield text
    yield _SPACES.sub("", text)
    if "%" in text:
        yield unquote(text, errors="replace")
    if _LABELS.search(text) is not None:
        yield text.replace(".", "")


def _forms_of(secret: str) -> Iterator[str]:
    """Yield the forms of the secret, or of a part of a long one."""
    part = _part_of(secret)
    data = part.encode(errors="replace")
    yield part
    yield part[::-1]
    yield data.hex()
    yield data.hex().upper()
    encoded = quote(data, safe="")
    if encoded != part:
        yield encoded
    in_base32 = base64.b32encode(data).decode().rstrip("=")[: len(data) * 8 // 5]
    yield in_base32
    yield in_base32.lower()
    for before in range(3):  # the base64 letters that do not depend on the neighbours, for each alignment
        whole = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        core = whole[-(-before * 4 // 3) : len(whole) - (1 if (before + len(data)) % 3 else 0)]
        yield core
        if "+" in core or "/" in core:
            yield core.replace("+", "-").replace("/", "_")


def _part_of(secret: str) -> str:
    if len(secret) <= _LONG_CHARS and "\n" not in secret:
        return secret
    lines = [line.strip() for line in secret.replace("\\n", "\n").split("\n") if "-----" not in line]
    longest = max(lines, key=len, default=secret)
    middle = max(0, len(longest) // 2 - _PART_CHARS // 2)
    return longest[middle : middle + _PART_CHARS]
