"""The audit's commands: queries and how answers are shown, rows for other programs, proofs and care of the table."""

import csv
import io
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest
from arro3.io import read_parquet

from haltline.schemas.control import Feedback, Stage
from haltline.streams.audit.export import cef, post
from haltline.streams.audit.query import QueryFailed, literal, open_query, session_story
from haltline.streams.audit.reading import KafkaRecord
from haltline.streams.audit.table import DeltaAuditTable
from tests.builders import at
from tests.docs.pages import DOCS, fences_of
from tests.http_server import served
from tests.streams.audit import records
from tests.streams.audit.records import NOW_MS, record
from tests.streams.audit.tables import AT_7, READER, Audit
from tests.streams.commands import haltline
from tests.streams.replay.recorded import TOPICS, a_night, deletes, label_of

REPEAT = "destructive_repeat"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = a_night()
    kill, nudge = (next(d for d in log.decisions() if d.level.value == level) for level in ("KILL", "NUDGE"))
    stopped = Feedback(
        feedback_id="f", decision_id=kill.decision_id, session_id=kill.session_id, stage=Stage.STOPPED, time=at(200),
        decided_at=kill.decided_at,
    )  # fmt: skip
    log.now_ms = at(200)
    for _ in range(2):  # delivered twice
        log.send(TOPICS.feedback, key=stopped.session_id.encode(), value=stopped.to_json())
    labels = [(kill, "false_alarm"), (kill, "confirmed"), (nudge, "false_alarm"), (nudge, "false_alarm")]
    for number, (decision, label) in enumerate(labels):
        log.command(label_of(decision.session_id, label, decision.decision_id, second=300 + number))
    used = {"usage": {"cost_usd": 0.25, "input_tokens": 10}}
    ends = (one for one in deletes("spender", 400) if one.outcome is not None)
    log.events(one.model_validate(one.model_dump() | used) for one in ends)
    return log.audited(tmp_path_factory.mktemp("night") / "audit")


def run(table: Path, *arguments: str) -> tuple[int, str, str]:
    done = haltline("audit", *arguments, "--table", table)
    return done.exit_code, done.stdout, done.stderr


def answers(table: Path) -> dict[str, list[dict[str, Any]]]:
    """The answer to each query of the page, by its heading."""
    parts = (DOCS / "queries.md").read_text(encoding="utf-8").split("\n## ")[1:]
    queries = {part.partition("\n")[0]: sql for part in parts for language, sql in fences_of(part) if language == "sql"}
    assert len(queries) == len(parts) == 10
    found: dict[str, list[dict[str, Any]]] = {}
    for name, sql in queries.items():
        code, output, errors = run(table, "query", sql, "--json")
        assert code == 0, f"{name}: {errors}"
        found[name] = orjson.loads(output)
    return found


def test_the_ten_queries_of_the_page_count_what_they_are_about(table: Path) -> None:
    found = answers(table)
    (killed,) = [
        one for one in found["Which rules decided what"] if (one["detector"], one["level"]) == (REPEAT, "KILL")
    ]
    assert (killed["decisions"], killed["sessions"]) == (2, 2)
    targets = found["What findings were about"][:2]
    assert {one["target"]: one["findings"] for one in targets} == {"asset_id=night-1": 2, "asset_id=night-2": 2}
    (stops,) = found["How long a kill took to reach the agent"]  # each kill once
    assert (stops["kills"], stops["acknowledged"]) == (2, 1)
    assert stops["min_ms"] == stops["median_ms"] == stops["max_ms"] > 0
    spend = found["What each agent used and spent"][0]
    assert (spend["agent_id"], spend["cost_usd"], spend["input_tokens"]) == ("of spender", 0.25, 10)
    operators = found["Who of the operators did what"]
    assert [(one["by"], one["kind"], one["commands"]) for one in operators] == [("ada", "label", 4)]
    assert {one["level"]: one["sessions"] for one in found["Stops by day"]}["KILL"] == 2
    assert found["Who was stopped in the last hour"] == []


