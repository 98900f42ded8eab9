"""A tool call, and its description for the worker."""

import inspect
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

import orjson

from haltline.interventions.agent.novelty import SeenWords
from haltline.interventions.agent.redaction.payload_encoding import (
    Plain,
    Whole,
    plain,
    plain_output,
    plain_text,
    raw_digest,
    whole_of,
)
from haltline.interventions.agent.rules.known_effects import known_effect, only_keeps
from haltline.interventions.agent.settings import CallMode, GuardSettings
from haltline.schemas.events import Effect, Outcome
from haltline.schemas.repeated_passage import repeated_passage

Targets: TypeAlias = Sequence[str] | Callable[[Mapping[str, Any]], Iterable[str]]
"""The targets of a tool: names of arguments, or a function from the arguments to `["asset_id=fact_sales"]`."""

log: Final = logging.getLogger("haltline.agent")

_ARGS = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
_KWARGS = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
_ONCE_KEY: Final = secrets.token_bytes(32)
_MAX_TARGETS = 1000
_MAX_NAME_CHARS = 512
_SHOWN_CHARS = _MAX_NAME_CHARS - 8  # with the mark of a truncated text
_MAX_ERROR_CHARS = 2000
WITH_RESULT: Final = frozenset({Outcome.OK, Outcome.ERROR, Outcome.TIMEOUT})
"""Outcomes whose error text is a result. With another one the call was not made, or its result is unknown."""


@dataclass(slots=True)
class Call:
    """One tool call on its path through the guard."""

    action: str
    args: Mapping[str, Any]
    targets: Sequence[str]
    hint: Effect | None
    mode: CallMode
    call_id: str
    cost_usd: float | None = None
    key: str | None = None
    """The key of a call that is made once."""
    is_mode_explicit: bool = False
    """The mode is set for this tool or call, not taken from the guard."""
    loop_key: str | None = None
    """Calls with an equal key are repetitions, where the tool declares it."""
    folder: str | None = field(default=None, init=False)
    """Where the call runs, absolute; empty: unknown; None: in the folder of this process."""
    ruled: bool = field(default=False, init=False)
    """The author's rules were applied."""
    effect: Effect = field(init=False)
    """The effect of the call, as far as the agent's side knows it."""
    described: Plain | None = field(default=None, init=False)
    _whole: Whole | None = field(default=None, init=False)
    fields: dict[str, Any] | None = field(default=None, init=False)
    _fields_json: bytes | None = field(default=None, init=False)
    known_targets: list[str] | None = field(default=None, init=False)
    loses: bool = field(default=False, init=False)
    """It is known to lose local work of which nothing has a copy."""
    has_destructive_word: bool | None = field(default=None, init=False)
    """Whether the arguments contain one; None: not looked for yet (see `fail_policy.may_destroy`)."""

    def __post_init__(self) -> None:
        self.effect = known_effect(self.action, self.hint)

    @property
    def match_targets(self) -> list[str]:
        """Return the targets that a control entry can name: the declared ones, and `name=value` of simple arguments."""
        if self.known_targets is None:
            simple = [f"{n}={v}" for n, v in self.args.items() if _is_simple(v)]
            self.known_targets = [*self.targets, *simple]
        return self.known_targets

    @property
    def whole(self) -> Whole:
        """Return the proposed arguments."""
        if self._whole is None:
            self._whole = Whole(dict(self.args))
        return self._whole

    def describe(self, settings: GuardSettings) -> dict[str, Any]:
        """Return the fields of an event that describe the call. Cached; not to be changed."""
        if self.fields is not None:
            return self.fields
        keys, keeps = settings.keys, only_keeps(self.action, self.effect)
        most = settings.max_args_bytes if keeps else settings.max_run_bytes
        self.described = described = plain(self.whole, max_bytes=most, keys=keys)
        targets = [plain_text(str(t), max_chars=_SHOWN_CHARS, keys=keys) for t in self.targets[:_MAX_TARGETS]]
        fields: dict[str, Any] = {
            "call_id": self.call_id,
            "action": self.action[:_MAX_NAME_CHARS],
            "args": described.value if isinstance(described.value, dict) else None,
            "args_digest": described.digest,
            "targets": targets,
        }
        if self.hint is not None:
            fields["effect"] = self.hint
        if self.loop_key is not None:
            fields["loop_key"] = plain_text(self.loop_key, max_chars=_SHOWN_CHARS, keys=keys)
        if described.unread_from is not None:
            fields["unread_from"] = described.unread_from
        self.fields = fields
        return fields

    def described_json(self, settings: GuardSettings) -> bytes:
        """Return these fields as members of a JSON object, without its braces. Cached."""
        if self._fields_json is None:
            fields, described = self.describe(settings), self.described
            if described is not None and described.encoded is not None and fields["args"] is not None:
                fields = fields | {"args": orjson.Fragment(described.encoded)}
            self._fields_json = orjson.dumps(fields)[1:-1]
        return self._fields_json


