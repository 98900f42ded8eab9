"""Containers and clusters: docker, kubectl, helm.

Pods, jobs and containers are recreated automatically, so they are PLAIN even in production; deleting anything else by
name in something named as production is SEVERE, as are namespaces, volumes, nodes, and everything at once.

Misses: the files of `kubectl delete -f`; finalizers and cascades; `kubectl apply --prune`, `patch`, `edit`;
`docker run --rm`, which counts as any other container; contexts set by an earlier `config use-context`.
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.names import is_production
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.options import Options, parse
from haltline.detectors.commands.shell.wrappers import GLOBAL_OPTIONS

Reader = Callable[[Invocation], Iterator[Destruction]]

_KUBECTL_VALUE_OPTIONS = GLOBAL_OPTIONS["kubectl"] | frozenset((
    "-f", "--filename", "-l", "--selector", "--field-selector", "--grace-period", "--timeout", "-o", "--output", "-k",
    "--kustomize", "--replicas",
))  # fmt: skip
_SHORT_KINDS = {
    "ns": "namespace", "po": "pod", "deploy": "deployment", "svc": "service", "sts": "statefulset", "cm": "configmap",
    "pvc": "persistentvolumeclaim", "pv": "persistentvolume", "no": "node", "ds": "daemonset", "ing": "ingress",
    "rs": "replicaset", "cj": "cronjob", "crd": "customresourcedefinition", "sa": "serviceaccount", "ep": "endpoints",
    "sc": "storageclass", "netpol": "networkpolicy", "hpa": "horizontalpodautoscaler",
}  # fmt: skip
_SEVERE_KINDS = frozenset((
    "namespace", "persistentvolumeclaim", "persistentvolume", "node", "customresourcedefinition", "storageclass", "all",
    "volumesnapshot", "cluster",
))  # fmt: skip
_RETURNING_KINDS = frozenset(("pod", "job", "replicaset", "event", "endpoints", "lease"))


def _kubectl(invocation: Invocation) -> Iterator[Destruction]:
    options = parse(invocation.argv[1:], _KUBECTL_VALUE_OPTIONS)
    if options.has("--dry-run") and options.value("--dry-run") != "none":
        return
    words = options.operands
    if words[:1] == ("delete",):
        yield from _kubectl_delete(invocation, options, words[1:])
    elif words[:1] == ("drain",):
        for node in words[1:]:
            yield Destruction("kubectl_drain", f"k8s=node/{node}", Badness.PLAIN)
    elif words[:1] == ("scale",) and options.value("--replicas") == "0":
        for kind, name in _resources(words[1:]):
            yield _resource("kubectl_scale_to_zero", kind, name, options, invocation)
    elif words[:1] == ("replace",) and options.has("--force"):
        for file in options.values("-f", "--filename"):
            yield _resource("kubectl_replace", "file", file, options, invocation)


def _kubectl_delete(invocation: Invocation, options: Options, words: tuple[str, ...]) -> Iterator[Destruction]:
    resources = list(_resources(words))
    everything = options.has("--all", "-A", "--all-namespaces") or "all" in words[:1]
    if everything and words:
        for kind in words[0].split(","):
            bad = Badness.PLAIN if _kind(kind) in _RETURNING_KINDS and not options.has("-A") else Badness.SEVERE
            yield Destruction("kubectl_delete", _target(_kind(kind), "*", options), bad)
        return
    selector = options.value("-l", "--selector", "--field-selector")
    if selector is not None and words:
        for kind in words[0].split(","):
            yield _resource("kubectl_delete", _kind(kind), selector, options, invocation)
    for kind, name in resources:
        yield _resource("kubectl_delete", kind, name, options, invocation)
    for file in options.values("-f", "--filename", "-k", "--kustomize"):
        yield _resource("kubectl_delete", "file", file, options, invocation)


def _resources(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each resource in `pod a b` or `pod/a deploy/b`."""
    if words and "/" not in words[0]:
        for kind in words[0].split(","):
            for name in words[1:]:
                yield _kind(kind), name
        return
    for word in words:
        kind, _, name = word.partition("/")
        yield _kind(kind), name


def _kind(word: str) -> str:
    kind = word.lower().partition(".")[0]
    kind = _SHORT_KINDS.get(kind, kind)
    if kind in ("ingresses", "storageclasses"):
        return kind[:-2]
    if kind.endswith("policies"):
        return kind[:-3] + "y"
    return kind[:-1] if kind.endswith("s") and kind not in ("ingress", "storageclass", "endpoints") else kind


def _target(kind: str, name: str, options: Options) -> str:
    namespace = options.value("-n", "--namespace")
    return f"k8s={kind}/{name}@{namespace}" if namespace else f"k8s={kind}/{name}"


