"""What a page says of the protection itself: a worker that stands still, a console that is away; in its title too."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from haltline.console.access.keys import Keys, Role
from haltline.console.protection import ProtectionLimits
from haltline.console.settings import ConsoleSettings
from haltline.schemas.topics import Topics
from haltline.streams.local.subprocesses import Child
from tests.console.browser.conftest import console_of, served, signed_in
from tests.console.browser.scene import ASKS, fill_topics, healthy, runaway, waits
from tests.console.topics import messages_of, produce
from tests.mock_cluster import QuickBroker
from tests.streams.running import running_worker
from tests.waiting import wait_until

QUICK = ProtectionLimits(workers_s=2.0, broker_s=2.0, look_every_s=0.3)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Child]]:
    """The broker's address, the console's, and the worker."""
    folder = tmp_path_factory.mktemp("protection")
    with QuickBroker() as broker:
        broker.ensure_topics(Topics())
        with running_worker(broker.bootstrap, folder, "--session-timeout", "60") as worker:
            settings = ConsoleSettings(
                bootstrap=broker.bootstrap, keys=Keys({}), database=f"sqlite:///{folder}/model.db", answer_within_s=5
            )
            with served(settings, QUICK) as address:
                yield broker.bootstrap, address, worker


def test_a_worker_that_stands_still_is_reported_over_every_page_until_it_goes_on(
    chromium: Browser, system: tuple[str, str, Child]
) -> None:
    bootstrap, address, worker = system
    actions = [record for record in messages_of(healthy().events) if record[0] == "actions"]
    with signed_in(chromium, address, Role.VIEWER) as page:
        banner = page.get_by_role("alert")
        produce(bootstrap, actions)
        page.goto("/sessions")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(banner).to_have_count(0)
        os.kill(worker.pid, signal.SIGSTOP)
        try:
            produce(bootstrap, [record for record in messages_of(runaway("late-1").events) if record[0] == "actions"])
            expect(banner).to_contain_text("Protection is down")
            expect(banner).to_contain_text("of haltline.actions")
            expect(page.locator(".banner .since")).to_contain_text("since")
            expect(page.locator(".banner")).to_contain_text("haltline doctor")
            expect(page).to_have_title("(!) (1) Sessions · haltline")
            page.get_by_role("button", name="Fold").click()
            expect(page.locator(".banner")).not_to_contain_text("of haltline.actions", use_inner_text=True)
            page.goto("/kill")
            expect(banner).to_have_text("Protection is down.", use_inner_text=True)
            page.get_by_role("button", name="What to do").click()
            expect(page.locator(".banner")).to_contain_text("haltline doctor", use_inner_text=True)
        finally:
            os.kill(worker.pid, signal.SIGCONT)
        expect(banner).to_have_count(0)
        expect(page).to_have_title("Kill · haltline")


def test_a_console_that_does_not_answer_is_a_banner_and_goes_when_it_does(
    chromium: Browser, system: tuple[str, str, Child]
) -> None:
    with signed_in(chromium, system[1], allowed="ERR_FAILED") as page:
        expect(page.get_by_role("alert")).to_have_count(0)
        page.route("**/api/**", lambda route: route.abort())
        expect(page.locator(".banner")).to_contain_text("The console does not answer")
        expect(page.locator(".banner .since")).to_contain_text("since")
        page.unroute_all()
        expect(page.locator(".banner")).to_have_count(0)


SPY = """
window.Notification = class { constructor(title, more) { window.sent.push({ title, ...more }); } };
window.Notification.permission = "granted";
window.Notification.requestPermission = async () => "granted";
window.sent = [];
"""


@pytest.fixture
def quiet(chromium: Browser, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A broker with four calls that wait, and a console that watches no worker."""
    with console_of(tmp_path, lambda bootstrap: fill_topics(bootstrap, asks=range(1))) as system:
        yield system


def test_those_who_want_it_are_notified_once_of_a_kill_and_of_a_call_that_waits(
    chromium: Browser, quiet: tuple[str, str]
) -> None:
    bootstrap, address = quiet

    def titles(of: Page) -> list[str]:
        return [one["title"] for one in of.evaluate("window.sent")]

    with signed_in(chromium, address, permissions=["notifications"]) as page:
        page.context.add_init_script(SPY)
        page.reload()
        page.get_by_role("button", name="Notify me").click()
        expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "true")
        second = page.context.new_page()
        second.goto("/approvals")
        expect(second.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "true")
        produce(bootstrap, messages_of(runaway("night-9").events))
        wait_until(lambda: titles(page) == ["Session night-9 was killed"], "the kill is notified")
        produce(bootstrap, messages_of(waits(7).events, ASKS))
        wait_until(lambda: len(titles(page)) == 2, "the call that waits is notified")
        (_, asked) = page.evaluate("window.sent")
        assert asked["title"] == "Approve drop_table?"
        assert "table=stg_7" in asked["body"]
        assert asked["tag"].startswith("haltline-")
        assert titles(second) == []
        page.reload()
        second.close()
        page.get_by_role("button", name="Notify me").click()
        expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "false")
        assert titles(page) == []