def _is_simple(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() <= _MAX_NAME_CHARS
    return isinstance(value, str) and len(value) <= _MAX_NAME_CHARS


def describe_output(value: Any, settings: GuardSettings) -> dict[str, Any]:
    """Return the fields of an event that describe the output, which may be a Whole."""
    whole = whole_of(value)
    value = whole.value
    shown, keys = settings.max_output_chars, settings.keys
    if isinstance(value, str):
        head, digest = plain_output(whole, max_chars=shown, keys=keys)
        return {
            "output_digest": digest,
            "output_bytes": len(value) if value.isascii() else len(value.encode(errors="replace")),
            "output_head": head if shown else None,
        }
    output = plain(whole, max_bytes=max(shown, 16), keys=keys)
    shown_value = output.value if isinstance(output.value, str) else orjson.dumps(output.value).decode()
    head = plain_text(shown_value, max_chars=shown, keys=keys)
    return {
        # Opaque values cannot be compared, so equal digests would raise false alarms about repeated results.
        "output_digest": None if output.opaque else output.digest,
        "output_bytes": output.size_bytes,
        "output_head": head if shown else None,
    }


def describe_turn(output: str, settings: GuardSettings) -> dict[str, Any]:
    """Return the fields of an event that describe the output of a model turn."""
    repeats = repeated_passage(output)[1]
    return describe_output(output, settings) | ({} if repeats is None else {"output_repeats": repeats})


class DescribedError(Exception):
    """The error of a failed call, as another process reports it."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


class NotMade(Exception):
    """The call was admitted but not made, because a related one was refused."""


def describe_error(error: BaseException, settings: GuardSettings) -> dict[str, Any]:
    """Return the fields of an event that describe the failure."""
    if isinstance(error, DescribedError):
        outcome = error.outcome
    elif isinstance(error, TimeoutError):
        outcome = Outcome.TIMEOUT
    elif isinstance(error, NotMade):
        outcome = Outcome.REFUSED
    elif isinstance(error, Exception):
        outcome = Outcome.ERROR
    else:
        outcome = Outcome.UNKNOWN  # cancelled or interrupted: its progress is unknown
    shown = plain_text(error_text(error), max_chars=_MAX_ERROR_CHARS, keys=settings.keys)
    return {"outcome": outcome, "error": shown}


def error_text(error: BaseException) -> str:
    """Return the complete text of an error, for use in this process only."""
    try:
        text = str(error)
    except Exception:  # a faulty __str__ of another library
        text = "<its message cannot be read>"
    return text if isinstance(error, DescribedError) else f"{type(error).__name__}: {text}"


def describe_novelty(
    seen: SeenWords, args: Whole, result: Whole | None, error: BaseException | None, outcome: Outcome
) -> dict[str, Any]:
    """Return the field of an event about new words in a result or an error; empty without either."""
    if error is None and result is not None:
        return {"output_novelty": seen.take(result, args=args)}
    if result is None and outcome not in WITH_RESULT:
        return {}
    texts = [one for one in (result, None if error is None else error_text(error)) if one is not None]
    return {"output_novelty": seen.take(*texts, args=args)} if texts else {}


def checked(
    action: str, effect: Effect | str | None, mode: str | None
) -> tuple[Effect | None, Literal["async", "blocking"] | None]:
    """Return a tool's declared effect and mode. Raises ValueError for an invalid name, effect or mode."""
    if not isinstance(action, str) or not action:
        raise ValueError(f"tool: name: expected a text, got {action!r}")
    if effect is not None and (not isinstance(effect, str) or effect not in set(Effect)):
        raise ValueError(f"tool {action}: effect: expected one of {', '.join(Effect)}, got {effect!r}")
    if mode is not None and mode not in ("async", "blocking"):
        raise ValueError(f"tool {action}: mode: expected async or blocking, got {mode!r}")
    return None if effect is None else Effect(effect), cast("Literal['async', 'blocking'] | None", mode)


def loop_key_of(
    action: str, loop_key: Callable[[Mapping[str, Any]], str] | str | None, args: Mapping[str, Any]
) -> str | None:
    """Return the loop key of a call; None without one, or if its function raises, which is logged."""
    if loop_key is None or isinstance(loop_key, str):
        return loop_key
    try:
        return str(loop_key(args))
    except Exception:
        log.exception("haltline: tool %s: its loop_key raised an exception", action)
        return None


class Signature:
    """Maps the arguments of a call to the function's parameter names."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self._signature = inspect.signature(function)
        except ValueError:  # some C functions have none
            self._signature = inspect.Signature([_ARGS, _KWARGS])
        names = list(self._signature.parameters)
        self._drop = names[0] if names and names[0] in {"self", "cls"} else None
        parameters = self._signature.parameters.values()
        simple = all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
        # Most calls give each parameter once. These are read without `bind`.
        self._names = tuple(names) if simple and self._drop is None else None
        self._name_set = frozenset(names)

    @property
    def plain(self) -> inspect.Signature:
        """Return the function's signature."""
        return self._signature

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, with defaults, without `self`. Invalid ones are kept: the tool raises."""
        if self._names is not None and len(args) + len(kwargs) == len(self._names):
            if not args and kwargs.keys() == self._name_set:
                return kwargs.copy()  # the author's functions may change them
            named = dict(zip(self._names, args, strict=False))
            named.update(kwargs)
            if named.keys() == self._name_set:
                return named
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:
            return {"args": list(args), **kwargs}
        bound.apply_defaults()
        named = {}
        for name, value in bound.arguments.items():
            if name == self._drop:
                continue
            if self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return named


def targets_of(action: str, targets: Targets | None, args: Mapping[str, Any]) -> list[str]:
    """Return the targets of a call, as its tool declares them; empty if the author's function raises."""
    if targets is None:
        return []
    if callable(targets):
        try:
            return [str(target) for target in targets(args)]
        except Exception:
            log.exception("haltline: the targets of %s could not be determined", action)
            return []
    found: list[str] = []
    for name in targets:
        value = args.get(name)
        values = value if isinstance(value, list | tuple | set | frozenset) else [value]
        found.extend(f"{name}={item}" for item in values if item is not None)
    return found


def key_of(action: str, once: Targets, args: Mapping[str, Any]) -> str | None:
    """Return the key under which calls are made once; None: every call is made.

    None also if the author's function raises, or an argument cannot be compared.
    """
    if callable(once):
        named_targets = targets_of(action, once, args)
        return "\x1f".join(named_targets) if named_targets else None
    return raw_digest({name: args.get(name) for name in once}, _ONCE_KEY)
