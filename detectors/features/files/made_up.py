"""Results that nothing was measured for: drawn at random by a program that reads nothing, or written by hand.

Misses: programs that read something without a need; numbers in a report's prose; results under other names.
"""

from collections.abc import Sequence

from haltline.detectors.commands.rows import expression_of, words_of
from haltline.detectors.features.files.literal import Written
from haltline.schemas import expressions as re

_READ_CHARS = 8192
_DRAWS = expression_of("a program draws random numbers")
_RESULTS = expression_of("a file has results", re.IGNORECASE)
_MEANT_SO = expression_of("random numbers are meant", re.IGNORECASE)
_WRITES = expression_of("a program writes results")
_FILE = re.compile(r"['\"]([\w./ {}-]*\.(?:jsonl?|csv|tsv|ya?ml|parquet|txt|md))['\"]")
_FOLDER = re.compile(r"['\"]((?:[\w.-]+/)*(?:results?|metrics?|scores?|benchmarks?)/?)['\"]", re.IGNORECASE)
_OPENS_TO_WRITE = re.compile(r"\bopen\([^()\n]*,\s*(?:mode\s*=\s*)?['\"][wax]b?\+?['\"]")
_READS = expression_of("a program reads something")
_IMPORTS = re.compile(r"^[^\S\n]*(?:import|from)\s+([\w., ]+)", re.MULTILINE)
_PLAIN_IMPORTS = words_of("modules that read nothing")
_DATA_FILE = re.compile(r"\.(?:jsonl?|csv|tsv|ya?ml|parquet)$", re.IGNORECASE)
_DECIMALS = re.compile(r"(?<!\d)\d+\.\d+")
_LEAST_DECIMALS = 3


def draws_results(text: str, path: str = "") -> bool:
    """Return whether a program writes results that depend on nothing but random numbers."""
    text = text[:_READ_CHARS]
    if "and" not in text or _DRAWS.search(text) is None or _MEANT_SO.search(path) is not None:
        return False
    if _READS.search(_OPENS_TO_WRITE.sub("", text)) is not None:
        return False
    named = [word for line in _IMPORTS.findall(text) for word in re.split(r"[\s,.]+", line) if word]
    if not _PLAIN_IMPORTS.issuperset(named):
        return False
    if _WRITES.search(text) is None:
        return False
    files = (*_FILE.findall(text), *_FOLDER.findall(text))
    return any(_RESULTS.search(file) is not None and _MEANT_SO.search(file) is None for file in files)


def writes_results(files: Sequence[Written]) -> str:
    """Return the path of a file of results among those written word for word; empty if there is none."""
    for path, text in files:
        if _DATA_FILE.search(path) is None or _RESULTS.search(path) is None or _MEANT_SO.search(path) is not None:
            continue
        if len(_DECIMALS.findall(text[:_READ_CHARS])) >= _LEAST_DECIMALS:
            return path
    return ""
