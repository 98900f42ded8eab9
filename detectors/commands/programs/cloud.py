"""Clouds: aws, gcloud, az, object stores, terraform and similar tools, code forges.

Misses: the contents of a plan file (`terraform apply plan.out`, `apply -replace`); lifecycle rules and retention; `aws`
with `--cli-input-json`; revoked policies and access; unlisted clouds.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice, product

from haltline.detectors.commands import graphql
from haltline.detectors.commands.files import lost_path
from haltline.detectors.commands.model import Badness, Destruction, listed
from haltline.detectors.commands.names import is_main_branch, is_production
from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import Options, parse_greedily
from haltline.detectors.commands.sql import sql_destructions
from haltline.schemas import expressions as re

Reader = Callable[[Invocation], Iterator[Destruction]]

_BUCKET = re.compile(r"\A[a-z0-9]+://([^/]+)(?:/(.*))?", re.DOTALL)
_MAX_NAMES = 64
_ALL_OBJECTS = frozenset(("", "*", "**"))


def _object(verb: str, url: str, *, everything: bool) -> Destruction:
    """Return the loss of `s3://bucket/key`; of a whole bucket if everything is removed and there is no key."""
    found = _BUCKET.fullmatch(url)
    if found is None:
        return Destruction(verb, f"object={url}", Badness.PLAIN)
    bucket, key = found[1], found[2] or ""
    whole = key in _ALL_OBJECTS
    if whole and (everything or key):
        return Destruction(verb, f"bucket={bucket}", Badness.SEVERE)
    severe = everything and is_production(bucket, key)
    return Destruction(verb, f"object={url}", Badness.SEVERE if severe else Badness.PLAIN)


def _bucket(verb: str, url: str, *, force: bool) -> Destruction:
    """Return the loss of a bucket; without force only an empty one can be removed."""
    found = _BUCKET.fullmatch(url)
    return Destruction(verb, f"bucket={found[1] if found else url}", Badness.SEVERE if force else Badness.PLAIN)


_AWS_FLAGS = frozenset(listed("""
    --recursive --force --dryrun --delete --quiet --dry-run --no-dry-run --no-cli-pager --debug --skip-final-snapshot
    --no-skip-final-snapshot --no-verify-ssl --no-paginate --no-sign-request --delete-automated-backups
    --force-delete-without-recovery --only-show-errors --exact-timestamps
