"""The destructive effects of a shell, SQL, git, cluster or cloud command line.

Pure functions of the text. A fast check for relevant words (`prefilter`) comes first. The line is then parsed
(`shell`), and each program in it is interpreted by its reader (`files`, `programs`, `code`, `sql`) and by tables
(`effects`). `paths` rates paths, `names` rates names.

Dry runs, `--help`, comments, quoted text and written files destroy nothing. A conditional branch counts as executed.

Misses: the contents of scripts, Makefiles, aliases and configuration; encoded or encrypted text; values known only at
run time. The docstring of each module lists what it misses. The analysis reads what an agent writes openly; it is no
protection against deliberate obfuscation.
"""

from haltline.detectors.commands.creations import creations
from haltline.detectors.commands.model import Badness, Destruction
from haltline.detectors.commands.opposites import made_elsewhere, may_create
from haltline.detectors.commands.reading import (
    begins_with_program,
    code_destructions,
    destructions,
    file_destructions,
    is_read_whole,
    remakers,
)
from haltline.detectors.commands.script_files import files_run, files_written, renames
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
    "made_elsewhere",
    "may_create",
    "remakers",
    "renames",
    "sql_destructions",
]