def test_a_long_story_is_shown_from_its_end(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("haltline.cli.operator.audit.query._STORY_SHOWN", 3)
    code, output, _ = run(table, "story", "night-1")
    assert (code, "the last 3 of " in output, "3 rows" in output) == (0, True, True), output
    assert len(orjson.loads(run(table, "story", "night-1", "--json")[1])) > 3
    code, _, errors = run(table, "story", "nobody")
    assert (code, "expected records of session 'nobody', got none" in errors) == (1, True), errors


def test_people_get_a_table_that_ends_also_of_no_rows_and_of_every_type(table: Path) -> None:
    code, output, result = run(table, "query", "SELECT event_id, kind FROM audit ORDER BY 1")
    assert (code, output.count("\n│ "), "200 rows" in output) == (0, 200, True)
    assert "these are the first 200 rows" in result
    code, output, result = run(table, "query", "SELECT DISTINCT topic FROM audit WHERE kind = 'decision'")
    assert (code, "1 row\n" in output, result) == (0, True, "")
    assert "these are the first 1 rows" in run(table, "query", "SELECT kind FROM audit", "--limit", "1")[2]
    long = "SELECT repeat('x', 500) AS long"  # a cell is cut for people only
    shown = run(table, "query", long)[1]
    assert (100 < shown.count("x") < 200, "\N{HORIZONTAL ELLIPSIS}" in shown) == (True, True)
    assert orjson.loads(run(table, "query", long, "--json")[1]) == [{"long": "x" * 500}]
    code, output, result = run(table, "query", "SELECT 1", "--json", "--csv")
    assert (code, output, "expected one of --json and --csv" in result) == (2, "", True)
    sql = "SELECT kind, level FROM audit WHERE false"
    assert run(table, "query", sql, "--csv")[:2] == (0, "kind,level\n")
    assert run(table, "query", sql, "--json")[:2] == (0, "[]\n")
    assert run(table, "query", sql)[:2] == (0, "0 rows\n")
    code, output, _ = run(table, "query", "SELECT * FROM audit WHERE level = 'KILL' AND session_id = 'night-1' LIMIT 1")
    assert (code, "\nlevel: KILL\n" in output, "\noutcome:" in output) == (0, True, False)
    sql = "SELECT make_array('a', 'b') AS l, timestamp - timestamp AS d, 1.5 AS x, NULL AS n FROM audit LIMIT 1"
    (row,) = orjson.loads(run(table, "query", sql, "--json")[1])
    assert (row["l"], row["d"], row["x"], row["n"]) == (["a", "b"], "0:00:00", 1.5, None)
    assert list(csv.reader(io.StringIO(run(table, "query", sql, "--csv")[1])))[1] == ['["a","b"]', "0:00:00", "1.5", ""]


WRONG = {
    "SELECT session_idd FROM audit": "expected a column such as session_id, got session_idd",
    "SELECT * FROM audits": "expected the table audit, got audits",
    "SELECT kind FRM audit": "got audit at line 1, column 17",
    "DROP TABLE audit": "expected SELECT or WITH or VALUES, got DROP",
    "SELECT CAST(kind AS int) FROM audit": "got: Cannot cast string '",
    "SELECT 'kind FROM audit": "got: Unterminated string literal at Line: 1",
}


@pytest.mark.parametrize("sql", WRONG)
def test_sql_that_does_not_hold_is_answered_with_what_was_expected_and_what_was_found(table: Path, sql: str) -> None:
    code, _, errors = run(table, "query", sql)
    assert (code, errors.count("\n"), sql in errors) == (2, 1, False), errors
    assert (WRONG[sql] in errors, errors.startswith("haltline: audit query: expected ")) == (True, True), errors


def test_a_store_that_does_not_answer_is_reported_in_one_line() -> None:
    options = "AWS_ENDPOINT_URL=http://127.0.0.1:1 AWS_ALLOW_HTTP=true AWS_REGION=x max_retries=0"
    given = f"AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=y {options}".split()
    arguments = [argument for one in given for argument in ("--storage-option", one)]
    done = haltline("audit", "query", "SELECT 1", "--table", "s3://none/audit", *arguments)
    expected = "haltline: audit table s3://none/audit: expected a table"
    assert (done.exit_code, done.stderr.startswith(expected)) == (2, True)


def write(table: Path, *kept: KafkaRecord) -> None:
    DeltaAuditTable(table).open().append([READER.row(each, NOW_MS) for each in kept], {"a": 0})


@pytest.fixture(scope="module")
def one_of_each(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that is only read."""
    table = tmp_path_factory.mktemp("one") / "audit"
    write(table, *records.one_of_each())
    return table


def test_a_session_by_any_name_is_found_and_a_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    names = ["it's", "' OR 1=1 --", '"; DROP TABLE audit', "\\' OR 1=1 --", "ünï\n\U0001f600"]
    events = [records.event(session_id=name).to_json() for name in names]
    write(tmp_path, *(record(TOPICS.actions, value, n, key=b"x") for n, value in enumerate(events)))
    assert [[row["session_id"] for row in session_story(tmp_path, name)] for name in names] == [[n] for n in names]
    with pytest.raises(ValueError, match="expected a time with its zone, got 2026-05-28 20:26:40"):
        literal(datetime(2026, 5, 28, 20, 26, 40))  # noqa: DTZ001  # that it has none is the point


@pytest.mark.parametrize(
    "sql",
    [
        "COPY audit TO '{folder}/stolen.parquet'",
        "/* SELECT */ EXPLAIN ANALYZE COPY audit TO '{folder}/stolen.parquet'",
        "CREATE EXTERNAL TABLE stolen STORED AS CSV LOCATION '/etc/hosts'",
        "SELECT 1; COPY audit TO '{folder}/stolen.parquet'",
        "DROP TABLE audit",
    ],
)
def test_a_question_can_only_read_the_table(one_of_each: Path, tmp_path: Path, sql: str) -> None:
    with pytest.raises(QueryFailed):
        open_query(one_of_each).rows(sql.format(folder=tmp_path))
    assert not (tmp_path / "stolen.parquet").exists()


def command(*arguments: object) -> tuple[int, bytes, str]:
    result = haltline("audit", *arguments)
    return result.exit_code, result.stdout_bytes, result.output


def test_json_and_csv_have_every_row_that_is_asked_for_and_cef_escapes_what_would_end_a_field(audit: Audit) -> None:
    code, result, _ = command("export", "--table", audit.uri, "--where", "session_id = 's1'")
    rows = [orjson.loads(line) for line in result.splitlines()]
    assert (code, len(rows), {row["session_id"] for row in rows}) == (0, 27, {"s1"})
    assert orjson.loads(rows[0]["raw"])["event_id"] == rows[0]["event_id"]
    code, result, _ = command("export", "--table", audit.uri, "--where", "session_id = 's1'", "--format", "csv")
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
    code, _, output = command("export", "--table", audit.uri, "--where", AT_7, "--out", some)
    assert (code, output.strip()) == (0, "1 rows")
    read = read_parquet(str(some)).read_all()
    assert (read.num_rows, read["offset"][0].as_py()) == (1, 7)
    nobody = ("export", "--table", audit.uri, "--where", "session_id = 'nobody'", "--out")
    for form in ("csv", "json", "cef", "parquet"):
        assert command(*nobody, tmp_path / f"none.{form}")[::2] == (0, "0 rows\n"), form
    read = read_parquet(str(tmp_path / "none.parquet")).read_all()
    assert (read.num_rows, read.schema.names[:3]) == (0, ["sink", "topic", "partition"])
    texts = [(tmp_path / f"none.{form}").read_text() for form in ("csv", "json", "cef")]
    assert [text.startswith("sink,topic,partition,") for text in texts] == [True, False, False]
    kept.write_text("of yesterday")
    assert command("export", "--table", audit.uri, "--where", "nonsense = 1", "--out", kept)[0] == 2
    assert (kept.read_text(), sorted(tmp_path.glob("*kills*"))) == ("of yesterday", [kept])
    (tmp_path / "elsewhere").symlink_to(kept)
    assert command("export", "--table", audit.uri, "--where", AT_7, "--out", tmp_path / "elsewhere")[0] == 0


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
        code, _, output = command("export", "--table", audit.uri, "--to", f"{url}/in")
    assert (code, "503" in output) == (2, True)


def test_the_commands_make_keys_prove_erase_and_find_what_was_done_behind_their_back(
    audit: Audit, tmp_path: Path
) -> None:
    key, public = tmp_path / "new.pem", tmp_path / "new.pem.pub"
    printed = orjson.loads(command("keygen", key, "--json")[1])
    assert printed == {"private_key": str(key), "public_key": str(public)}
    assert key.stat().st_mode & 0o077 == 0
    assert public.exists()
    assert command("keygen", key)[0] == 2
    mine = ["--table", audit.uri]
    code, _, output = command("verify", *mine, "--prefix", TOPICS.prefix, "--public-key", audit.public)
    assert (code, output.startswith("VERIFIED: 80 rows of 2 partitions")) == (0, True)
    code, _, output = command("verify", *mine, "--prefix", TOPICS.prefix)
    assert (code, output.startswith("INTACT, UNSIGNED: 80 rows")) == (0, True), "no key was given, so none is checked"
    kept = tmp_path / "kept.jsonl"
    printed = orjson.loads(command("witness", kept, *mine, "--json")[1])
    assert printed == {"file": str(kept), "checkpoints": len(kept.read_bytes().splitlines())}
    by = ["--by", "ada", "--reason", "request 12", "--signing-key", audit.key]
    code, _, output = command("erase", "--session", "s1", *by[:4], *mine)
    assert (code, "--signing-key" in output) == (2, True), output
    output = command("erase", "--session", "s1", *by, *mine)[2]
    assert "27 rows erased; run `haltline audit compact --vacuum-hours" in " ".join(output.split())
    assert command("erase", "--session", "s1", *by, *mine)[0] == 1
    printed = orjson.loads(command("erase", "--session", "s2", *by, *mine, "--json")[1])
    assert printed == {"session": "s2", "agent": None, "erased": 26}
    printed = orjson.loads(command("retain", 36_500, *by, *mine, "--json")[1])
    assert printed == {"days": 36_500, "deleted": 0}
    dry = orjson.loads(command("compact", *mine, "--vacuum-hours", 0, "--dry-run", "--json")[1])
    assert (dry["dry_run"], dry["merged"], dry["into"], dry["deleted"] > 0) == (True, 0, 0, True)
    assert command("erase", *by, *mine)[0] == 2
    assert command("compact", *mine, "--vacuum-hours", "0")[0] == 0
    code, result, _ = command(
        "verify", *mine, "--public-key", audit.public, "--witness", tmp_path / "kept.jsonl", "--json"
    )
    document = orjson.loads(result)
    assert (code, document["ok"], document["erased"]) == (0, True, 27 + 26)
    audit.table().delete(predicate=AT_7)
    code, _, output = command("verify", *mine)
    assert code == 1
    assert f"WRONG  {TOPICS.actions}[0] at offset 8: it was written behind offset 7" in output
    for line in (b'{"a":1}', b"[]", b"nothing"):
        (tmp_path / "kept.jsonl").write_bytes(line)
        code, _, output = command("verify", "--table", audit.uri, "--witness", tmp_path / "kept.jsonl")
        assert (code, "kept.jsonl, line 1: expected a checkpoint" in " ".join(output.split())) == (2, True), output
