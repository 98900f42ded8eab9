"""The resources among the operands of kubectl: `pod a b`, `deploy/b`, `svc,ing c`.

Misses: the files of `kubectl delete -f`; kinds of custom resources whose plural is irregular.
"""

from collections.abc import Sequence

from haltline.detectors.commands.rows import words_of

_SHORT = dict(word.split(":") for word in words_of("short names of kinds"))


def named(part: str, operands: Sequence[str]) -> list[str]:
    """Return each `kind/name` of the operands, or with `kinds` the kinds of the first one."""
    first, *names = operands or ("",)
    if part == "kinds":
        return [_kind(kind) for kind in first.split(",")]
    if "/" not in first:
        return [f"{_kind(kind)}/{name}" for kind in first.split(",") for name in names]
    pairs = (operand.partition("/") for operand in operands)
    return [f"{_kind(kind)}/{name}" for kind, _, name in pairs]


def _kind(word: str) -> str:
    kind = word.lower().partition(".")[0]
    if kind in _SHORT:
        return _SHORT[kind]
    if kind.endswith(("sses", "policies")):
        return kind[:-2] if kind.endswith("sses") else f"{kind[:-3]}y"
    return kind.removesuffix("s") if not kind.endswith("ss") else kind
