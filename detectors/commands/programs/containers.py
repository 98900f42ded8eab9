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
from haltline.detectors.commands.shell.wrappers import OPTIONS

Reader = Callable[[Invocation], Iterator[Destruction]]

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
    options = parse(invocation.argv[1:], OPTIONS["kubectl"])
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


TOOLS: Mapping[str, Reader] = {"kubectl": _kubectl}
