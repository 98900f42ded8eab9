"""Files of credentials that a call uploads, by the form of its command line or code."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from haltline.interventions.agent.redaction.searching import search_any
from haltline.schemas import expressions as re

_MOST_FILES: Final = 8
_FILE: Final = (
    r"(?:(?:[\w~$.{}-]*/){0,12}(?:\.env(?:\.(?!example|sample|template|dist|test)\w{1,20})?|\.netrc|\.npmrc"
    r"|\.pypirc|\.pgpass|\.git-credentials"
    r"|\.vault-token|\.aws/credentials|\.kube/config|\.docker/config\.json|kubeconfig|id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|etc/g?shadow|\.htpasswd"
    r"|(?!(?:[\w-]*[_-])?(?:ca|cert|chain|fullchain|public|pub|bundle)\.)"
    r"[\w-]{1,60}\.(?:pem|p12|pfx|key|jks|keystore|kdbx|tfvars)"
    r"|credentials?(?:\.(?:json|csv|ya?ml|ini))?|secrets?\.(?:json|ya?ml|toml|env|txt)"
    r"|service[_-]account[\w-]{0,40}\.json)(?![\w./:-]))"
)
_SENDERS: Final = (
    r"(?:curl|nc|ncat|netcat|socat|ssh|telnet|wget|https?|xh|openssl[ \t]+s_client|gh|mailx?|mutt|sendmail|pastebinit)"
)
_UPLOADS: Final = (
    # curl -F f=@.env, -d @.env, http f@.env
    rf"(?:^|[\s\"'=\w])@[\"']?({_FILE})",
    # curl -T .env, wget --post-file=.env, curl -d "$(cat .env)", nc host < .env
    (
        r"(?:\s-T[ \t]?|--(?:upload|post|body)-file[ =]|\$\((?:cat|base64)[ \t]+(?:-\w+[ \t]+)?|\$\(<[ \t]?|`cat[ \t]+"
        rf"|(?<!<)<[ \t]{{0,4}})[\"']?({_FILE})"
    ),
    # cat .env | curl -d @- https://example.org
    (
        r"(?:^|[\s;&|(\"'])(?:cat|base64|xxd|od|hexdump|gzip|tar|gpg|head|tail|strings|openssl)[ \t]"
        rf"(?:[^|\n]{{0,160}}?[ \t\"'])??(?=({_FILE}))[^|\n]{{0,200}}\|[^\n]{{0,200}}?(?<![\w.-]){_SENDERS}[ \t]"
    ),
    # scp .env host:, aws s3 cp .env s3://bucket, gh gist create .env
    (
        r"(?:(?<![\w.-])(?:scp|rsync|sftp|gsutil|rclone|s3cmd|s5cmd|croc|wormhole|transfer|pastebinit|mc|b2)"
        r"|aws[ \t]+s3|gh[ \t]+(?:gist|release)|azcopy|gcloud[ \t]+storage)[ \t]"
        rf"(?:[^\n;|&]{{0,200}}?(?<!-i)[ \t])??[\"']?({_FILE})[\"']?(?=[ \t\n\"']|\Z)"
    ),
    # requests.post(url, files={"f": open(".env")})
    (
        r"(?:requests|httpx|aiohttp|urllib|fetch|axios|upload)[\s\S]{0,400}?(?:open|readFileSync|createReadStream|Path)"
        rf"\([\"']({_FILE})[\"']"
    ),
)
_BY_TOOL: Final = re.compile(
    rf"\"(?:(?:file|local)_?)?(?:path|name|file|attachments?|source|document)\":\[?\"({_FILE})\"", re.ASCII
)
_TOOL: Final = re.compile(r"(?<![a-z])(?:upload|attach|send|share|put_object|publish)", re.IGNORECASE)
_CREDENTIALS: Final = re.compile(rf"(?:^|[^\w.-]){_FILE}$", re.ASCII)
_ANY: Final = tuple(re.compile(form, re.ASCII) for form in _UPLOADS)
_NAMES: Final = (
    r"\.env|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-cred|\.vault-token|\.aws/|\.kube/|\.docker/|kubeconfig"
    r"|shadow|\.htpasswd|id_(?:rsa|dsa|ecdsa|ed25519)|\.(?:pem|p12|pfx|key|jks|keystore|kdbx|tfvars)|credential|secret"
    r"|service[_-]account"
)
may_upload: Final = search_any((_NAMES,))
"""Whether a text, which has no lone surrogates, may name a file of credentials; fast."""


def uploaded(action: str, text: str) -> Iterator[str]:
    """Yield the files of credentials that a call with this text of its arguments uploads."""
    if not may_upload(text):
        return
    forms = (*_ANY, _BY_TOOL) if _TOOL.search(action) is not None else _ANY
    found = (match[1] for form in forms for match in form.finditer(text))
    yield from islice(dict.fromkeys(found), _MOST_FILES)


def holds_credentials(path: str) -> bool:
    """Return whether a file of this name holds credentials."""
    return _CREDENTIALS.search("/".join(path.rsplit("/", 2)[-2:])) is not None
