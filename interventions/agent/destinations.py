"""Destinations of calls that send data: the hosts that they name."""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from haltline.interventions.agent.redaction.searching import searching
from haltline.schemas import expressions as re
from haltline.schemas.tool_names import names_of

_MOST_HOSTS: Final = 32
_HOST: Final = (
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,250}\.){1,8}[A-Za-z]{2,24}|(?:[0-9]{1,3}\.){3}[0-9]{1,3}|localhost"
    r"|\[[0-9a-fA-F:]{2,39}\]"
)
_URL: Final = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]{{1,20}}://(?:[^\s/\"'<>]{{0,600}}@)?({_HOST})", re.ASCII)
_AT: Final = re.compile(rf"[A-Za-z0-9._%+-]{{1,64}}@({_HOST})")
_BARE: Final = re.compile(rf"(?<![A-Za-z0-9._@/-])({_HOST})(?![A-Za-z0-9_-])")
_WORD: Final = re.compile(
    r"(?<![^\s\"'])((?:[A-Za-z0-9-]{1,63}\.){1,8}(?:com|net|org|io|dev|app|co|me|info|biz|xyz|top|site|online|club|live|cloud|"
    r"ru|cn|su|de|uk|fr|nl|eu|in|us|tk|ml|cc|to|ws|pw|sh|run|page|link)|(?:[0-9]{1,3}\.){3}[0-9]{1,3})(?![^:/\s\"'])",
    re.ASCII,
)
"""A host without a scheme as a word of a command line; common domains only, as file names have dots as well."""
_NO_DOMAINS: Final = frozenset((
    "py", "js", "ts", "json", "yaml", "yml", "md", "txt", "sh", "toml", "cfg", "ini", "env", "log", "csv", "html",
    "xml", "go", "rs", "java", "c", "h", "cpp", "rb", "php", "lock", "gz", "zip", "tar", "tgz", "pem", "key", "crt",
    "sql", "db", "conf", "out", "bak", "tf", "tfvars", "jsonl", "png", "jpg", "pdf", "stdout", "stderr", "path",
    "environ", "get", "post", "read", "write",
))  # fmt: skip
_LOCAL: Final = re.compile(r"^(?:localhost|127\.[0-9.]+|0\.0\.0\.0|\[::1?\]|\[0{0,4}:.*:1\])")

_SENDING_TOOL: Final = re.compile(
    r"(?:^|_)(?:send|post|upload|publish|e?mail|mail|sms|message|reply|tweet|share|paste|gist|http|https|fetch|request|requests|url"
    r"|webhook|notify|push|curl|wget|navigate|goto|browse|browser|open_url|visit|dns|resolve|lookup|slack|discord|telegram|teams"
    r"|comment|issue|pull|pr|invite|forward|submit|call_api|api|ftp|sftp|scp|put_object|create_page|append_block|type|fill)(?:_|$)"
)
_KEEPING_TOOL: Final = re.compile(
    r"(?:^|_)(?:write|edit|multiedit|str_replace|create_file|save|insert|notebook|todo|read|grep|glob|ls|think|view|apply_patch)(?:_|$)"
)
_SENDING_COMMAND: Final = re.compile(
    r"(?<![\w.-])(?:curl|wget|http|https|xh|nc|ncat|netcat|socat|telnet|ssh|scp|sftp|rsync|ftp|lftp|tftp|mail|mailx|mutt|sendmail"
    r"|swaks|msmtp|dig|nslookup|host|drill|ping|aria2c|openssl\s+s_client|git\s+(?:push|remote|clone|fetch|pull|ls-remote|send-email)"
    r"|gh|glab|hub|aws|gsutil|gcloud|az|s3cmd|rclone|mc|b2|docker\s+(?:push|login)|podman\s+push|npm\s+publish|twine|gem\s+push"
    r"|cargo\s+publish|kubectl|helm\s+push|vercel|netlify|heroku|flyctl|slackcat|pastebinit|mosquitto_pub|kafkacat|kcat|grpcurl"
    r"|websocat|wscat|transfer|wormhole|croc|ngrok|mosh|irssi|Invoke-WebRequest|Invoke-RestMethod|iwr|irm|Send-MailMessage"
    r"|Start-BitsTransfer|certutil|bitsadmin|kdig|delv|doggo|dnsx|resolvectl|systemd-resolve|getent\s+a?hosts\w*|nsupdate|traceroute"
    r"|tracepath|mtr|ping6|fping|hping3|Resolve-DnsName)(?![\w-])"
    r"|/dev/(?:tcp|udp)/|\b(?:requests|httpx|aiohttp|urllib|urllib3|http\.client|smtplib|ftplib|socket|paramiko|boto3|axios|fetch"
    r"|XMLHttpRequest|WebSocket|net/http|Net::HTTP|HttpClient|LWP|fsockopen|curl_exec|file_get_contents|create_connection"
    r"|getaddrinfo|gethostbyname|dns)\b",
    re.IGNORECASE | re.ASCII,
)
_VIA: Final = re.compile(
    r"(?:--(?:connect-to|resolve)[ =][\"']?[^\s:]{0,255}:\d{0,5}:"
    r"|(?:-x|--(?:pre)?proxy|--socks[45][a-z]?(?:-hostname)?)[ =][\"']?"
    rf"|[a-z]{{2,5}}_proxy=[\"']?)(?:[a-z0-9]{{2,8}}://)?(?:[^\s@/\"']{{1,80}}@)?({_HOST})",
    re.IGNORECASE | re.ASCII,
)
"""Hosts to which a call goes instead of those of its addresses, or through which."""
_PUBLISHING: Final = re.compile(
    r"(?<![\w.-])(?:gh|hub|glab)\s+(?:gist|snippet|issue|pr|mr|release)(?![\w-])"
    r"|/gists(?![\w-])|(?<![a-z])(?:gist|snippet|paste)(?![a-z])",
    re.IGNORECASE | re.ASCII,
)
_sends_in_command: Final = searching(_SENDING_COMMAND)

