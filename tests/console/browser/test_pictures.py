"""Charts, policies and verifications in a real browser: drawn, by keyboard, and as a table."""

import re

import orjson
from deltalake import DeltaTable
from playwright.sync_api import Browser, Page, expect

from haltline.schemas.topics import Topics
from haltline.streams.policy.source import current
from tests.console.browser.conftest import Scene, answer, signed_in
from tests.console.browser.scene import HEALTHY, LOOP, STUCK, Script, runaway
from tests.console.topics import messages_of, produce


def test_trips_are_drawn_told_and_tabled_as_they_are_counted(page: Page, scene: Scene) -> None:
    page.goto("/fleet")
    page.get_by_role("button", name="the last hour").click()
    chart = page.get_by_role("img", name=re.compile(r"Trips by level: \d+ trips, at most \d+ in 1 min"))
    expect(chart).to_be_visible()
    counted = answer(page, "/api/v1/fleet/trips?hours=1")
    assert chart.get_attribute("aria-label").startswith(f"Trips by level: {counted['total']} trips")  # type: ignore[union-attr]  # it has one
    page.get_by_label("Table: Trips by level").click()
    cells = page.get_by_role("table", name="Trips by level").locator("tbody td").all_inner_texts()
    assert sum(map(int, cells)) == counted["total"]
    # The keyboard reads what the pointer does, and says it.
    chart.focus()
    page.keyboard.press("End")
    said = page.locator("figure").filter(has=chart).get_by_role("status")
    expect(said).to_contain_text(re.compile(r"\d\d:\d\d: .*KILL \d+"))
    at_end = said.inner_text()
    produce(scene.broker, messages_of(Script("late-1", "reporter", 5).starts("Wait").events))  # the chart is drawn anew
    expect(page.get_by_role("link", name="late-1 of reporter")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(said).not_to_have_text(at_end)
    expect(page.locator(".chart-readout").first).to_have_text(said.inner_text())


def test_live_sessions_are_a_strip_with_the_worst_first_that_changes_as_they_do(page: Page, scene: Scene) -> None:
    page.goto("/fleet")
    strip = page.get_by_role("region", name="Active sessions")
    stopped = strip.get_by_role("list", name="Live sessions of incidents of destruction")
    expect(stopped.get_by_role("link").first).to_have_accessible_name(re.compile("killed, hardest KILL"))
    calm = strip.get_by_role("list", name="Live sessions without an incident")
    expect(calm.get_by_role("link", name=f"{HEALTHY} of reporter: running, hardest ALLOW")).to_be_visible()
    assert strip.locator("a.cell").count() == answer(page, "/api/v1/fleet/live")["total"]
    produce(scene.broker, messages_of(runaway("later-77").events))
    expect(stopped.get_by_role("link", name=re.compile("later-77 of .*: killed"))).to_be_visible()
    strip.get_by_role("link", name="destruction", exact=True).click()
    expect(page.get_by_role("dialog", name="Incident destruction")).to_contain_text("Targetasset_id=")


def test_marks_of_the_swimlane_are_the_steps_and_choose_each_other(page: Page) -> None:
    page.goto(f"/sessions/{LOOP}")
    lanes = page.get_by_role("listbox", name=re.compile("steps in lanes over"))
    expect(lanes.get_by_role("option")).to_have_accessible_name(re.compile("Decisions, .*session_killed"))
    items = page.locator(".steps li")
    expect(lanes).to_have_attribute("data-marks", str(items.count()))
    # By keyboard: along a lane, to another one, and the list goes along.
    lanes.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("li[aria-current=step]")).to_contain_text("nudged")
    page.keyboard.press("ArrowUp")
    expect(page.locator("li[aria-current=step]")).to_contain_text("loop_suspected")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(lanes.get_by_role("option")).to_have_accessible_name(re.compile("Tool calls"))
    # The other way round, by mouse and by keyboard; the arguments of the chosen step are there in whole.
    items.filter(has_text="attempt=2").click()
    expect(lanes.get_by_role("option")).to_have_accessible_name(re.compile("proposed delete_asset .*attempt=2"))
    expect(page.locator("li[aria-current=step] .args.whole")).to_have_text("asset_id=fact_sales, attempt=2")
    page.keyboard.press("ArrowUp")
    expect(page.locator("li[aria-current=step]")).to_be_focused()
    # Feedback and signals are folded until they are wanted.
    before = items.count()
    folds = page.get_by_role("checkbox", name=re.compile(r"Show feedback and signals \(\d+\)"))
    folds.check()
    total = len(answer(page, f"/api/v1/sessions/{LOOP}")["steps"])
    expect(items).to_have_count(total)
    expect(lanes).to_have_attribute("data-marks", str(total))
    assert total > before


def test_a_policy_is_changed_checked_and_published_and_says_how_to_try_it(chromium: Browser, scene: Scene) -> None:
    with signed_in(chromium, scene.address, allowed="400") as page:
        change_the_policy(page, scene.broker)


def change_the_policy(page: Page, bootstrap: str) -> None:
    page.goto(f"/interventions?run_id={LOOP}&type=loop_detected")
    page.locator("tbody tr a").first.click()
    page.get_by_role("link", name="Adjust this rule").click()
    expect(page.locator("details[data-rule=destructive_repeat]")).to_have_attribute("open", "")
    page.get_by_label("Find a setting").fill("max_deletes")
    described = "The number of destructive attempts within the window that makes a finding."
    expect(page.get_by_text(described).first).to_be_visible()
    expect(page.locator("#trial")).to_contain_text("backtest audit --from -7d --policy new.yaml --against current.yaml")
    page.get_by_label("Document").fill("rules: {destructive_volume: {settings: {max_deletes: many}}}")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#checked")).to_contain_text("rules.destructive_volume.settings.max_deletes")
    page.get_by_label("Document").fill("rules: {destructive_volume: {settings: {max_deletes: 4}}}")
    page.get_by_role("button", name="Publish").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("three were too few")
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Policy default, version 2, is in force.")).to_be_visible()
    document = orjson.loads(current(bootstrap, Topics().policies)["default"].value or b"")
    assert document["rules"]["destructive_volume"]["settings"] == {"max_deletes": 4}
    assert (document["published"]["by"], document["published"]["reason"]) == ("admin ada", "three were too few")
    page.reload()
    expect(page.get_by_text("default, version 2, by admin ada")).to_be_visible()


def test_the_audit_is_searched_and_verified_and_says_what_somebody_removed(page: Page, scene: Scene) -> None:
    page.goto("/audit")
    rows = page.locator("tbody tr")
    expect(rows.first).to_be_visible()
    page.get_by_role("searchbox").fill("session_killed")
    page.get_by_role("searchbox").press("Enter")
    expect(rows).not_to_have_count(0)
    expect(rows.first).to_contain_text(LOOP)
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Session").fill(STUCK)
    page.get_by_label("Topic").select_option("interventions")
    page.get_by_role("button", name="Search").click()
    expect(rows.first).to_contain_text(STUCK)
    expect(page.get_by_role("cell", name=LOOP)).to_have_count(0)
    rows.first.locator("td").last.click()
    expect(page.get_by_role("dialog").locator("pre")).to_contain_text('"decision_id"')
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator("#verdict")).to_contain_text("Verified:")
    DeltaTable(str(scene.table)).delete('"topic" = \'haltline.actions\' AND "offset" = 3')
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator("#verdict")).to_contain_text("Not intact")
    expect(page.get_by_role("region", name="Verification")).to_contain_text("haltline.actions[0] at offset")
