"""What a shell, SQL, git, cluster or cloud command line would destroy.

Pure functions of the text. A line passes a quick look for telling words (`prefilter`), is taken apart (`lexer`,
`expand`, `shell`, `wrappers`), and each program in it is read by a reader of its own (`files`, `git`, `databases`,
`containers`, `cloud`, `system`, `scripts`, `sql`) and by tables (`effects`). Paths are judged by `paths`, names
by `names`.

Dry runs, `--help`, comments, quoted text and files that are written destroy nothing. What is destroyed by a branch that
may not be taken counts.

Misses: what is in scripts, Makefiles, aliases and configuration; encoded or encrypted text; what is only known when
it runs. The docstring of each module says what it misses. It sees what an agent writes down: against one that hides
what it does it is no protection.
"""

from haltline.detectors.commands.creations import creations, may_create
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.reading import (
    begins_with_program,
    code_destructions,
    destructions,
    file_destructions,
    files_run,
    files_written,
    is_read_whole,
    remakers,
    renames,
)
from haltline.detectors.commands.sql import sql_destructions

__all__ = [
    "Badness",
    "Destruction",
    "begins_with_program",
    "code_destructions",
    "creations",
    "destructions",
    "file_destructions",
    "files_run",
    "files_written",
    "is_read_whole",
    "may_create",
    "remakers",
    "renames",
    "sql_destructions",
]