"""))  # fmt: skip
_AWS_DESTROYS = re.compile(r"(?:delete|terminate|deregister|purge|batch-delete|schedule-key-deletion)(?:-.*)?")
_AWS_HARMLESS = frozenset(("delete-message", "delete-message-batch", "delete-tags", "delete-item-tags"))
_AWS_NAMES = re.compile(
    r"\A--(?:.*-)?(?:ids?|names?|identifiers?|arns?|urls?|bucket|key|repository|domain|table|stack|cluster)"
)
_SEVERE_THINGS = re.compile(
    r"(?:db|database|table|snapshot|volume|disk|bucket|stack|cluster|backup|vault|recovery-point|file-system|hosted-zone"
    r"|user-pool|replication-group|domain|repository|organization|account|project|keyspace|key-deletion|instance-group"
    r"|filesystem|instances?-backup|key|keyring|stream|search|warehouse|namespace|dataset)(?:s|-.*)?"
)


def _aws(invocation: Invocation) -> Iterator[Destruction]:
    options = parse_greedily(invocation.argv[1:], _AWS_FLAGS, many_after=2)
    words = options.operands
    if len(words) < 2 or options.has("--dryrun", "--dry-run") or words[1] == "help" or words[2:3] == ("help",):
        return
    service, operation = words[0], words[1]
    if service == "s3":
        yield from _aws_s3(operation, words[2:], options)
    elif _AWS_DESTROYS.fullmatch(operation) and operation not in _AWS_HARMLESS:
        parts = [values for option, values in options.options.items() if _AWS_NAMES.fullmatch(option)]
        names = ["/".join(one) for one in islice(product(*parts), _MAX_NAMES)] if parts else ["?"]
        thing = operation.partition("-")[2]
        # This call deletes empty buckets only.
        severe = operation != "delete-bucket" and _SEVERE_THINGS.fullmatch(thing) is not None
        severe = severe and not (service == "iam" or thing.startswith("key-pair"))
        for name in names:
            bad = Badness.SEVERE if severe or is_production(name) else Badness.PLAIN
            yield Destruction("aws_" + operation.replace("-", "_"), f"aws={service}/{name}", bad)


def _aws_s3(operation: str, urls: tuple[str, ...], options: Options) -> Iterator[Destruction]:
    everything = options.has("--recursive")
    if operation == "rm":
        for url in urls[:1]:
            yield _object("s3_rm", url, everything=everything)
    elif operation == "rb":
        for url in urls[:1]:
            yield _bucket("s3_rb", url, force=options.has("--force"))
    elif operation == "sync" and options.has("--delete"):
        for url in urls[1:2]:
            yield Destruction("s3_sync_delete", f"object={url}", Badness.PLAIN)


def _gsutil(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("-o -h -u")
    words = options.operands
    if words[:1] == ("rm",):
        for url in words[1:]:
            yield _object("gsutil_rm", url, everything=options.has("-r", "-R", "-a"))
    elif words[:1] == ("rb",):
        for url in words[1:]:
            yield _bucket("gsutil_rb", url, force=False)
    elif words[:1] == ("rsync",) and options.has("-d") and not options.has("-n"):
        for url in words[2:3]:
            yield Destruction("gsutil_rsync_delete", f"object={url}", Badness.PLAIN)


_GCLOUD_FLAGS = frozenset(listed("-q --quiet --async --recursive -r -R --force --all --no-user-output-enabled"))

_GCLOUD_PARENTS = listed("--keyring --key --secret --instance --cluster --dataset --database --topic --service")
"""Options that name what the deleted thing is in."""


def _gcloud(invocation: Invocation) -> Iterator[Destruction]:
    options = parse_greedily(invocation.argv[1:], _GCLOUD_FLAGS)
    words = tuple(word for word in options.operands if word not in ("alpha", "beta"))
    if words[:2] == ("storage", "rm"):
        for url in words[2:]:
            yield _object("gcloud_storage_rm", url, everything=options.has("-r", "-R", "--recursive"))
    else:
        at = next((at for at, word in enumerate(words) if word in ("delete", "destroy")), 0)
        within = tuple(filter(None, (options.value(option) for option in _GCLOUD_PARENTS)))
        if at:
            yield from _named(f"gcloud_{words[at]}", "gcloud", words[:at], words[at + 1 :], within)


def _az(invocation: Invocation) -> Iterator[Destruction]:
    options = parse_greedily(invocation.argv[1:], frozenset(("-y", "--yes", "--no-wait", "--verbose", "--debug")))
    words = options.operands
    for verb in ("delete", "purge", "delete-batch"):
        if verb in words and not options.has("--dryrun", "--help", "-h"):
            at = words.index(verb)
            name = options.value("-n", "--name", "--ids", "-s", "--source", "-g", "--resource-group") or "?"
            yield from _named(f"az_{verb.replace('-', '_')}", "az", words[:at], (name,))


_SEVERE_GROUPS = frozenset(listed("""
    projects databases clusters disks snapshots buckets backups keyrings group db aks disk snapshot keyvault account
    container vault zone cluster database namespaces managed-zones filesystem volumes volume kubernetes project server
