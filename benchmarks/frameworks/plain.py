"""A driver of the conformance tests without its adapter: the same agent, the same scripted model, and no guard."""

import ast
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_OURS = frozenset({"guard", "haltline", "adapter", "middleware"})
"""The names in drivers for the guard, and for objects that an adapter creates from it."""


def plain_driver(file: Path) -> ModuleType:
    """The driver in this file without its adapter. Raises ValueError if it has none."""
    tree = without_adapter(file)
    module = ModuleType(f"plain_{file.stem}")
    sys.modules[module.__name__] = module  # frameworks look up the annotations of classes there
    exec(compile(tree, str(file), "exec"), vars(module))
    return module


def without_adapter(file: Path) -> ast.Module:
    """The driver's syntax tree without its adapter. Raises ValueError if it has none."""
    without = _Without()
    tree: ast.Module = ast.fix_missing_locations(without.visit(ast.parse(file.read_text(encoding="utf-8"))))
    if not without.count:
        raise ValueError(f"{file.name}: expected an adapter in the driver, got none")
    return tree


class _Without(ast.NodeTransformer):
    """Removes `guarded(x, guard)`, `guarded(guard)` in a `with`, `.register(...)` and arguments that name the guard."""

    def __init__(self) -> None:
        self.count = 0

    def visit_With(self, node: ast.With) -> Any:
        self.generic_visit(node)
        kept = [item for item in node.items if not _makes_guarded(item.context_expr)]
        self.count += len(node.items) - len(kept)
        node.items = kept
        return node if kept else node.body

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "guarded" and node.args and not _is_guard(node.args[0]):
            self.count += 1
            return node.args[0]
        if name == "register" and isinstance(node.func, ast.Attribute) and any(map(_is_guard, node.args)):
            self.count += 1
            return node.func.value
        kept = [one for one in node.keywords if not _is_guard(one.value)]
        self.count += len(node.keywords) - len(kept)
        node.keywords = kept
        return node


def _makes_guarded(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "guarded"


def _is_guard(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Name) and one.id in _OURS for one in ast.walk(node))
