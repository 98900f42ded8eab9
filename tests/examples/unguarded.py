"""An example as it would be without haltline: what `haltline init` is given in the tests."""

import ast
from typing import Any


def unguarded(text: str) -> str:
    """The program without what is haltline's. Comments are gone with it."""
    tree = _Without().visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _is_ours(node: ast.AST) -> bool:
    """Return whether it names the guard, or an object that an adapter made from it."""
    return any(isinstance(one, ast.Name) and one.id in {"guard", "adapter"} for one in ast.walk(node))


class _Without(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        return None if (node.module or "").partition(".")[0] == "haltline" else node

    def visit_With(self, node: ast.With | ast.AsyncWith) -> Any:
        self.generic_visit(node)
        first = node.items[0].context_expr
        is_ours = isinstance(first, ast.Call) and isinstance(first.func, ast.Name)
        return node.body if is_ours and first.func.id in {"Guard", "guarded"} else node  # type: ignore[attr-defined]  # as above

    visit_AsyncWith = visit_With  # noqa: N815 - the name that ast looks for

    def visit_Try(self, node: ast.Try) -> Any:  # its handlers say that it was stopped
        self.generic_visit(node)
        return node.body

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        return None if _is_ours(node.test) else node

    def visit_Assign(self, node: ast.Assign) -> Any:
        is_ours = _is_ours(node.targets[0])
        self.generic_visit(node)
        return None if is_ours else node

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "guarded":
            return node.args[0]
        if name == "register" and isinstance(node.func, ast.Attribute):
            return node.func.value
        node.keywords = [one for one in node.keywords if not _is_ours(one.value)]
        return node
