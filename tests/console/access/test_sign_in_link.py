"""The link that signs in whoever started the console."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from haltline.console.access.keys import Role, Who, digest_of
from haltline.console.access.sign_in_link import LASTS_S, SignInLink, link_of, new_token
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.console.access.test_browser_sessions import Clock, enter
from tests.console.serving import serving

ADA = Who("ada", Role.ADMIN)


def test_a_token_opens_once_within_its_minutes_and_no_other_does() -> None:
    token, clock = new_token(), Clock()
    link = SignInLink(digest_of(token), ADA, clock)
    assert link.take(new_token()) is None
    clock.now_s = LASTS_S
    assert link.take(token) == ADA
    assert link.take(token) is None
    late = SignInLink(digest_of(token), ADA, clock)
    clock.now_s += LASTS_S + 1
    assert late.take(token) is None
    assert link_of("http://127.0.0.1:8460", "t") == "http://127.0.0.1:8460/sign-in#token=t", "never sent by a browser"


TOKEN = new_token()


@pytest.fixture
def browser(embedded: EmbeddedBroker, tmp_path: Path) -> Iterator[TestClient]:
    link = SignInLink(digest_of(TOKEN), ADA)
    with serving(embedded.bootstrap, tmp_path, sign_in_link=link) as client:
        client.headers.pop("Authorization")
        client.follow_redirects = False
        yield client


def test_the_token_is_posted_and_begins_a_session_of_whom_it_is_for(browser: TestClient) -> None:
    assert browser.get(f"/sign-in?token={TOKEN}").status_code == 200, "an address alone signs nobody in"
    assert browser.get("/signed-in").status_code == 401
    answer = browser.post("/sign-in", data={"token": TOKEN, "next": "/audit"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/audit")
    assert browser.get("/signed-in").json()["name"] == "ada"
    browser.cookies.clear()
    answer = browser.post("/sign-in", data={"token": TOKEN})
    assert answer.headers["Location"] == "/sign-in?problem=link&next=/fleet"
    assert "Set-Cookie" not in answer.headers


def test_no_other_site_can_post_the_token(browser: TestClient) -> None:
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # another host of the domain
        {"Origin": "https://evil.example"},
    ):
        assert browser.post("/sign-in", data={"token": TOKEN}, headers=headers).status_code == 403
    assert browser.post("/sign-in", data={"token": TOKEN}).headers["Location"] == "/fleet", "and did not use it up"


def test_who_is_signed_in_stays_who_they_are_and_the_token_leaves_the_address(browser: TestClient) -> None:
    enter(browser, Role.VIEWER)
    assert browser.get("/sign-in").headers["Location"] == "/fleet#", "a browser carries over a fragment otherwise"
    assert browser.get("/signed-in").json()["name"] == "viewer ada"


def test_a_console_without_a_link_takes_no_token(embedded: EmbeddedBroker, tmp_path: Path) -> None:
    with serving(embedded.bootstrap, tmp_path) as client:
        answer = client.post("/sign-in", data={"token": TOKEN}, follow_redirects=False)
        assert answer.headers["Location"] == "/sign-in?problem=link&next=/fleet"
