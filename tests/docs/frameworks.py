"""The generated parts of docs/frameworks: `python -m tests.docs.frameworks` writes it.

Each page has its prose, and three blocks: how to try the framework, its program as it stands in examples/, and what
its adapter is capable of. The index has the table of all.
"""

import re
from typing import Final

from haltline.cli.frameworks import FRAMEWORKS, Framework
from tests.conformance.environments import drivers
from tests.conformance.harness import CAPABILITIES
from tests.conformance.table import lacks_of
from tests.docs.pages import DOCS, ROOT, fences_of

FOLDER: Final = DOCS / "frameworks"
INDEX: Final = FOLDER / "index.md"
_PRINTED: Final = "deleted fact_sales\ndeleted fact_sales\nstopped: session_killed_loop_guard"
_OF_MCP: Final = "fact_sales still exists\nfact_sales still exists\nstopped: haltline stopped this session ..."
_PYTHON: Final = """```console
$ pip install {requirement}
$ haltline up    # prints the address of its broker
```

Save the program below as `agent.py`. In a second terminal, with that address:

```console
$ export HALTLINE_BOOTSTRAP=127.0.0.1:PORT
$ python agent.py
{printed}
```

A second run is stopped earlier, because rules across sessions count what the agent `cleaner` has done.
[A reset](../operate.md#reset) releases it; a new `haltline up` begins with an empty broker. {own}"""
_OWN: Final = """`HALTLINE_MODE=local python agent.py`
needs no `haltline up`: it decides in the agent's own process, which knows no other session.

`haltline init --framework {name}` prints the lines for a program of your own."""


def page_of(row: Framework) -> str:
    """The page of a framework, with its blocks as they are now. Raises ValueError for a page without one of them."""
    text = (FOLDER / f"{row.name}.md").read_text(encoding="utf-8")
    for mark, block in (("try", _try(row)), ("program", _program(row)), ("capabilities", _capabilities(row))):
        if block:
            text = _with(text, mark, block)
    return text


def index() -> str:
    """The index with the table of all frameworks."""
    lines = ["| framework | how to guard it | what ends the run of a stopped session |", "| --- | --- | --- |"]
    lines += [f"| [{row.title}]({row.name}.md) | `{row.how}` | {row.ends} |" for row in FRAMEWORKS.values()]
    return _with(INDEX.read_text(encoding="utf-8"), "frameworks", "\n".join(lines))


def printed_of(row: Framework) -> list[str]:
    """The lines that a page shows as its program's output."""
    text = (FOLDER / f"{row.name}.md").read_text(encoding="utf-8")
    (block,) = (content for _, content in fences_of(text) if "$ python agent.py\n" in content)
    return block.partition("$ python agent.py\n")[2].splitlines()


def drivers_of(row: Framework) -> list[str]:
    """Those of the conformance tests that run its adapter."""
    return [*row.drivers] or [driver for driver, adapter in drivers().items() if adapter == row.name]


def _with(text: str, mark: str, block: str) -> str:
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    if not re.search(pattern, text, re.DOTALL):
        raise ValueError(f"expected <!-- {mark} --> and <!-- /{mark} -->, got none")
    return re.sub(pattern, lambda marks: f"{marks[1]}{block}\n{marks[2]}", text, flags=re.DOTALL)


def _try(row: Framework) -> str:
    """Empty where the page has its own."""
    if row.language != "python":
        return ""
    requirement = f"'haltline[{','.join([*row.extras, 'processor', 'console'])}]'"
    if row.name == "mcp":
        requirement += " 'mcp>=2,<3'"  # of the program itself
    printed = {"mcp": _OF_MCP, "opentelemetry": "deleted fact_sales\n..."}.get(row.name, _PRINTED)
    own = _OWN.format(name=row.name) if row.adapter and drivers_of(row) else ""
    return _PYTHON.format(requirement=requirement, printed=printed, own=own).strip()


def _program(row: Framework) -> str:
    program = ROOT / row.program
    language = "python" if program.suffix == ".py" else "javascript"
    return f"```{language}\n{program.read_text(encoding='utf-8')}```"


def _capabilities(row: Framework) -> str:
    """A row for each capability; empty for what no cases are run with."""
    of_row = drivers_of(row)
    if not of_row:
        return ""
    heads = [""] if len(of_row) == 1 else of_row
    lines = [f"| capability | {' | '.join(heads)} |", "| --- |" + " --- |" * len(of_row)]
    for capability, text in CAPABILITIES.items():
        marks = ["no" if capability in lacks_of(driver) else "yes" for driver in of_row]
        lines.append(f"| {text} | {' | '.join(marks)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    INDEX.write_text(index(), encoding="utf-8")
    for one in FRAMEWORKS.values():
        (FOLDER / f"{one.name}.md").write_text(page_of(one), encoding="utf-8")
