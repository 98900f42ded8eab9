"""The irreversible acts of a tool call, other than those shown by a destructive name: by tables.

The tables are in `commands.effects`: names of tools and the effects of their arguments, texts on buttons, HTTP
requests.

Misses: those of the tables; clicks whose adapter reports a number instead of the clicked text.
"""

import shlex
from collections.abc import Callable
from functools import lru_cache

from haltline.detectors.commands import code_destructions, destructions
from haltline.detectors.commands.arguments import in_snake
from haltline.detectors.commands.effects import jobs, labels, requests, statements, tools, verb_and_arguments
from haltline.detectors.commands.effects.languages import in_english
from haltline.detectors.commands.model import ActEffect, Badness, Destruction, listed
from haltline.detectors.commands.names import is_main_branch
from haltline.detectors.commands.rows import expression_of, texts_of, words_of
from haltline.detectors.commands.surroundings import is_little
from haltline.schemas import expressions as re
from haltline.schemas.record import JsonObject
from haltline.schemas.tool_names import words

_CLICKS = words_of("verbs that click")
_LABEL = expression_of("an argument names what is clicked")
"""Arguments that name the clicked element."""
_IS_SELECTOR = re.compile(r"selector|locator|xpath|css|form|target$")
_CLICKING = frozenset(("click", "left_click", "double_click", "tap", "press", "submit"))
_INSTRUCTIONS = frozenset(("action", "instruction", "instructions", "task", "step", "goal", "prompt", "command"))
_CLICK_INSTRUCTION = expression_of("an instruction to click", re.IGNORECASE)
"""An instruction to click something, for a tool that finds the element itself."""
_ACCEPTED = ("accept", "confirm", "ok")
_SELECTOR = re.compile(r"\[[\w-]+[*^$~|]?=|[#.>:()=\[\]\"'/@*]+")
_TAGS = words_of("parts of a page")
_CODE_CLICK = re.compile(r"^.*(?:\.click\(|\.tap\(|\.press\(|\.submit\().*$", re.MULTILINE)
_LITERAL = re.compile(r"""(["'`])((?:(?!\1).){2,160})\1""")
_STATEMENTS = ("query", "statement", "update", "cypher", "sparql", "gql", "cql", "q", "command")
_ABOUT_TEXTS = words_of("words about texts")
_SCRIPTS = ("function", "script", "expression", "code", "js", "javascript")
_EVALUATES = frozenset(("evaluate", "eval", "execute", "script", "js", "javascript", "run"))
_LAST_PART = re.compile(r"__|[./:]")
_MAX_TARGET_CHARS = 240
_REFERENCES = ("ref=", "branch=")


def acts(  # noqa: PLR0912 - one case after another
    action: str, args: JsonObject, about_of: Callable[[], tuple[str, ...]]
) -> tuple[Destruction, ...]:
    """Return the irreversible acts of a call; `about_of` returns the targets in its arguments, called if needed."""
    args = in_snake(args)
    if in_english(action):
        args = {"_".join(in_english(name)) or name: value for name, value in args.items()}
    clicked = click(action, args)
    if clicked:
        return clicked
    whole, action = _names_of(action)
    if tools.only_looks(action):
        requested = requests.of_arguments(args, guess=False)
        return (requested,) if requested is not None else ()
    line = as_command_line(action, args)
    ran = destructions(line) if line else ()
    if ran:
        return ran
    for name in _STATEMENTS:
        text = args.get(name)
        if isinstance(text, str) and " " in text and _ABOUT_TEXTS.isdisjoint(words(action)):
            stated = statements.acts(text)
            if stated:
                return stated
    for name in _SCRIPTS if not _EVALUATES.isdisjoint(words(action)) else ():
        text = args.get(name)
        clicked = (clicks_of_program(text) or code_destructions(text)) if isinstance(text, str) else ()
        if clicked:
            return clicked
    names = tools.operations(action, args)
    found = _by_words(action, names, args) or tools.by_name(whole)
    if found is None or found[1] is ActEffect.HANDS_OVER:
        moved = _moved_away(action, names, args, about_of)
        if moved:
            return moved
        requested = requests.of_arguments(args)
        if requested is not None:
            return (requested,)
        order = jobs.started(action, args)
        if order:
            return (
                Destruction(
                    f"{action}: {order}"[:80], f"order={order}"[:_MAX_TARGET_CHARS], Badness.PLAIN, ActEffect.HANDS_OVER
                ),
            )
        return ()
    (verb, effect), about = found, about_of()
    if effect in (ActEffect.DESTROYS, ActEffect.EXPOSES) and about and all(map(is_little, about)):
        return ()
    if verb == "force" and about:  # one reference is moved, whatever else the arguments name
        moved_ref = next((one for one in about if one.startswith(_REFERENCES)), about[0])
        if is_main_branch(moved_ref.rpartition("/")[2].rpartition("=")[2]):
            return (Destruction(verb, moved_ref[:_MAX_TARGET_CHARS], Badness.SEVERE, effect),)
        about = (moved_ref,)
    named = about or (f"tool={action}",)
    return tuple(
        Destruction(verb[:80], one[:_MAX_TARGET_CHARS], Badness.PLAIN, effect, guessed=True) for one in named[:16]
    )


