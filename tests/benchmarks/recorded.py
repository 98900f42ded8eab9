"""Recorded traces in files, for the tests of what reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

Steps = list[dict[str, Any]]

T0 = "2025-06-01T10:{0:02d}:{1:02d}Z"


def deletes(times: int) -> Steps:
    """One asset, again and again."""
    return [{"action": "delete_asset", "args": {"asset_id": "fact_sales"}, "outcome": "ok"}] * times


def reads(times: int) -> Steps:
    """Another file each time, with another text."""
    texts = [" ".join(f"word{i}x{n}" for n in range(12)) for i in range(times)]
    return [
        {"action": "read_file", "args": {"path": f"/srv/{i}.py"}, "args_sha1": f"r{i}", "outcome": "ok",
         "obs_head": text, "obs_len": len(text), "obs_sha1": f"o{i}"}
        for i, text in enumerate(texts)
    ]  # fmt: skip


def alike(times: int) -> Steps:
    """The same call with the same result."""
    step = {"action": "look_up", "args": {"id": 1}, "args_sha1": "a", "outcome": "ok", "obs_sha1": "o", "obs_len": 3}
    return [step] * times


def write(folder: Path, sessions: Mapping[str, tuple[Steps, Mapping[str, Any]]]) -> Path:
    """A file of sessions with their labels beside it: by session id, its steps 6 s apart, and its labels."""
    rows = [
        {"session_id": session_id, "agent_id": "a", "seq": seq, "timestamp": T0.format(*divmod(seq * 6, 60)), **step}
        for session_id, (steps, _) in sessions.items()
        for seq, step in enumerate(steps)
    ]
    labels = [{"session_id": session_id, "labels": labels} for session_id, (_, labels) in sessions.items()]
    file = folder / "some.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (folder / "some.sessions.jsonl").write_bytes(b"\n".join(map(orjson.dumps, labels)))
    return file
