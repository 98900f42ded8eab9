"""One session in one file: complete, provable and replayable; and the audit's reports on interventions."""

import shutil
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from haltline.cli.common import Exit
from haltline.schemas.control import Command, CommandKind
from haltline.schemas.decisions import Level
from haltline.schemas.events import ActionEvent, Kind
from haltline.schemas.keys import make_keys
from haltline.schemas.policy import Policy
from haltline.streams.audit.chain import record_digest
from haltline.streams.audit.maintenance import Caretaker
from haltline.streams.audit.query import open_query
from haltline.streams.audit.signing import load_signer
from haltline.streams.incident.bundle import MANIFEST, BadBundle, read_bundle
from haltline.streams.incident.proof import prove
from tests.builders import at, call, cases, event
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


OTHERS = ("spend_velocity", "budget", "step_review")
PRICES = {"prices": [{"action": "delete_*", "usd": 3}]}
PRICED = Policy.model_validate({"rules": {rule: {"enabled": False} for rule in OTHERS}, "interventions": PRICES})


class Table(LabelledLog):
    """The audit table of a log in which each decision is delivered twice, as may be."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        super().__init__(policy)
        self.uri = folder / "audit"

    def write(self) -> "Table":
        for one in list(self.log.decided()):
            self.log.send(one.topic, key=one.key, value=one.value)
        self.log.audited(self.uri)
        return self

    def ask(self, *arguments: str) -> tuple[int, str]:
        done = haltline("audit", *arguments, "--table", self.uri)
        return done.exit_code, done.stdout

    def json(self, *arguments: str) -> Any:
        code, result = self.ask(*arguments, "--json")
        assert code == Exit.OK, result
        return orjson.loads(result)


def looks_and_deletes(
    session: str = "s1", count: int = 6, *, usage: dict[str, float] | None = None
) -> list[ActionEvent]:
    """Sixty looks, then one table deleted again and again."""
    goal = {"goal": "Tidy the catalogue"}
    events = [event(0, "", session=session, kind=Kind.SESSION_STARTED, outcome=None, task=goal)]
    for number in range(60):
        looked: dict[str, Any] = {"usage": usage, "output_head": "hunter2"}
        events += call(1 + number, "look_up", f"asset_id=a{number}", session=session, **looked)
    args = {"id": "fact_sales"}
    for number in range(count):
        deleted = call(100 + 6 * number, "delete_asset", "asset_id=fact_sales", session=session, args=args)
        events += deleted if number < 2 else deleted[:1]
    return events


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Table:
    table = Table(tmp_path_factory.mktemp("stopped"), PRICED)
    table.run(looks_and_deletes(usage={"input_tokens": 100, "cost_usd": 0.5}))
    return table.write()


def test_records_are_found_and_what_was_prevented_is_counted_once(stopped: Table) -> None:
    assert stopped.json("interventions", "--type", "warning")["total"] == 1
    assert stopped.json("interventions", "--outcome", "blocked", "--limit", "2")["skip"] == 2
    assert stopped.ask("interventions", "--type", "pii_blocked")[0] == Exit.NO
    assert stopped.json("interventions", "--rule", "killed")["total"] == 3
    assert stopped.json("interventions", "--action", "delete_asset", "--since", "2025-06-15")["total"] == 5
    for nothing in (("--session", "nobody"), ("--action", "look_up"), ("--until", "2025-06-15"), ("--agent", "nobody")):
        assert stopped.ask("interventions", *nothing)[0] == Exit.NO
    stats = stopped.json("interventions", "--stats")
    (advice,) = stats.pop("advice")
    assert (advice["rule"], advice["hints"], advice["stopped"]) == ("destructive_repeat", 1, 1)
    assert stats == {
        "total_interventions": 5,
        "by_type": {"warning": 1, "loop_detected": 4},
        "by_outcome": {"blocked": 4, "warned": 1},
        "cost_prevented_usd": 3.0,
        "high_risk_blocks": 3,
    }


def test_the_report_for_people_without_arguments_and_outputs(stopped: Table) -> None:
    code, result = stopped.ask("incident", "s1")
    assert code == Exit.OK
    assert "hunter2" not in result + stopped.ask("incident", "s1", "--json")[1]
    assert stopped.ask("labels")[0] == Exit.NO, "nothing is labelled"
    for part in ("root cause: loop_detected", "now: Keep the agent stopped", "the last 50 actions", "options: abort"):
        assert part in result, part
    assert stopped.ask("incident", "nobody")[0] == Exit.NO


# Labels


def failing(session: str, times: int) -> list[ActionEvent]:
    """One error again and again."""
    error = "ModuleNotFoundError: No module named 'x'"
    calls = (call(10 * number, "run_tests", f"module=m{number}", error, session=session) for number in range(times))
    return [event for pair in calls for event in pair]


THIRD = {"settings": {"medium": 3, "high": 4, "critical": 5}, "levels": {"medium": "PAUSE"}}
SOON = Policy.model_validate({"rules": {"error_repetition": THIRD}})


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Under a policy that stops at the third error: two sessions that went on to ten, three that would have ended."""
    table = Table(tmp_path_factory.mktemp("labelled"), SOON)
    sound = [(f"good-{number}", 3, "false_alarm") for number in (1, 2, 3)]
    for session, times, label in (("bad-1", 12, "confirmed"), ("bad-2", 10, "confirmed"), *sound):
        table.run(failing(session, times))
        first = next(d for d in table.decisions(session) if d.level >= Level.PAUSE)
        table.label(session, "confirmed", first)
        table.label(session, label, first)  # the last word counts
    table.run(failing("quiet", 2))
    table.label("quiet", "missed", rule="hallucination")
    return table.write()


def test_the_precision_of_a_rule_is_by_the_last_labels_of_its_decisions(labelled: Table) -> None:
    rules = {one.pop("rule"): one for one in labelled.json("labels")["rules"]}
    assert rules == {
        "error_repetition": {"confirmed": 2, "false_alarm": 3, "missed": 0, "precision": 0.4, "recall": 1.0},
        "hallucination": {"confirmed": 0, "false_alarm": 0, "missed": 1, "precision": None, "recall": 0.0},
    }
