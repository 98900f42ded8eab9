"""Files that a session has created and can write again: their content was in its calls."""

import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from haltline.schemas import tools

_MAX_FILES: Final = 1024


class OwnFiles:
    """The files that the tools of one session have written whole, and that did not exist before. Thread safe."""

    def __init__(self) -> None:
        self.begun: OrderedDict[str, str] = OrderedDict()
        """By call id: the file that a call is about to create, or to change."""
        self._known: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """By path: size and time of the last change, as the session left them."""

    def begin(self, call_id: str, action: str, args: Mapping[str, Any], folder: str) -> None:
        """Note a proposed call, if it creates a file or changes one of these."""
        operation = tools.operation_of(action, args)
        if operation is None or not operation.edits:
            return
        name = next((args[name] for name in operation.paths if isinstance(args.get(name), str)), "")
        has_content = any(isinstance(args.get(name), str) for name in operation.content)
        if not name or not (has_content or self._known):
            return  # nearly always: the path, which takes system calls, is not needed
        path = os.path.realpath(os.path.join(folder, name))
        if (has_content and not os.path.lexists(path)) or self.has(path):
            self.begun[call_id] = path
            if len(self.begun) > _MAX_FILES:
                self.begun.popitem(last=False)

    def end(self, call_id: str) -> None:
        """Note the end of a call."""
        path = self.begun.pop(call_id, None)
        if path is not None and (state := _state(path)) is not None:
            self._known[path] = state
            if len(self._known) > _MAX_FILES:
                self._known.popitem(last=False)

    def has(self, path: str) -> bool:
        """Return whether a file is as the session left it."""
        known = self._known.get(os.path.realpath(path)) if self._known else None
        return known is not None and known == _state(path)


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
