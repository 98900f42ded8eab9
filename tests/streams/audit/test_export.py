"""The audit for other programs, and the commands that prove and care for it."""

import csv
import io
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import orjson
import pytest
from arro3.io import read_parquet

from haltline.streams.audit.export import cef, post
from tests.http_server import served
from tests.streams.audit.records import TOPICS
from tests.streams.audit.tables import AT_7, Audit
from tests.streams.commands import haltline


def run(*arguments: object) -> tuple[int, bytes, str]:
    result = haltline("audit", *arguments)
    return result.exit_code, result.stdout_bytes, result.output


def test_json_and_csv_have_every_row_that_is_asked_for_and_cef_escapes_what_would_end_a_field(audit: Audit) -> None:
    code, result, _ = run("export", "--table", audit.uri, "--where", "session_id = 's1'")
    rows = [orjson.loads(line) for line in result.splitlines()]
    assert (code, len(rows), {row["session_id"] for row in rows}) == (0, 27, {"s1"})
    assert orjson.loads(rows[0]["raw"])["event_id"] == rows[0]["event_id"]
    code, result, _ = run("export", "--table", audit.uri, "--where", "session_id = 's1'", "--format", "csv")
    table = list(csv.DictReader(io.StringIO(result.decode())))
    assert [row["event_id"] for row in table] == [row["event_id"] for row in rows]
    row = {"kind": "decision", "code": "a|b", "severity": "critical", "session_id": "s=1", "level": "KILL"}
    line = cef(row | {"summary": "one\ntwo\\"})
    assert line.startswith("CEF:0|haltline|haltline|1|decision|a\\|b|10|")
    assert "cs1=s\\=1" in line
    assert line.endswith("msg=one\\ntwo\\\\")


def test_files_are_those_that_other_programs_read_also_of_no_rows_and_stay_where_an_export_fails(
    audit: Audit, tmp_path: Path
) -> None:
    some, kept = tmp_path / "some.parquet", tmp_path / "kills.csv"
    code, _, output = run("export", "--table", audit.uri, "--where", AT_7, "--out", some)
    assert (code, output.strip()) == (0, "1 rows")
    read = read_parquet(str(some)).read_all()
    assert (read.num_rows, read["offset"][0].as_py()) == (1, 7)
    nobody = ("export", "--table", audit.uri, "--where", "session_id = 'nobody'", "--out")
    for form in ("csv", "json", "cef", "parquet"):
        assert run(*nobody, tmp_path / f"none.{form}")[::2] == (0, "0 rows\n"), form
    read = read_parquet(str(tmp_path / "none.parquet")).read_all()
    assert (read.num_rows, read.schema.names[:3]) == (0, ["sink", "topic", "partition"])
    texts = [(tmp_path / f"none.{form}").read_text() for form in ("csv", "json", "cef")]
    assert [text.startswith("sink,topic,partition,") for text in texts] == [True, False, False]
    kept.write_text("of yesterday")
    assert run("export", "--table", audit.uri, "--where", "nonsense = 1", "--out", kept)[0] == 2
    assert (kept.read_text(), sorted(tmp_path.glob("*kills*"))) == ("of yesterday", [kept])
    (tmp_path / "elsewhere").symlink_to(kept)
    assert run("export", "--table", audit.uri, "--where", AT_7, "--out", tmp_path / "elsewhere")[0] == 0


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_condition_that_does_not_hold_is_answered_in_one_line(audit: Audit, form: str) -> None:
    for where, text in (
        ("session = 1", "expected a column such as session_id, got session"),
        ("session_id = ", "expected an expression, got )"),
        ("CAST(session_id AS int) = 1", "got: Cannot cast string 's"),  # found while it is read
    ):
        done = haltline("audit", "export", "--table", audit.uri, "--where", where, "--format", form)
        errors = done.stderr
        assert (done.exit_code, text in errors, errors.count("\n")) == (2, True, 1), errors
        assert errors.startswith(f"haltline: audit export: --where {where!r}: expected "), errors


