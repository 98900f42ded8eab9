"""Raw requests to code forges: `gh api`, `glab api`.

Misses: bodies in files (`--input`).
"""

from collections.abc import Callable, Iterator, Mapping

from haltline.detectors.commands import graphql
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.names import is_main_branch
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.schemas import expressions as re

_REPOSITORY = re.compile(r"\A/?repos/([\w.-]{1,100}/[\w.-]{1,100})/?")
_REF = re.compile(r"/git/refs/heads/(?P<branch>[\w./-]{1,200})$")


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


TOOLS: Mapping[str, Callable[[Invocation], Iterator[Destruction]]] = {"gh": _forge, "glab": _forge}