_OWN_HOSTS: Final = {
    "gh": "github.com", "hub": "github.com", "github": "github.com", "glab": "gitlab.com", "gitlab": "gitlab.com",
    "aws": "amazonaws.com", "boto3": "amazonaws.com", "gcloud": "googleapis.com", "gsutil": "googleapis.com",
    "az": "azure.com", "npm": "npmjs.org", "twine": "pypi.org", "gem": "rubygems.org", "cargo": "crates.io",
    "docker": "docker.com", "slack": "slack.com", "discord": "discord.com", "telegram": "telegram.org",
    "vercel": "vercel.com", "netlify": "netlify.com", "heroku": "heroku.com", "flyctl": "fly.io",
}  # fmt: skip
"""Default destinations of programs and tools that name no host."""


class Destination(NamedTuple):
    """The destination of a call that sends."""

    hosts: frozenset[str]
    """In lower case; empty if the call names none."""
    is_published: bool = False
    """Whether others can read it there, as in a gist: then it is no secret's own host."""

    @property
    def is_local(self) -> bool:
        """Whether all hosts are this machine."""
        return bool(self.hosts) and all(map(is_local, self.hosts))


def is_local(host: str) -> bool:
    """Return whether the host is this machine."""
    return _LOCAL.fullmatch(host) is not None


def destination_of(action: str, args: Mapping[str, Any], text: str) -> Destination | None:
    """Return the destination of a call; `text` is that of its arguments. None: it sends nothing."""
    is_tool = _is_sending(action)
    if is_tool is False:
        return None
    if not is_tool and not _sends_in_command(text) and not any(_URL.match(v) for v in _texts(args)):
        return None
    hosts = hosts_in(text) | {found[1].lower() for found in islice(_VIA.finditer(text), _MOST_HOSTS)}
    if not hosts:
        hosts = {found[1].lower() for found in _BARE.finditer(text) if not _is_file(found[1])}
    elif not is_tool:
        hosts |= {found[1].lower() for found in islice(_WORD.finditer(text), _MOST_HOSTS) if not _is_file(found[1])}
    named = names_of(action)
    published = _PUBLISHING.search(text) is not None or any(map(_PUBLISHING.search, named))
    return Destination(frozenset(hosts or _own_hosts(text, named)), published)


@lru_cache(maxsize=1024)
def _is_sending(action: str) -> bool | None:
    """Return whether a tool sends, by its name; False: it stores its input; None: unknown."""
    names = names_of(action)
    if any(_SENDING_TOOL.search(name) for name in names):
        return True
    return False if any(_KEEPING_TOOL.search(name) for name in names) else None


def _own_hosts(text: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the default hosts of programs or tools, for a call that names none."""
    for words in (text.lower(), *names):
        for program, host in _OWN_HOSTS.items():
            if re.search(rf"(?<![a-z0-9]){program}(?![a-z0-9])", words) is not None:
                yield host


def hosts_in(text: str) -> set[str]:
    """Return the hosts of the addresses in a text."""
    hosts: set[str] = set()
    for form in (_URL, _AT):
        for found in form.finditer(text):
            hosts.add(found[1].lower())
            if len(hosts) >= _MOST_HOSTS:
                return hosts
    return hosts


def is_of(host: str, domains: frozenset[str]) -> bool:
    """Return whether a host is one of these domains, or a subdomain."""
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _is_file(name: str) -> bool:
    return name.rpartition(".")[2].lower() in _NO_DOMAINS


def _texts(args: Mapping[str, Any]) -> list[str]:
    return [value for value in args.values() if isinstance(value, str)]