class Siem(BaseHTTPRequestHandler):
    bodies: ClassVar[list[bytes]] = []
    status = 200

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.status)
        self.end_headers()


def test_rows_are_posted_in_parts_and_a_refusal_is_an_error(audit: Audit) -> None:
    with served(Siem) as url:
        assert post(({"n": n} for n in range(1200)), f"{url}/in") == 1200
        assert [len(orjson.loads(body)) for body in Siem.bodies] == [500, 500, 200]
        Siem.status = 503
        code, _, output = run("export", "--table", audit.uri, "--to", f"{url}/in")
    assert (code, "503" in output) == (2, True)


def test_the_commands_make_keys_prove_erase_and_find_what_was_done_behind_their_back(
    audit: Audit, tmp_path: Path
) -> None:
    key, public = tmp_path / "new.pem", tmp_path / "new.pem.pub"
    printed = orjson.loads(run("keygen", key, "--json")[1])
    assert printed == {"private_key": str(key), "public_key": str(public)}
    assert key.stat().st_mode & 0o077 == 0
    assert public.exists()
    assert run("keygen", key)[0] == 2
    mine = ["--table", audit.uri]
    code, _, output = run("verify", *mine, "--prefix", TOPICS.prefix, "--public-key", audit.public)
    assert (code, output.startswith("VERIFIED: 80 rows of 2 partitions")) == (0, True)
    code, _, output = run("verify", *mine, "--prefix", TOPICS.prefix)
    assert (code, output.startswith("INTACT, UNSIGNED: 80 rows")) == (0, True), "no key was given, so none is checked"
    kept = tmp_path / "kept.jsonl"
    printed = orjson.loads(run("witness", kept, *mine, "--json")[1])
    assert printed == {"file": str(kept), "checkpoints": len(kept.read_bytes().splitlines())}
    by = ["--by", "ada", "--reason", "request 12", "--signing-key", audit.key]
    code, _, output = run("erase", "--session", "s1", *by[:4], *mine)
    assert (code, "--signing-key" in output) == (2, True), output
    output = run("erase", "--session", "s1", *by, *mine)[2]
    assert "27 rows erased; run `haltline audit compact --vacuum-hours" in " ".join(output.split())
    assert run("erase", "--session", "s1", *by, *mine)[0] == 1
    printed = orjson.loads(run("erase", "--session", "s2", *by, *mine, "--json")[1])
    assert printed == {"session": "s2", "agent": None, "erased": 26}
    printed = orjson.loads(run("retain", 36_500, *by, *mine, "--json")[1])
    assert printed == {"days": 36_500, "deleted": 0}
    dry = orjson.loads(run("compact", *mine, "--vacuum-hours", 0, "--dry-run", "--json")[1])
    assert (dry["dry_run"], dry["merged"], dry["into"], dry["deleted"] > 0) == (True, 0, 0, True)
    assert run("erase", *by, *mine)[0] == 2
    assert run("compact", *mine, "--vacuum-hours", "0")[0] == 0
    code, result, _ = run("verify", *mine, "--public-key", audit.public, "--witness", tmp_path / "kept.jsonl", "--json")
    document = orjson.loads(result)
    assert (code, document["ok"], document["erased"]) == (0, True, 27 + 26)
    audit.table().delete(predicate=AT_7)
    code, _, output = run("verify", *mine)
    assert code == 1
    assert f"WRONG  {TOPICS.actions}[0] at offset 8: it was written behind offset 7" in output
    for line in (b'{"a":1}', b"[]", b"nothing"):
        (tmp_path / "kept.jsonl").write_bytes(line)
        code, _, output = run("verify", "--table", audit.uri, "--witness", tmp_path / "kept.jsonl")
        assert (code, "kept.jsonl, line 1: expected a checkpoint" in " ".join(output.split())) == (2, True), output
