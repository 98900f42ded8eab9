"""What a command line creates elsewhere: what the same program would destroy with the opposite verb.

`docker volume create x` creates what `docker volume rm x` destroys, and `aws dynamodb create-table --table-name t` what
`delete-table` does, under the same target: what is known of a program's losses is known of what it makes.

Misses: names that the service chooses, which only the answer gives (see `features.call_changes`); verbs without an
opposite in the table; things that a configuration file describes (`apply`).
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from haltline.detectors.commands.creations import may_create as may_create_here
from haltline.detectors.commands.model import LOSSES, MADE_AGAIN, MAX_COMMAND_CHARS, cached_by_text, placed
from haltline.detectors.commands.reading import losses_by
from haltline.detectors.commands.rows import cells_of, words_of
from haltline.detectors.commands.shell.interpreter import invocations
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.schemas import expressions as re

_ROWS = {verb: tuple(opposites.split()) for verb, opposites in cells_of("opposites")}
_OPPOSITES = {verb: opposites for verb, opposites in _ROWS.items() if verb[0] != MADE_AGAIN}
_AGAIN = {verb[1:]: opposites for verb, opposites in _ROWS.items() if verb[0] == MADE_AGAIN}
_OF_WORD = {f"create{mark}": _OPPOSITES["create"] for mark in "-:"}
"""Of a verb inside of a word: `create-table`."""
_MAY = re.compile(rf"\b(?:{'|'.join(verb.strip('~-') for verb in _ROWS)})\b")
_PROGRAMS = words_of("programs whose verbs have opposites")
"""Programs whose verbs have opposites; those that make files are read by `creations`."""
_FORCED = {"rb": ("--force",), "down": ("-v",)}
_WITH_A_TYPE = (("secret",), ("service",), ("svc",))
_MAX_WORDS, _MAX_FOUND = 64, 32
_OBJECT_STORES = ("aws=s3", "gcloud=storage/buckets/")


def may_create(command: str) -> bool:
    """Return False if a command line creates nothing, here or elsewhere, True if it has to be parsed."""
    return may_create_here(command) or _MAY.search(command) is not None


@cached_by_text
def made_elsewhere(command: str, *, cwd: str | None = None) -> tuple[str, ...]:
    """Return the targets outside of the file system that a command line creates, each once, with where.

    Never raises.
    """
    text = command[:MAX_COMMAND_CHARS]
    if _MAY.search(text) is None:
        return ()
    found: dict[str, None] = {}
    for invocation in invocations(text, cwd=cwd):
        if invocation.name in _PROGRAMS:
            found.update(dict.fromkeys(islice(_made(invocation), _MAX_FOUND)))
    return tuple(found)[:_MAX_FOUND]


def _made(invocation: Invocation) -> Iterator[str]:
    argv = invocation.argv[:_MAX_WORDS]
    for at, word in enumerate(argv[1:6], 1):
        again = MADE_AGAIN if word in _AGAIN else ""
        for opposite in _AGAIN.get(word) or _opposites_of(word):
            rest = argv[at + 1 :]
            if invocation.name == "kubectl" and rest[:1] in _WITH_A_TYPE:
                rest = (*rest[:1], *rest[2:])  # `create secret generic x`
            line = (*argv[:at], opposite, *rest, *_FORCED.get(opposite, ()))
            losses = losses_by(replace(invocation, argv=line))
            names = (*argv[at + 1 :], *(_of_folder(invocation) if again else ()))
            made = [one for one in losses if one.effect in LOSSES and _names_one_of(one.target, names)]
            if again and made:
                yield from (f"{again}{one.placed}" for one in made)
                return
            if made and made[0].target not in {one.target for one in losses_by(invocation)}:
                target = made[0].target
                yield made[0].placed
                if invocation.name == "terraform":  # the new one is in use from now on
                    yield placed(f"workspace={invocation.path('.')}", target.partition("=")[2])
                if target.startswith(_OBJECT_STORES):
                    yield placed(f"bucket={target.rpartition('/')[2]}", made[0].where)
                return


def _of_folder(invocation: Invocation) -> tuple[str, str]:
    """Return the names of all that a program makes in its folder."""
    folder = invocation.path(".")
    return folder, f"{folder}/*"


def _opposites_of(word: str) -> tuple[str, ...]:
    if word in _OPPOSITES:
        return _OPPOSITES[word]
    verb = next(filter(word.startswith, _OF_WORD), "")
    if verb:
        return tuple(f"{other}{verb[-1]}{word[len(verb) :]}" for other in _OF_WORD[verb])
    thing, colon, last = word.rpartition(":")
    return tuple(f"{thing}:{other}" for other in _OPPOSITES.get(last, ())) if colon else ()


def _names_one_of(target: str, arguments: tuple[str, ...]) -> bool:
    """Return whether the target has the name of an argument, rather than being the command line."""
    name = target.partition("=")[2].partition("@")[0]
    return any(
        name == word or name.endswith(f"/{word}")
        for argument in arguments
        for word in (argument, argument.partition("=")[2], argument.partition("://")[2].rstrip("/"))
        if word
    )
