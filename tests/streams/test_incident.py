"""One session in one file: complete, provable and replayable; and labels by rule."""

import shutil
import zipfile
from hashlib import sha256
from pathlib import Path

import orjson
import pytest

from haltline.cli.common import Exit
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent
from haltline.schemas.keys import make_keys
from haltline.schemas.policy import Policy
from haltline.streams.audit.chain import record_digest
from haltline.streams.audit.maintenance import Caretaker
from haltline.streams.audit.query import open_query
from haltline.streams.audit.signing import load_signer
from haltline.streams.incident.bundle import MANIFEST, BadBundle, read_bundle
from haltline.streams.incident.proof import prove
from tests.builders import at, call, cases
from tests.streams.commands import haltline, said
from tests.streams.learning.recorded import LabelledLog
from tests.streams.replay.recorded import LiveLog, a_night, deletes


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    private = tmp_path_factory.mktemp("keys") / "audit.pem"
    make_keys(private)
    return private


@pytest.fixture(scope="module")
def table(key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_night().audited(tmp_path_factory.mktemp("night") / "audit", load_signer(key))


@pytest.fixture(scope="module")
def made(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bundles") / "night-1.zip"
    code, output = said("incident", "night-1", "--out", out, "--table", table)
    assert code == 0, output
    return out


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copy(made, tmp_path / "copy.zip"))


def change(bundle: Path, name: str, old: bytes, new: bytes, *, honest: bool = True) -> None:
    """Changes a file in a bundle; an honest forger corrects the manifest too."""
    with zipfile.ZipFile(bundle) as found:
        files = {entry: found.read(entry) for entry in found.namelist()}
    assert old in files[name]
    files[name] = files[name].replace(old, new)
    if honest:
        manifest = orjson.loads(files[MANIFEST])
        manifest["files"][name] = sha256(files[name]).hexdigest()
        files[MANIFEST] = orjson.dumps(manifest)
    with zipfile.ZipFile(bundle, "w") as out:
        for entry, data in files.items():
            out.writestr(entry, data)


def test_a_bundle_decides_the_same_again_bit_for_bit_without_the_table_and_not_under_another_policy(
    bundle: Path, key: Path, tmp_path: Path
) -> None:
    code, output = said("replay", bundle, "--public-key", f"{key}.pub", "--json")
    document = orjson.loads(output)
    assert code == 0, output
    assert document["same"] == document["recorded"] == document["replayed"] > 2
    assert (document["reworded"], document["proof"]["problems"], document["proof"]["unsigned"]) == (0, [], 0)
    assert document["proof"]["signed"] > 0
    (tmp_path / "soft.yaml").write_text("rules: {destructive_repeat: {levels: {low: PAUSE}}}")
    code, output = said("replay", bundle, "--policy", tmp_path / "soft.yaml")
    assert (code, "first divergence: session night-1" in output) == (1, True)
    change(bundle, "events.jsonl", b"delete_asset", b"create_asset", honest=False)
    code, output = said("replay", bundle)
    assert (code, "events.jsonl: expected SHA-256" in output) == (1, True)
    with pytest.raises(BadBundle, match=r"events\.jsonl"):
        read_bundle(bundle)


def test_the_report_is_a_page_by_itself_that_shows_text_as_text(tmp_path: Path) -> None:
    script = {"targets": ["<script>alert(1)</script>"]}
    events = [one.model_copy(update=script if one.targets else {}) for one in deletes("s", 0, 6, 12)]
    audit = LiveLog().events(events).audited(tmp_path / "audit")
    assert said("incident", "s", "--out", tmp_path / "s.zip", "--table", audit)[0] == 0
    page = read_bundle(tmp_path / "s.zip").files["report.html"].decode()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "session_killed_loop_guard" in page


@cases(
    "name, old, new, text",
    {
        "what was done": ("events.jsonl", b"delete_asset", b"create_asset", "is not the record"),
        "what was decided": ("decisions.jsonl", b"KILL", b"NUDGE", "is not the record"),
        "a digest": ("proof.jsonl", b'"record_digest":"', b'"record_digest":"0', "does not follow"),
        "a statement": ("checkpoints.jsonl", b'"chain_hash":"', b'"chain_hash":"0', "another hash"),
        "when it was signed": ("checkpoints.jsonl", b'"time_ms":', b'"time_ms":1', "not signed with"),
    },
)
def test_a_forger_who_corrects_the_manifest_is_found_by_the_chain(
    bundle: Path, key: Path, name: str, old: bytes, new: bytes, text: str
) -> None:
    change(bundle, name, old, new)
    code, output = said("replay", bundle, "--public-key", f"{key}.pub")
    assert (code, text in output) == (1, True), output


def lines(bundle: Path, name: str) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in read_bundle(bundle).files[name].splitlines()]


