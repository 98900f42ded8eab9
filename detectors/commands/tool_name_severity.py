"""The badness of what a tool with a destructive name would destroy, judged by the name of the target.

Consistent with the rules for command lines: things that hold many others, production and backups are SEVERE; things
named as temporary are SCRATCH.

Misses: things whose name does not show what they hold; verbs of other languages, which are a guess.
"""

from haltline.detectors.commands.model import Badness
from haltline.detectors.commands.names import is_backup, is_for_tests, is_main_branch, is_production
from haltline.detectors.commands.paths import badness as path_badness
from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.rows import words_of
from haltline.schemas.tool_names import destroying_verb, words

_CERTAIN = words_of("certain_verbs")
"""Verbs that mean a loss whatever the tool is; `remove`, `clear` or `reset` may mean less."""
_VERBS = words_of("verbs and words beside them")
_HOLDS_MANY = words_of("things that hold many others")
_WHOLE = frozenset(("repository", "repo", "project", "organization", "org", "account", "workspace", "zone", "site"))
"""Things that hold many others, if the name ends with them: `delete_project`, but not `delete_project_label`."""
UNKNOWN = "unknown"
"""The target of an event without one."""
_THING = words_of("things")
_ONE_OF_MANY = words_of("one of many")


def badness(action: str, target: str) -> Badness:
    """Return the badness of a tool's destroying the target, such as `drop_table` and `database=prod,table=orders`."""
    kind, _, name = target.rpartition(",")[2].partition("=")
    if kind == "path":
        return path_badness(canonical(name), everything=True)
    production = is_production(target.partition("=")[2])
    if is_for_tests(name) and not production:
        return Badness.SCRATCH
    named = words(action)
    verb = next((at for at, word in enumerate(named) if word in _CERTAIN or word == "remove"), -1)
    after = [word for word in named[verb + 1 :] if word not in _VERBS]
    nouns = after or [word for word in named if word not in _VERBS]
    if kind == "branch" and is_main_branch(name):
        return Badness.SEVERE
    if not _ONE_OF_MANY.isdisjoint(nouns):
        return Badness.PLAIN
    if production or is_backup(name) or "backup" in nouns or "backups" in nouns:
        return Badness.SEVERE
    if nouns and nouns[-1] in _WHOLE:
        return Badness.SEVERE
    # `delete_object(bucket=...)` is about an object; `delete(bucket=...)` is about the bucket.
    about = next((noun for noun in nouns if noun in _HOLDS_MANY or noun in _THING), "") if nouns else kind
    return Badness.SEVERE if about in _HOLDS_MANY else Badness.PLAIN


def is_certain(action: str, target: str) -> bool:
    """Return whether a tool's name alone is a row: a verb that always destroys, and a target that is named."""
    if target == UNKNOWN:
        return False
    verb = destroying_verb(action)
    return verb in _CERTAIN or (verb == "remove" and not _HOLDS_MANY.isdisjoint(words(action)))


def target(kind: str, value: object, cwd: str | None = None) -> str:
    """Return a target in canonical form; a path is normalized, and resolved below `cwd` if that is known."""
    return f"path={canonical(str(value), cwd)}" if kind == "path" else f"{kind}={value}"