"""))  # fmt: skip


def _named(
    verb: str, kind: str, group: tuple[str, ...], names: tuple[str, ...], within: tuple[str, ...] = ()
) -> Iterator[Destruction]:
    """Yield objects of the kind named by the command group, `within` others: `gcloud compute disks delete d1`."""
    severe = group[-1:] != () and (group[-1] in _SEVERE_GROUPS or group[:2] == ("sql", "instances"))
    for name in names or ("?",):
        bad = Badness.SEVERE if severe or is_production(name) else Badness.PLAIN
        yield Destruction(verb, f"{kind}={'/'.join((*group, *within, name))}", bad)


def _bq(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("--project_id --location", single_dash_words=True)
    words = options.operands
    if words[:1] == ("rm",):
        for name in words[1:]:
            whole = options.has("-r", "-d", "--dataset", "--recursive") or not re.search(
                r"[.]", name.partition(":")[2] or name
            )
            kind = "dataset" if whole else "table"
            severe = whole or is_production(name)
            yield Destruction("bq_rm", f"{kind}={name}", Badness.SEVERE if severe else Badness.PLAIN)
    elif words[:1] == ("query",) and not options.has("--dry_run"):
        yield from chain.from_iterable(map(sql_destructions, words[1:] or (invocation.stdin or "",)))


def _url(place: str) -> str:
    """Return `remote:bucket/key` or `alias/bucket/key` as a URL of that bucket."""
    if "://" in place:
        return place
    parts = place.replace(":", "/", 1).strip("/").split("/")
    return f"store://{':'.join(parts[:2])}/{'/'.join(parts[2:])}"


def _store(verb: str, commands: Mapping[str, bool], *, dry: tuple[str, ...] = ("--dry-run", "-n")) -> Reader:
    """Return a reader of clients for object stores. `commands`: subcommand -> whether it always removes recursively."""

    def read(invocation: Invocation) -> Iterator[Destruction]:
        options = invocation.options("--profile --endpoint-url --config")
        words = options.operands
        if len(words) > 1 and words[0] in commands and not options.has(*dry):
            everything = commands[words[0]] or options.has("-r", "--recursive", "--force")
            for place in words[-1:] if words[0] == "sync" else words[1:]:
                lost = _object(verb, _url(place), everything=everything and words[0] != "sync")
                whole = lost.target.startswith("bucket=")
                yield Destruction(verb, lost.target if whole else f"object={place}", lost.badness)

    return read


def _terraform(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("-target -var -var-file", single_dash_words=True)
    words = options.operands
    folder = options.value("-chdir")
    place = canonical(folder, invocation.cwd) if folder else invocation.path(".")
    if options.has("-help", "-h"):
        return
    destroys = words[:1] == ("destroy",) or (
        words[:1] in (("apply",), ("run-all",)) and "destroy" in (*words, *_bare(options))
    )
    if destroys:
        targets = [target for target in options.values("-target", "--target") if target]
        for target in targets:
            yield Destruction("terraform_destroy", f"resource={target}", Badness.PLAIN)
        if not targets:
            yield Destruction("terraform_destroy", f"workspace={place}", Badness.SEVERE)
    elif words[:2] == ("state", "rm") and not options.has("-dry-run"):
        for address in words[2:]:
            yield Destruction("terraform_state_rm", f"resource={address}", Badness.PLAIN)
    elif words[:2] == ("workspace", "delete"):
        for name in words[2:]:
            bad = Badness.SEVERE if options.has("-force") or is_production(name) else Badness.PLAIN
            yield Destruction("terraform_workspace_delete", f"workspace={name}", bad)


def _bare(options: Options) -> tuple[str, ...]:
    return tuple(name.lstrip("-") for name in options.options)


_REPOSITORY = re.compile(r"\A/?repos/([\w.-]{1,100}/[\w.-]{1,100})/?")
_REF = re.compile(r"/git/refs/heads/(?P<branch>[\w./-]{1,200})$")
_FORGE_THINGS = frozenset(("release", "secret", "variable", "run", "issue", "gist", "label", "cache", "project"))


def _forge(invocation: Invocation) -> Iterator[Destruction]:
    """`gh` and `glab`: repositories, their parts, and raw requests."""
    options = invocation.options("-R --repo -X --method -H -f -F --field --raw-field")
    words = options.operands
    fields = options.values("-f", "-F", "--field", "--raw-field")
    if words[:1] == ("api",) and (options.value("-X", "--method") or "").upper() == "DELETE":
        place = "/".join(words[1:2])
        if ref := _REF.search(place):
            bad = Badness.SEVERE if is_main_branch(ref["branch"]) else Badness.PLAIN
            yield Destruction("git_push_delete", f"branch={ref['branch']}", bad)
        elif repo := _REPOSITORY.fullmatch(place):
            yield Destruction("forge_delete", f"repo={repo[1]}", Badness.SEVERE)
        else:
            yield Destruction("http_delete", f"url={place}", Badness.PLAIN)
    elif words[:1] == ("api",) and (ref := _REF.search(" ".join(words[1:2]))) and "force=true" in fields:
        bad = Badness.SEVERE if is_main_branch(ref["branch"]) else Badness.PLAIN
        yield Destruction("git_push_force", f"branch={ref['branch']}", bad)
    elif words[:2] == ("api", "graphql"):
        parts = (value.partition("=") for value in fields)
        for deed in graphql.graphql([{name: text for name, _, text in parts}]):
            yield deed.loss()
    elif words[1:2] == ("delete",) and words[0] in ("repo", *_FORGE_THINGS):
        bad = Badness.SEVERE if words[0] == "repo" else Badness.PLAIN
        for name in words[2:] or options.values("-R", "--repo") or ("?",):
            yield Destruction("forge_delete", f"{words[0]}={name}", bad)


def _rclone(invocation: Invocation) -> Iterator[Destruction]:
    # A destination without a remote's name is a local path.
    words = invocation.options().operands
    if len(words) > 2 and words[0] == "sync" and ":" not in words[-1]:
        if not invocation.options().has("-n", "--dry-run"):
            yield lost_path("rclone", invocation, words[-1], everything=True)
    else:
        yield from _RCLONE(invocation)


_RCLONE = _store("rclone", {"delete": True, "purge": True, "deletefile": False, "sync": True, "rmdirs": False})

TOOLS: Mapping[str, Reader] = {
    "aws": _aws,
    "awslocal": _aws,
    "gsutil": _gsutil,
    "gcloud": _gcloud,
    "az": _az,
    "bq": _bq,
    "mc": _store("mc_rm", {"rm": False, "rb": False}),
    "s3cmd": _store("s3cmd_del", {"del": False, "rm": False, "rb": False}),
    "s5cmd": _store("s5cmd_rm", {"rm": False, "rb": False}),
    "azcopy": _store("azcopy_rm", {"rm": False, "remove": False}),
    "rclone": _rclone,
    "terraform": _terraform,
    "gh": _forge,
    "glab": _forge,
}
