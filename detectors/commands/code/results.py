"""What the calls of a program return: paths that are built, listings, formatted texts, opened files.

Misses: functions with other names that build paths; what a program reads.
"""

from collections.abc import Callable

from haltline.detectors.commands.code.values import NONE, CallSite, Value, decoded, formatted, joined_paths
from haltline.detectors.commands.model import listed
from haltline.schemas import expressions as re

_TEMPORARY = "/tmp/tmp.XXXXXXXXXX"
_TEMPS = re.compile(r"\A(?:tempfile\.\w+|mkdtemp|mktemp|\w{0,80}[tT]mp[dD]ir\w*|os\.tmpdir)")
_PATH_MAKERS = frozenset(listed("""
    Path pathlib.Path PurePath File Path.of Paths.get str os.fspath String bytes os.path.abspath os.path.expanduser
    path.resolve Pathname Pathname.new File.new text sqlalchemy.text list sorted tuple iter set reversed enumerate
    io.StringIO expanduser os.path.realpath URL new
"""))  # fmt: skip
_MODULES = frozenset(("__import__", "importlib.import_module", "require", "import"))
_OPENERS = frozenset(("openSync", "fopen", "createWriteStream"))


def module(name: str) -> str:
    """Return the usual name of a module: `fs` of `node:fs` and `fs-extra`."""
    plain = name.removeprefix("node:").removesuffix("-extra")
    return "fs.promises" if plain == "fs/promises" else plain


def reference(call: CallSite) -> Value | None:
    """Return the function, module or temporary path that a call returns; None for any other call."""
    if call.ref in ("getattr", "Reflect.get") and call.second.texts:
        return Value(call.first.texts, f"{call.first.ref}.{call.second.texts[0]}")
    if call.ref in _MODULES and call.target.texts:
        return Value(ref=module(call.target.texts[0]))
    return Value((_TEMPORARY,)) if _TEMPS.fullmatch(call.ref) is not None else None


def result(call: CallSite) -> Value:
    """Return the value of a call; by default its first text, or that of the object whose method is called."""
    for rule in (_BY_NAME.get(call.ref), _BY_METHOD.get(call.last)):
        value = rule(call) if rule is not None else None
        if value is not None:
            return value
    texts = call.first.texts or next((value.texts for value in call.keywords.values() if value.texts), ())
    return Value(texts or call.base, call.ref)


def _path(call: CallSite) -> Value | None:
    if not call.first.texts:
        return None
    return Value(joined_paths(call.items), call.ref, call.first.listed and len(call.items) == 1)


def _joined(call: CallSite) -> Value:
    if len(call.items) == 1:
        return call.first
    return Value(joined_paths(call.items or [Value(("",))]))


def _joined_to_base(call: CallSite) -> Value:
    return Value(joined_paths([Value(call.base), *call.items]))


def _listing(call: CallSite) -> Value | None:
    if call.ref == "glob" and not call.first.texts:
        return None
    return Value(tuple(text if "*" in text else f"{text}/*" for text in call.first.texts))


def _below(call: CallSite) -> Value | None:
    return Value(tuple(f"{text}/*" for text in call.base), "Path") if call.base else None


def _decoded(call: CallSite) -> Value:
    return Value(tuple(map(decoded, call.first.texts)))


def _same_function(call: CallSite) -> Value | None:
    return Value(ref=call.first.ref) if call.first.ref else None


def _statement(call: CallSite) -> Value | None:
    """`delete(Model)` of SQLAlchemy."""
    return Value(ref=f"delete.{call.first.ref}") if call.first.ref and not call.first.texts else None


def _split(call: CallSite) -> Value | None:
    return Value(tuple(call.base[0].split()), "[]", listed=True) if call.base else None


def _formatted(call: CallSite) -> Value | None:
    return Value(tuple(formatted(text, call) for text in call.base), call.ref) if call.base else None


def _unchanged(call: CallSite) -> Value | None:
    return Value(call.base, call.ref) if call.base else None


def _opened(call: CallSite) -> Value | None:
    if not call.first.texts:
        return None
    mode = (call.second if len(call.items) > 1 else call.keywords.get("mode", NONE)).texts
    anew = mode[0].startswith("w") if mode else call.last == "createWriteStream"
    return Value(call.first.texts, "open_w" if anew else "open")


_Rule = Callable[[CallSite], Value | None]
_BY_NAME: dict[str, _Rule] = {
    **dict.fromkeys(_PATH_MAKERS, _path),
    **dict.fromkeys(
        listed("os.path.join path.join join File.join posixpath.join filepath.Join path.posix.join"), _joined
    ),
    **dict.fromkeys(
        listed("glob.glob glob.iglob os.listdir os.scandir os.walk fs.readdirSync Dir.glob glob"), _listing
    ),
    **dict.fromkeys(
        listed("base64.b64decode b64decode atob base64.decodebytes Buffer.from Base64.decode64 base64_decode"), _decoded
    ),
    **dict.fromkeys(("delete", "sqlalchemy.delete"), _statement),
    **dict.fromkeys(("open", "File.open", "io.open"), _opened),
}
_BY_METHOD: dict[str, _Rule] = {
    "joinpath": _joined_to_base,
    **dict.fromkeys(("iterdir", "glob", "rglob", "walk"), _below),
    **dict.fromkeys(("promisify", "partial", "bind", "wraps", "callbackify"), _same_function),
    "split": _split,
    **dict.fromkeys(("with_suffix", "with_name", "relative_to"), lambda call: Value((), call.ref)),
    "format": _formatted,
    **dict.fromkeys(listed("decode encode strip lower upper as_posix resolve absolute expanduser"), _unchanged),
    **dict.fromkeys(_OPENERS, _opened),
}
