"""The table of what each framework is capable of in docs/integrations.md: `python -m tests.conformance.table`."""

import ast
from typing import Final

from tests.conformance.environments import drivers
from tests.conformance.harness import CAPABILITIES
from tests.locks import ROOT

PAGE: Final = ROOT / "docs" / "integrations.md"
BEGIN, END = "<!-- capabilities: written by tests/conformance/table.py -->\n", "<!-- end of capabilities -->\n"


def lacks_of(driver: str) -> frozenset[str]:
    """What a driver declares, read as text: only its own environment can import it."""
    tree = ast.parse((ROOT / f"tests/conformance/drivers/{driver}.py").read_text(encoding="utf-8"))
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "LACKS" for target in targets):
            return frozenset(node.value for node in ast.walk(statement) if isinstance(node, ast.Constant))  # type: ignore[misc]  # texts
    raise ValueError(f"{driver}: expected LACKS, got none")


def table() -> str:
    """Capabilities down, drivers across; `no` is what a framework has no way for."""
    named = drivers()
    lines = ["| | " + " | ".join(named) + " |", "| --- |" + " --- |" * len(named)]
    for capability, text in CAPABILITIES.items():
        marks = ["no" if capability in lacks_of(driver) else "yes" for driver in named]
        lines.append(f"| {text} | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the table as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + "\n" + table() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