def prove_again(bundle: Path, links: list[dict[str, object]], rows: list[dict[str, object]]) -> list[str]:
    return prove(links, lines(bundle, "checkpoints.jsonl"), rows).problems


def test_a_bundle_that_was_forged_at_one_place_is_not_proved(bundle: Path) -> None:
    links, rows = lines(bundle, "proof.jsonl"), list(read_bundle(bundle).rows())
    assert prove_again(bundle, links, rows) == []
    place = ("topic", "partition", "offset")
    at = next(n for n, link in enumerate(links) if all(link[name] == rows[3][name] for name in place))
    links[at]["kind"] = "erased"
    (problem,) = prove_again(bundle, links, rows)
    assert "its content was erased, and here it is" in problem
    (problem,) = prove_again(bundle, lines(bundle, "proof.jsonl"), [*rows, rows[2]])
    assert "it comes twice" in problem
    links, rows = lines(bundle, "proof.jsonl"), list(read_bundle(bundle).rows())
    for row in rows:
        part = [link for link in links if (link["topic"], link["partition"]) == (row["topic"], row["partition"])]
        (own,) = (link for link in part if link["offset"] == row["offset"])
        forged = {**row, "headers": '[["x","y"]]'}
        changed = [{**link, "record_digest": record_digest(forged)} if link is own else link for link in links]
        assert prove_again(bundle, changed, [forged if one is row else one for one in rows])
    without = [link for link in links if link["prev_offset"] is not None]
    assert any("nothing proves it" in p or "in no chain" in p for p in prove_again(bundle, without, rows))


def test_a_session_behind_rows_that_were_dropped_is_proved(key: Path, tmp_path: Path) -> None:
    days = 10 * 86_400
    log = LiveLog().events(deletes("s-old", 0, 6)).events(deletes("s-new", days, days + 6, days + 12))
    table = log.audited(tmp_path / "audit", load_signer(key))
    (last,) = open_query(table).rows("SELECT max(event_date) AS day FROM audit WHERE session_id = 's-new'")
    care = Caretaker(table, by="ada", reason="policy 7", signer=load_signer(key))
    assert care.retain(5, today=last["day"]) > 0
    code, output = said("incident", "s-new", "--out", tmp_path / "s.zip", "--table", table)
    assert code == 0, output


def test_a_kill_by_an_operator_is_an_incident_too(tmp_path: Path) -> None:
    log = LiveLog().events(deletes("s", 0))
    log.command(Command(command_id="k", kind=CommandKind.KILL, id="s", by="ada", reason="not tonight", time=at(9)))
    audit = log.audited(tmp_path / "audit")
    code, output = said("incident", "nobody", "--out", tmp_path / "n.zip", "--table", audit)
    assert (code, "expected records of session 'nobody'" in output) == (1, True)
    assert not (tmp_path / "n.zip").exists()
    code, output = said("incident", "s", "--out", tmp_path / "s.zip", "--table", audit, "--json")
    assert (code, orjson.loads(output)["replay"]["same"] > 0) == (0, True), output
    found = read_bundle(tmp_path / "s.zip")
    assert found.manifest["stopped_by"] is not None
    assert b"not tonight" in found.files["report.html"]


