"""The policy editor with its what-if, and the audit searched and verified, in a real browser."""

import orjson
from deltalake import DeltaTable
from playwright.sync_api import Browser, Page, expect

from haltline.console.access.keys import Role
from haltline.schemas.topics import Topics
from haltline.streams.policy.source import current
from tests.console.browser.conftest import Scene, answer, signed_in
from tests.console.browser.scene import HEALTHY, LOOP, STUCK


def test_a_threshold_is_moved_tried_on_history_and_published(chromium: Browser, scene: Scene) -> None:
    with signed_in(chromium, scene.address, allowed="400") as page:
        change_the_policy(page, scene.broker)


def change_the_policy(page: Page, bootstrap: str) -> None:
    page.goto(f"/interventions?run_id={LOOP}&type=loop_detected")
    page.locator("tbody tr a").first.click()
    page.get_by_role("link", name="Adjust this rule").click()
    expect(page.get_by_label("Rule", exact=True)).to_have_value("destructive_repeat")
    page.get_by_label("Rule", exact=True).select_option("destructive_volume")
    page.get_by_label("Setting", exact=True).select_option("max_deletes")
    expect(page.get_by_text("As many as this within the window are a finding.").first).to_be_visible()
    page.get_by_label("Value", exact=True).first.fill("2")
    page.get_by_role("button", name="Try it on history").click()
    expect(page.locator("#tried")).to_contain_text(
        f"destructive_volume.max_deletes = 2 on {answer(page, '/api/v1/sessions')['total']} sessions"
    )
    changed = page.get_by_role("region", name="What would have been different").locator("tbody tr")
    asked = changed.filter(has_text="clean-3-0")
    expect(asked).to_contain_text("now asked")
    expect(asked.locator("td").last).to_contain_text("ASK")
    expect(changed.filter(has_text=HEALTHY)).to_have_count(0)
    page.get_by_role("button", name="Apply to the document").click()
    expect(page.get_by_label("Document")).to_have_value(
        "name: default\nrules:\n  destructive_volume:\n    settings:\n      max_deletes: 2\n"
    )
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


def test_the_audit_tables_own_history_is_tried_too(page: Page) -> None:
    page.goto("/policies")
    page.get_by_label("Document").fill("rules: {error_repetition: {enabled: false}, repetition: {enabled: false}}")
    page.get_by_label("History").select_option("audit")
    page.get_by_role("button", name="Try the document on history").click()
    expect(page.locator("#tried")).to_contain_text("the document on 3 sessions")


def test_only_an_admin_finds_the_button_that_publishes(chromium: Browser, scene: Scene) -> None:
    with signed_in(chromium, scene.address, Role.OPERATOR) as page:
        page.goto("/policies")
        expect(page.get_by_text("Publishing takes the role admin.")).to_be_visible()
        expect(page.get_by_role("button", name="Publish")).to_have_count(0)


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
