"""aider: the chats of a project in one Markdown file, without results of commands and times of steps."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from haltline.interventions.agent.user_files import open_file
from haltline.schemas import expressions as re
from haltline.streams.importing.reading import MAX_VALUE_BYTES, NotReadable, Source
from haltline.streams.importing.steps import Part, Step, ended, prompted, proposed, turn, usage_of
from haltline.streams.importing.values import moment

_BEGINS: Final = "# aider chat started at "
_HEAD_BYTES = 4096
_PROMPT, _NOTE = "#### ", "> "
_MODEL = re.compile(r"(?:Main model|Model|Models): (\S+)")
_TOKENS = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kM]?) sent(?:, [\d.,]+[kM]? cache write)?(?:, (?P<cached>[\d.,]+[kM]?) cache hit)?"
    r", (?P<received>[\d.,]+[kM]?) received\.(?: Cost: \$(?P<cost>[\d.]+) message)?"
)
_EDIT, _RUN = re.compile(r"Applied edit to (.+)"), re.compile(r"Running (.+)")
_NO_EDIT = re.compile(r"# \d+ SEARCH/REPLACE blocks? failed to match!|The LLM did not conform to the edit format\.")
_FACTORS: Final = {"k": 1_000, "M": 1_000_000}


def is_history(path: Path) -> bool:
    """Return whether the file is a history of aider. Raises OSError when it cannot be read."""
    with open_file(path) as file:
        return file.read(_HEAD_BYTES).lstrip().startswith(_BEGINS.encode())


def parts(source: Source) -> Iterator[Part]:
    """Yield the chats, each named by its start time."""
    with open_file(source.path) as file:
        raw = file.read(MAX_VALUE_BYTES + 1)
    if len(raw) > MAX_VALUE_BYTES:
        raise NotReadable(f"{source.path}: expected at most {MAX_VALUE_BYTES} bytes of chats, got more")
    lines = [line.decode(errors="replace").rstrip() for line in raw.split(b"\n")]
    begins = [number for number, line in enumerate(lines) if line.startswith(_BEGINS)]
    for begin, end in pairwise([*begins, len(lines)]):
        began = lines[begin].removeprefix(_BEGINS)
        yield Part(f"aider {began}", _steps(lines[begin + 1 : end], moment(began)))


def _steps(lines: Iterable[str], began_ms: int | None) -> Iterator[Step]:
    """Yield the steps; only the first has a time, the local time of the machine, which is read as UTC."""
    calls, model = 0, ""
    prompt: list[str] = []
    written: list[str] = []
    answer = ""
    time_ms = began_ms
    for line in lines:
        if line.startswith(_PROMPT):
            prompt.append(line.removeprefix(_PROMPT))
            continue
        if prompt:
            yield prompted("\n".join(prompt), time_ms)
            prompt = []
        if not line.startswith(_NOTE):
            written.append(line)
            continue
        note = line.removeprefix(_NOTE)
        if named := _MODEL.match(note):
            model = named[1]
        elif used := _TOKENS.match(note):
            sent, received, cached = (_number(used[name]) for name in ("sent", "received", "cached"))
            answer, written = "\n".join(written).strip(), []
            yield from turn(usage_of(sent, received, cached=cached, cost=used["cost"]), model, answer, time_ms)
            time_ms = None
        elif edited := _EDIT.match(note):
            calls += 1
            yield proposed(f"edit-{calls}", "edit_file", {"path": edited[1], "text": answer}, time_ms)
            yield ended(f"edit-{calls}", "Applied edit", time_ms, failed=False)
        elif _NO_EDIT.match(note):
            calls += 1
            yield proposed(f"edit-{calls}", "edit_file", {"text": answer}, time_ms)
            yield ended(f"edit-{calls}", note, time_ms, failed=True)
        elif run := _RUN.match(note):
            calls += 1
            yield proposed(f"run-{calls}", "bash", {"command": run[1]}, time_ms)
            yield ended(f"run-{calls}", None, time_ms, failed=None)


def _number(text: str | None) -> int:
    """Return the number of a text such as `4.2k`."""
    if not text:
        return 0
    factor = _FACTORS.get(text[-1], 1)
    return round(float(text.rstrip("kM").replace(",", "")) * factor)
