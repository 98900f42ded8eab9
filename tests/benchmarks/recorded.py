"""Recorded traces in files, for the tests of what reads them."""

import gzip
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
    """Another file each time."""
    return [
        {"action": "read_file", "args": {"path": f"/srv/{i}.py"}, "args_sha1": f"r{i}", "outcome": "ok"}
        for i in range(times)
    ]


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


def verdict(
    grade: str | None, *, begins: int | None = None, signal: int | None = None, pattern: str | None = None
) -> Mapping[str, Any]:
    """A judge's label: a runaway of grade `stop` or `nudge`, or else `sound` or `unclear`."""
    runaway = grade in {"stop", "nudge"}
    return {
        "verdict": "runaway" if runaway else grade, "grade": grade if runaway else None, "class": pattern,
        "begins_seq": begins, "signal_seq": signal,
    }  # fmt: skip


def write_judged(
    shared: Path, sessions: Mapping[str, tuple[Steps, Mapping[str, Any]]], verdicts: Mapping[str, Mapping[str, Any]]
) -> Path:
    """A folder of judged sessions, as it is beside the repository."""
    folder = shared / "judged"
    folder.mkdir(parents=True)
    plain = write(folder, sessions)
    for file in (plain, plain.with_name("some.sessions.jsonl")):
        packed = file.name.replace("some", "more") + ".gz"
        (folder / packed).write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    rows = [{"session_id": session_id, **verdict} for session_id, verdict in verdicts.items()]
    (folder / "verdicts.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    return folder