@lru_cache(maxsize=4096)
def _names_of(action: str) -> tuple[str, str]:
    """Return the words of a tool's name joined by `_`, and its last part."""
    return "_".join(words(action)), _LAST_PART.split(action)[-1] or action


_SENDS = frozenset(("send", "email", "mail", "message", "post", "notify"))


def _by_words(action: str, names: tuple[str, ...], args: JsonObject) -> tuple[str, ActEffect] | None:
    is_settled, found = tools.by_names(names)
    if is_settled:
        return found
    if tools.sets(action) or any(
        isinstance(args.get(name), str) and tools.sets(args[name]) for name in ("action", "operation", "op")
    ):
        found = tools.by_setting(action, args)
        if found is not None:
            return found
    together = verb_and_arguments.by_verb_and_arguments(names, args)
    if together is not None:
        return together
    if not _SENDS.isdisjoint(words(action)) and tools.to_many(args):
        return "send_to_many", ActEffect.SENDS
    return None


def as_command_line(action: str, args: JsonObject) -> str:
    """Return the command line of `git_push(remote, branch, force=True)` or `redis_command(command="FLUSHALL")`."""
    named = words(action)
    if named[:1] == ("git",) and len(named) > 1 and named[1] in _OF_GIT:
        parts = ["git", named[1]]
        parts += ["--force"] if args.get("force") is True or args.get("force_push") is True else []
        parts += ["--hard"] if args.get("mode") == "hard" or args.get("hard") is True else []
        parts += ["-D"] if named[1] == "branch" and "delete" in named else []
        parts += ["origin"] if named[1] == "push" and "remote" not in args else []
        parts += [str(args[name]) for name in _OPERANDS_OF_GIT if isinstance(args.get(name), str)]
        return " ".join(map(shlex.quote, parts))
    if not _PROGRAMS.keys().isdisjoint(named):
        program = next(_PROGRAMS[word] for word in named if word in _PROGRAMS)
        for name in ("command", "cmd", "cli_command", "query", "args"):
            given = args.get(name)
            if isinstance(given, list) and given and all(isinstance(word, str) for word in given):
                given = shlex.join(given)
            if isinstance(given, str) and given:
                if " " not in given:
                    given = " ".join((given, *(str(args[key]) for key in _ABOUT if isinstance(args.get(key), str))))
                return given if given.startswith(program) else f"{program} {given}"
    return ""


_OPERANDS_OF_GIT = ("remote", "branch", "ref", "commit")
_OF_GIT = frozenset(("push", "reset", "branch", "tag", "clean", "checkout", "rebase", "restore", "stash"))
STORES = {"redis": "redis-cli", "valkey": "redis-cli", "keydb": "redis-cli"}
"""Stores whose tools take the commands of one program, whatever their name."""
_PROGRAMS = {**STORES, "aws": "aws", **{name: name for name in (
    "gcloud", "az", "terraform", "tofu", "kubectl", "docker", "podman", "helm", "pulumi", "vault", "gh", "glab",
    "heroku", "flyctl",
)}}  # fmt: skip
_ABOUT = ("resource_type", "resource", "name")
_MOVES = frozenset(("move", "mv", "relocate", "rename", "transfer", "put", "shift"))
_LOST = expression_of("a place where things are lost", re.IGNORECASE)
_PLACES = texts_of("arguments that name where to")


