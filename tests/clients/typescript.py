"""The npm package of `clients/typescript`, for tests: built by `make typescript`."""

import shutil
from pathlib import Path
from typing import Final

from tests.programs import missing

CLIENT: Final = Path(__file__).resolve().parents[2] / "clients" / "typescript"


def is_built() -> bool:
    """Return whether node and a build of these sources are available."""
    built = CLIENT / "dist" / "index.js"
    newest = max(file.stat().st_mtime for file in (CLIENT / "src").rglob("*.ts"))
    return shutil.which("node") is not None and built.is_file() and built.stat().st_mtime >= newest


def require_built() -> str:
    """The path of node."""
    node = shutil.which("node")
    if node is None or not is_built():
        missing("expected node and a build of clients/typescript, got none of these sources; make typescript")
    return node
