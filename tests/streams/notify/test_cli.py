"""`haltline notify check`, `plan` and `test`, and invalid documents."""

from functools import partial
from pathlib import Path

import orjson
import pytest

from haltline.streams.notify.config import BadConfig, load_config
from tests.streams.commands import haltline
from tests.streams.notify.receivers import SECRET, receiver
from tests.streams.notify.records import change

DOCUMENT = """\
console: https://console.example
channels:
  hook: {kind: webhook, url_file: url, secret_file: secret}
  pager:
    kind: pagerduty
    routing_key_file: key
routes:
  - name: night
    match: {level: PAUSE, agent: "clean*"}
    channels: [hook]
    quiet: [{from: "22:00", to: "07:00", time_zone: Europe/Berlin}]
  - name: rest
    channels: [pager]
    digest: {every: 15m, by: [agent]}
"""


@pytest.fixture
def document(tmp_path: Path) -> Path:
    for name, text in (("url", "http://127.0.0.1:1/5ecret"), ("secret", SECRET), ("key", "k" * 32)):
        (tmp_path / name).write_text(text)
    (tmp_path / "notify.yaml").write_text(DOCUMENT)
    return tmp_path / "notify.yaml"


run = partial(haltline, "notify")


def test_a_document_that_is_wrong_is_refused_with_its_line(document: Path) -> None:
    for there, instead, problem in (
        ("PAUSE", "PUASE", ":9: routes.0.match.level: Input should be"),
        ("15m", "15", ":14: routes.1.digest.every: expected a length of time"),
        ("[hook]", "[hok]", "routes: route night: expected channels of hook, pager, got hok"),
        ("routing_key_file", "routing_key", ":4: channels.pager.pagerduty"),
        ("Europe/Berlin", "Europe/Bern", ":11: routes.0.quiet.0.time_zone: expected a time zone"),
        ('"22:00"', '"07:00"', ":8: routes.0: expected hours that end"),
        ("name: rest", "name: night", "expected each name once, got 'night' again"),
        ("kind: pagerduty", "kind: pager", ":4: channels.pager: Input tag 'pager'"),
        ("https://console", "console", "console: expected an address with https://"),
        ("routes:", "routes: [", ":8: expected YAML"),
    ):
        document.write_text(DOCUMENT.replace(there, instead))
        with pytest.raises(BadConfig) as refused:
            load_config(document)
        assert problem in str(refused.value)
    assert run("check", document).exit_code == 2


def test_check_reads_the_files_of_secrets_and_reports_no_secret(document: Path) -> None:
    assert run("check", document).exit_code == 0
    (document.parent / "secret").write_text("whsec_5hort")
    refused = run("check", document)
    assert (refused.exit_code, "channels.hook: " in refused.output, "5hort" in refused.output) == (2, True, False)
    for field in ("password", "key", "routing_key_file"):
        document.write_text(DOCUMENT.replace("routing_key_file: key", f"{field}: [pa55word]"))
        refused = run("check", document)
        assert (refused.exit_code, "pa55word" in refused.output) == (2, False)


def test_plan_says_who_would_be_notified_and_when(document: Path) -> None:
    records = [change(), change("escalated", 2, level="KILL"), change("counted", 3)]
    records.append(change("opened", 1, "i", level="NUDGE"))
    tailed = {"topic": "incidents", "timestamp_ms": 1_750_000_400_000, "value": orjson.loads(records[3].to_json())}
    lines = [*(record.to_json() for record in records[:3]), orjson.dumps(tailed)]
    done = run("plan", document, given=b"\n".join(lines))
    assert done.output.splitlines() == [
        "inc-1 1 opened: hook by route night, at once",
        "inc-1 2 escalated: hook by route night, at once",
        "inc-1 3 counted: nobody",
        "i 1 opened: pager by route rest, at 2025-06-15T15:15:00.000Z",
    ]
    assert run("plan", document, given=b"{}").exit_code == 2


def test_a_test_message_says_that_it_is_one_and_is_ended_at_once_where_incidents_are_kept(document: Path) -> None:
    with receiver("webhook") as there:
        (document.parent / "url").write_text(there.url)
        done = run("test", "--config", document, "--route", "night")
    assert (done.exit_code, done.output) == (0, "channel hook: accepted\n")
    assert "This is a test of the route night" in there.heard[0].body["data"]["incident"]["summary"]
    with receiver("pagerduty") as there:
        document.write_text(DOCUMENT.replace("routing_key_file: key", f"routing_key_file: key\n    url: {there.url}"))
        assert run("test", "--config", document, "--route", "rest").exit_code == 0
    assert [one.body["event_action"] for one in there.heard] == ["trigger", "resolve"]


def test_check_and_test_print_one_json_document_without_the_address_and_a_document_may_be_toml(document: Path) -> None:
    checked = orjson.loads(run("check", document, "--json").stdout)
    assert checked == {"channels": ["hook", "pager"], "routes": ["night", "rest"], "unused": []}
    refused = run("test", "--config", document, "--route", "night", "--json")
    (sent,) = orjson.loads(refused.stdout)
    assert (refused.exit_code, sent["channel"], sent["accepted"]) == (1, "hook", False)
    assert (sent["error"] in refused.stderr, "5ecret" in refused.output) == (True, False)
    assert run("test", "--config", document, "--route", "none").exit_code == 2
    toml = document.with_suffix(".toml")
    toml.write_text(
        '[channels.hook]\nkind = "slack"\nurl_file = "url"\n[[routes]]\nname = "all"\nchannels = ["hook"]\n'
    )
    assert load_config(toml).channels["hook"].kind == "slack"
