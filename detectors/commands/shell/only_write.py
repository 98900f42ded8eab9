"""A command line that is only `cat <<'EOF' > file`: common, often long, and read without the parser.

Misses: other commands that only write, such as `tee` or an unquoted delimiter. They are parsed.
"""

from haltline.detectors.commands.paths import canonical
from haltline.detectors.commands.rows import expression_of
from haltline.detectors.commands.shell.expand import Expander
from haltline.detectors.commands.shell.invocation import Invocation
from haltline.detectors.commands.shell.syntax import Text
from haltline.schemas import expressions as re

WRITTEN_FILE = expression_of("a file is written by cat", re.ASCII)
_MAX_CHARS = 16 * 1024
"""A longer text may exceed the step budget, so it is parsed."""


def only_write(command: str, cwd: str | None) -> Invocation | None:
    """Return the command line's only program as the parser would; None if the line has to be parsed."""
    found = WRITTEN_FILE.match(command) if len(command) <= _MAX_CHARS and "\r" not in command else None
    if found is None:
        return None
    lines = command[found.end() :]
    before, closed, rest = f"\n{lines}\n".partition(f"\n{found['end'] or found['end_']}\n")
    if rest not in ("", "\n"):
        return None
    text = before[1:] if closed else lines.removesuffix("\n")
    place = canonical(cwd) if cwd else None
    return Invocation(
        argv=("cat",),
        stdin=Expander().text((Text(text, quoted=True),), {}, lambda _: None),
        writes=((">", found["file"] or found["file_"]),),
        cwd=place,
        start=place,
        called="cat",
    )