def _resource(verb: str, kind: str, name: str, options: Options, invocation: Invocation) -> Destruction:
    named = options.values("-n", "--namespace", "--context", "--cluster", "--kubeconfig")
    where = (*named, *invocation.assigned)
    severe = kind in _SEVERE_KINDS or (kind not in _RETURNING_KINDS and is_production(name, *where))
    returns = kind in _RETURNING_KINDS
    return Destruction(
        verb, _target(kind, name, options), Badness.SEVERE if severe else Badness.PLAIN, reversible=returns
    )


def _helm(invocation: Invocation) -> Iterator[Destruction]:
    options = invocation.options("-n --namespace --kube-context --kubeconfig --timeout --cascade --description")
    if (
        options.operands[:1]
        and options.operands[0] in ("uninstall", "delete", "del", "un")
        and not options.has("--dry-run")
    ):
        namespace = options.value("-n", "--namespace")
        for release in options.operands[1:]:
            production = is_production(release, *options.values("-n", "--namespace", "--kube-context"))
            target = f"helm={release}@{namespace}" if namespace else f"helm={release}"
            yield Destruction("helm_uninstall", target, Badness.SEVERE if production else Badness.PLAIN)


# What docker removes by name: the subcommand -> verb, kind of target, badness.
_DOCKER_REMOVES: Mapping[tuple[str, ...], tuple[str, str, Badness]] = {
    ("rm",): ("docker_rm", "container", Badness.PLAIN),
    ("container", "rm"): ("docker_rm", "container", Badness.PLAIN),
    ("rmi",): ("docker_rmi", "image", Badness.SCRATCH),
    ("image", "rm"): ("docker_rmi", "image", Badness.SCRATCH),
    ("volume", "rm"): ("docker_volume_rm", "volume", Badness.SEVERE),
    ("volume", "remove"): ("docker_volume_rm", "volume", Badness.SEVERE),
    ("network", "rm"): ("docker_network_rm", "network", Badness.PLAIN),
    ("stack", "rm"): ("docker_stack_rm", "stack", Badness.PLAIN),
    ("service", "rm"): ("docker_service_rm", "service", Badness.PLAIN),
    ("secret", "rm"): ("docker_secret_rm", "secret", Badness.PLAIN),
    ("config", "rm"): ("docker_config_rm", "config", Badness.PLAIN),
    ("swarm", "leave"): ("docker_swarm_leave", "swarm", Badness.PLAIN),
}
_DOCKER_PRUNES: Mapping[str, Badness] = {
    "system": Badness.PLAIN,
    "container": Badness.SCRATCH,
    "network": Badness.SCRATCH,
    "image": Badness.SCRATCH,
    "builder": Badness.SCRATCH,
    "buildx": Badness.SCRATCH,
    "volume": Badness.SEVERE,
}


def _docker(invocation: Invocation) -> Iterator[Destruction]:
    argv = invocation.argv[1:]
    values = GLOBAL_OPTIONS["docker"]
    at = 0
    while at < len(argv) and argv[at].startswith("-"):
        at += 2 if argv[at] in values else 1
    if argv[at : at + 1] == ("compose",):
        yield from _compose(invocation, argv[at + 1 :])
        return
    options = parse(argv[at:], frozenset(("--filter", "--time")))
    words = options.operands
    for length in (1, 2):
        removed = _DOCKER_REMOVES.get(words[:length])
        if removed and len(words[:length]) == length:
            verb, kind, bad = removed
            for name in words[length:] or ("*",) * options.has("-a", "--all"):  # Podman's
                yield Destruction(verb, f"{kind}={name}", bad)
    if len(words) > 1 and words[1] == "prune" and words[0] in _DOCKER_PRUNES:
        bad = Badness.SEVERE if options.has("--volumes") else _DOCKER_PRUNES[words[0]]
        yield Destruction("docker_prune", f"docker={words[0]}", bad)


def _compose(invocation: Invocation, argv: tuple[str, ...]) -> Iterator[Destruction]:
    values = frozenset(("-f", "--file", "-p", "--project-name", "--profile", "--env-file", "--project-directory", "-t"))
    options = parse(argv, values)
    # Without volumes, `down` removes containers and networks only: the next `up` creates them again.
    if options.operands[:1] in (("down",), ("rm",)) and options.has("-v", "--volumes") and not options.has("--dry-run"):
        project = options.value("-p", "--project-name") or invocation.path(".")
        bad = Badness.SEVERE if options.operands[0] == "down" else Badness.PLAIN
        yield Destruction("compose_down_volumes", f"volume={project}/*", bad)


TOOLS: Mapping[str, Reader] = {"kubectl": _kubectl, "helm": _helm, "docker": _docker}
