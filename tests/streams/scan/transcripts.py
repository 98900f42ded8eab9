"""Transcripts as Claude Code writes them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

MODEL = "claude-sonnet-4-5-20250929"
BEGAN = 1_760_000_000


class Transcript:
    """Lines of one session, a step every ten seconds."""

    def __init__(self, session_id: str = "11111111-2222-3333-4444-555555555555") -> None:
        self.session_id = session_id
        self.lines: list[dict[str, Any]] = []
        self.now = BEGAN

    def prompt(self, text: str) -> "Transcript":
        return self._add("user", {"role": "user", "content": text})

    def call(self, command: str, result: str, *, failed: bool = False, tokens: int = 1000) -> "Transcript":
        call_id = f"toolu_{len(self.lines)}"
        asked = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
        usage = {"input_tokens": tokens, "output_tokens": 100}
        message = {"id": f"msg_{call_id}", "role": "assistant", "model": MODEL, "content": [asked], "usage": usage}
        self._add("assistant", message)
        answered = {"type": "tool_result", "tool_use_id": call_id, "content": result, "is_error": failed}
        return self._add("user", {"role": "user", "content": [answered]})

    def later(self, seconds: int) -> "Transcript":
        self.now += seconds
        return self

    def write(self, file: Path) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in self.lines))
        return file

    def _add(self, kind: str, message: dict[str, Any]) -> "Transcript":
        self.now += 10
        time = datetime.fromtimestamp(self.now, UTC).isoformat().replace("+00:00", "Z")
        self.lines.append({"type": kind, "sessionId": self.session_id, "timestamp": time, "message": message})
        return self


def stuck(times: int = 12, what: str = "shop") -> Transcript:
    """The same folder removed again and again, in vain: the third time is a kill."""
    return remove(Transcript().prompt("mend the build"), times, what)


def remove(transcript: Transcript, times: int = 12, what: str = "shop") -> Transcript:
    """Go on with such calls."""
    for _ in range(times):
        transcript.call(f"rm -rf /srv/{what}/data", "rm: cannot remove 'data': Device or resource busy", failed=True)
    return transcript
