"""The page of `haltline scan` in a real browser without a network, and the effect of its labels on a calibration."""

from pathlib import Path

import orjson
from playwright.sync_api import Browser, expect
from typer.testing import CliRunner

from haltline.cli.app import app
from tests.streams.scan.transcripts import Transcript, stuck


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


def test_findings_are_judged_on_the_page_and_calibrate_reads_the_labels(chromium: Browser, tmp_path: Path) -> None:
    histories, report, labels = tmp_path / "histories", tmp_path / "report.html", tmp_path / "labels.jsonl"
    stuck().write(histories / "a.jsonl")
    Transcript("fine").prompt("look").call("ls", "a.py").write(histories / "b.jsonl")
    run("scan", histories, "--html", report)
    with chromium.new_context(offline=True, viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        expect(page.get_by_text("1 of 1 findings")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        page.locator("summary").first.click()
        expect(page.locator("tr.here")).to_contain_text("rm -rf /srv/shop/data")
        page.get_by_role("button", name="This was right").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download labels.jsonl").click()
        download.value.save_as(labels)

    events = tmp_path / "events.jsonl"
    events.write_text(run("import", histories))
    calibrate = ("calibrate", "--budget", "1/2", "--sessions", events, "--json")
    before, after = (orjson.loads(run(*calibrate, *more)) for more in ((), ("--labels", labels)))
    assert (before["fine"], before["runaways"]) == (2, 0)
    assert (after["fine"], after["runaways"]) == (1, 1)