def _moved_away(
    action: str, names: tuple[str, ...], args: JsonObject, about_of: Callable[[], tuple[str, ...]]
) -> tuple[Destruction, ...]:
    """Return the loss of what a tool moves to a trash or a temporary place."""
    if _MOVES.isdisjoint(tools.words_of_all(names)):
        return ()
    for name in _PLACES:
        place = args.get(name)
        if isinstance(place, str) and _LOST.fullmatch(place.strip()) is not None:
            origin = next((str(args[key]) for key in _ORIGINS if isinstance(args.get(key), str)), "")
            if origin and not origin.startswith(("/", "~")) and place.startswith(("/tmp", "/var/tmp")):
                return ()
            target = (
                f"path={origin}"
                if "/" in origin
                else f"name={origin}"
                if origin
                else next(iter(about_of()), f"tool={action}")
            )
            return (Destruction("move_away", target[:_MAX_TARGET_CHARS], Badness.PLAIN, reversible=True),)
    return ()


_ORIGINS = listed("""
    source src from path old_path from_path source_path id message_id page_id file_id email_id name
""")  # fmt: skip


_QUERIES = frozenset(("cypher", "sparql", "neo4j", "graph", "gremlin", "cql", "query", "statement", "mongo", "mongodb"))


def only_looks(name: str) -> bool:
    """Return whether a tool with this name only reads, or undoes."""
    return tools.only_looks(name)


def names_an_act(name: str) -> bool:
    """Return whether a name denotes an irreversible act."""
    return tools.by_name(name) is not None


@lru_cache(maxsize=4096)
def may_act(action: str) -> bool:
    """Return whether the arguments of a tool with this name have to be checked: cheap, with false positives."""
    parts = words(action)
    if not _EVALUATES.isdisjoint(parts) or not _QUERIES.isdisjoint(parts):
        return True
    if not _CLICKS.isdisjoint(parts) or _browses(parts) or tools.sets(action) or not _MOVES.isdisjoint(parts):
        return True
    if not verb_and_arguments.BUYS.isdisjoint(parts) or not verb_and_arguments.MOVES_MONEY.isdisjoint(parts):
        return True
    if not _PROGRAMS.keys().isdisjoint(parts) or parts[:1] == ("git",):
        return True
    if tools.only_looks(action):
        return False
    by_name = tools.by_name(_LAST_PART.split(action)[-1]) or tools.by_name("_".join(parts))
    return by_name is not None or not jobs.STARTS.isdisjoint(parts)


def is_click(action: str) -> bool:
    """Return whether a tool clicks; its effect depends on the clicked text."""
    return not _CLICKS.isdisjoint(words(action))


def _browses(named: tuple[str, ...]) -> bool:
    return "act" in named or "browser" in named


def click(action: str, args: JsonObject) -> tuple[Destruction, ...]:
    """Return the act of a click on something whose text is reported."""
    named = words(action)
    clicks = (
        not _CLICKS.isdisjoint(named)
        or ("action" in args and str(args["action"]) in _CLICKING)
        or (args.get("submit") is True and "text" in args)
    )
    if not clicks and not _browses(named):
        return ()
    if "dialog" in named and not any(args.get(name) is True for name in _ACCEPTED):
        return ()
    for name, text in args.items():
        if name == "text" and "submit" in args:
            continue  # text typed into the element
        key, label = "_".join(words(name)), text
        instruction = _CLICK_INSTRUCTION.match(label) if isinstance(label, str) and key in _INSTRUCTIONS else None
        if instruction is not None:
            key, label = "label", instruction["what"]
        elif not clicks:
            continue
        if isinstance(label, str) and label and _LABEL.fullmatch(key) is not None:
            found = _clicked(label, is_code=_IS_SELECTOR.search(key) is not None)
            if found is not None:
                return (found,)
    return ()


def _clicked(label: str, *, is_code: bool) -> Destruction | None:
    if is_code:
        label = " ".join(word for word in re.split(r"[\s_-]+", _SELECTOR.sub(" ", label)) if word.lower() not in _TAGS)
    effect = labels.effect_of(label)
    if effect is None:
        return None
    return Destruction("click", f"button={label.strip().lower()}"[:_MAX_TARGET_CHARS], Badness.PLAIN, effect)


def clicks_of_program(text: str) -> tuple[Destruction, ...]:
    """Return the acts of a program's clicks, by the texts and selectors in the lines that click."""
    found: dict[Destruction, None] = {}
    for line in _CODE_CLICK.findall(text[:65536])[:64]:
        for _, literal in _LITERAL.findall(line):
            clicked = _clicked(literal, is_code=True)
            if clicked is not None:
                found[clicked] = None
    return tuple(found)