def test_a_policy_from_a_file_has_to_be_given_and_is_in_the_bundle(tmp_path: Path) -> None:
    text = "name: own\nversion: 3\nrules: {destructive_repeat: {levels: {low: PAUSE}}}"
    (tmp_path / "own.yaml").write_text(text)
    rules = {"destructive_repeat": {"levels": {"low": "PAUSE"}}}
    policy = Policy.model_validate({"name": "own", "version": 3, "rules": rules})
    audit = LiveLog(policy).events(deletes("s", 0, 6, 12)).audited(tmp_path / "audit")
    code, output = said("incident", "s", "--out", tmp_path / "s.zip", "--table", audit)
    assert (code, "give it with --policy" in output) == (2, True)
    with_policy = ("--policy", tmp_path / "own.yaml")
    code, output = said("incident", "s", "--out", tmp_path / "s.zip", "--table", audit, *with_policy)
    assert code == 0, output
    code, output = said("replay", tmp_path / "s.zip")
    assert (code, read_bundle(tmp_path / "s.zip").json("policy.json")["name"]) == (0, "own"), output


def test_a_bundle_of_another_release_that_decides_otherwise_says_so(bundle: Path) -> None:
    made = read_bundle(bundle).manifest["haltline"].encode()
    change(bundle, "decisions.jsonl", b"KILL", b"NUDGE")
    change(bundle, MANIFEST, b'"haltline":"' + made, b'"haltline":"0.0.1', honest=False)
    code, output = said("replay", bundle)
    assert (code, "made by haltline 0.0.1, this is " in output) == (1, True), output


def test_the_report_has_no_outputs(tmp_path: Path) -> None:
    looks = [one for number in range(3) for one in call(number, "look_up", f"asset_id=a{number}", session="s1")]
    looks = [one.model_copy(update={"output_head": "hunter2"}) for one in looks]
    audit = LiveLog().events([*looks, *deletes("s1", 6, 12, 18)]).audited(tmp_path / "audit")
    code, output = said("incident", "s1", "--out", tmp_path / "s1.zip", "--table", audit)
    assert code == Exit.OK, output
    page = read_bundle(tmp_path / "s1.zip").files["report.html"].decode()
    assert ("hunter2" in page, "Keep the agent stopped" in page) == (False, True)


def failing(session: str, times: int) -> list[ActionEvent]:
    """One error again and again."""
    error = "ModuleNotFoundError: No module named 'x'"
    calls = (call(10 * number, "run_tests", f"module=m{number}", error, session=session) for number in range(times))
    return [event for pair in calls for event in pair]


def test_labels_are_counted_by_rule_and_the_last_one_of_a_decision_counts(tmp_path: Path) -> None:
    third = {"settings": {"medium": 3, "high": 4, "critical": 5}, "levels": {"medium": "PAUSE"}}
    log = LabelledLog(Policy.model_validate({"rules": {"error_repetition": third}}))
    for session, times, label in (("bad", 12, "confirmed"), ("good-1", 3, "false_alarm"), ("good-2", 3, "false_alarm")):
        log.run(failing(session, times))
        first = next(one for one in log.decisions(session) if one.level >= Level.PAUSE)
        log.label(session, "confirmed", first)
        log.label(session, label, first)
    log.run(failing("quiet", 2))
    log.label("quiet", "missed", rule="hallucination")
    table = log.log.audited(tmp_path / "audit")
    done = haltline("audit", "labels", "--table", table, "--json")
    counts = [(one["rule"], *list(one.values())[1:]) for one in orjson.loads(done.stdout)["rules"]]
    assert counts == [("error_repetition", 1, 2, 0, 0.3333, 1.0), ("hallucination", 0, 0, 1, None, 0.0)]
    empty = LiveLog().events(deletes("s", 0)).audited(tmp_path / "empty")
    assert haltline("audit", "labels", "--table", empty).exit_code == Exit.NO
