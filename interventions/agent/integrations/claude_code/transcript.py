"""The transcript of a Claude Code session, as far as it has been written.

Claude Code writes it asynchronously: when a hook runs, the lines before it may be missing in whole or in part, and in a
session's first turn the file may not exist. Measured with 2.1.330 on two busy cores, a line is up to a second late.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from haltline.interventions.agent.integrations.claude_code.messages import ToolUse, Turn, Turns, ends_turn, tools_of
from haltline.interventions.agent.producers.any_json import parsed
from haltline.interventions.agent.user_files import open_file

WRITTEN_WITHIN_S: Final = 5.0
_POLL_S: Final = 0.05
_READ_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
_REMEMBERED_BYTES: Final = 2 * 1024 * 1024  # more than a model's context; read in about a second


def results_in(path: Path) -> Iterator[tuple[ToolUse, Any]]:
    """Yield the calls in the last `_REMEMBERED_BYTES` of a transcript, each with its result. Raises OSError."""
    calls: dict[str, ToolUse] = {}
    with open_file(path) as file:
        file.seek(max(0, path.stat().st_size - _REMEMBERED_BYTES))
        for line in file.read(_REMEMBERED_BYTES).split(b"\n"):
            try:
                fields = parsed(line)
            except ValueError:  # the first one may be incomplete
                continue
            for one in tools_of(fields) if isinstance(fields, Mapping) else ():
                if isinstance(one, ToolUse):
                    calls[one.call_id] = one
                else:
                    yield calls.pop(one.call_id, ToolUse(one.call_id, "", {})), one.content


class Transcript:
    """Reads the messages of the model in new lines of the transcript."""

    def __init__(
        self, path: Path, *, subagent: bool, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._path = path
        self._subagent = subagent
        self._sleep = sleep
        self._turns = Turns()
        # Existing lines were published by another process, or precede haltline.
        self._at = path.stat().st_size if path.is_file() and not subagent else 0
        self._reading = asyncio.Lock()
        self._given_up = False
        """The last wait ended without an answer, and nothing was written since."""
        self.is_expected = False
        """A hook has reported a call, and so a message of the model."""
        self._has_turn = False
        """A message of the model was read since `end`."""
        self._is_answered = False
        """The last message that was read ends the turn."""

    def lacks_turn(self, *, for_answer: bool) -> bool:
        """Return whether the model's answer is missing, or any message of it though a hook has reported one."""
        return not self._is_answered if for_answer else self.is_expected and not self._has_turn

    async def read(self) -> list[Turn]:
        """Return complete messages: those followed by another one. A slow disk does not hold up other sessions."""
        async with self._reading:
            lines = await asyncio.to_thread(self._lines)
            return [turn for line in lines if (turn := self._add(line)) is not None]

    async def wait(self, *, for_answer: bool) -> list[Turn]:
        """Read until nothing is missing, for WRITTEN_WITHIN_S at most. Returns what `read` does.

        After a wait without an answer it reads only once until something is written, as there may be none.
        """
        turns, left_s = await self.read(), 0.0 if self._given_up else WRITTEN_WITHIN_S
        while self.lacks_turn(for_answer=for_answer):
            if left_s <= 0:
                self._given_up = True
                break
            await self._sleep(_POLL_S)
            left_s -= _POLL_S
            turns += await self.read()
        return turns

    def end(self) -> Turn | None:
        """End the turn. Returns the last message."""
        self.is_expected = self._has_turn = self._is_answered = False
        return self._turns.rest()

    def _lines(self) -> list[bytes]:
        """Return complete lines, a bounded number of bytes at once. A longer line is skipped."""
        try:
            with open_file(self._path) as file:
                file.seek(self._at)
                read = file.read(_READ_AT_ONCE_BYTES)
        except OSError:  # moved, removed, not created yet, or no regular file
            return []
        whole = read.rfind(b"\n") + 1 or (len(read) if len(read) == _READ_AT_ONCE_BYTES else 0)
        self._at += whole
        self._given_up &= not whole
        return read[:whole].split(b"\n")

    def _add(self, line: bytes) -> Turn | None:
        try:
            fields = parsed(line)
        except ValueError:
            return None
        # Lines of a subagent do not count in an agent's transcript.
        if not isinstance(fields, Mapping) or bool(fields.get("isSidechain")) > self._subagent:
            return None
        self._note(fields)
        return self._turns.add(fields)

    def _note(self, fields: Mapping[str, Any]) -> None:
        if fields.get("type") == "assistant":
            self._has_turn = True
            self._is_answered = ends_turn(fields)
