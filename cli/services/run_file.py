"""The file by which commands find what `haltline up` runs: in the form of haltline.toml, below it in rank."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import orjson


class RunFile(AbstractContextManager["RunFile", None]):
    """`up.toml` in the data folder. After the end only the audit table is left in it: nothing else is there then."""

    def __init__(self, file: Path) -> None:
        self.file = file.absolute()
        self._table = ""

    def write(self, bootstrap: str, prefix: str, table: str, urls: Mapping[str, str]) -> None:
        """Says where everything is; `urls` are those of `worker`, `sink` and `console`, as `haltline doctor` wants."""
        self._table = table
        looks = {name: urls[name] for name in ("worker", "sink", "console") if urls.get(name)}
        self._put({"kafka": {"bootstrap": bootstrap, "prefix": prefix}, "audit": {"table": table}, "doctor": looks})

    def __exit__(self, *_: object) -> None:
        if self._table:
            self._put({"audit": {"table": self._table}})

    def _put(self, sections: Mapping[str, Mapping[str, str]]) -> None:
        lines = ["# Written by `haltline up`; haltline.toml is above it."]
        for section, values in sections.items():
            lines += ["", f"[{section}]", *(f"{key} = {orjson.dumps(value).decode()}" for key, value in values.items())]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        new = self.file.with_name(f"{self.file.name}.new")
        new.touch(mode=0o600)
        new.write_text("\n".join([*lines, ""]), encoding="utf-8")
        new.replace(self.file)
