"""The table of what each framework is capable of on the documentation's page of integrations."""

import ast

from tests.conformance.environments import OWN, drivers
from tests.conformance.harness import CAPABILITIES
from tests.locks import ROOT


def lacks_of(driver: str) -> frozenset[str]:
    """The capabilities that a driver lacks, from its source: only its own environment can import it."""
    tree = ast.parse((ROOT / f"tests/conformance/drivers/{driver}.py").read_text(encoding="utf-8"))
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "LACKS" for target in targets):
            return frozenset(node.value for node in ast.walk(statement) if isinstance(node, ast.Constant))  # type: ignore[misc]  # texts
    raise ValueError(f"{driver}: expected LACKS, got none")


def table() -> str:
    """Capabilities down, drivers across; `no` is what a framework has no way for."""
    named = [driver for driver, adapter in drivers().items() if adapter != OWN]
    lines = ["| | " + " | ".join(named) + " |", "| --- |" + " --- |" * len(named)]
    for capability, text in CAPABILITIES.items():
        marks = ["no" if capability in lacks_of(driver) else "yes" for driver in named]
        lines.append(f"| {text} | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"
