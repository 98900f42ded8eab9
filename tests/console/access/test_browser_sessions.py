"""Signing in with a browser: the cookie, the protection against cross-site requests, and the headers."""

from pathlib import Path

from fastapi.testclient import TestClient

from haltline.console.access.browser_sessions import CSRF_HEADER, IDLE_S, LASTS_S, BrowserSessions
from haltline.console.access.keys import Role, Who
from tests.console.serving import KEYS

ADA = Who("ada", Role.OPERATOR)
KILL = {"id": "x", "unknown": True, "reason": "no"}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def enter(browser: TestClient, role: Role = Role.OPERATOR, **more: str) -> str:
    """Signs in; returns the CSRF token."""
    answer = browser.post("/sign-in", data={"key": KEYS[role], **more})
    assert answer.status_code == 303, answer.text
    return str(browser.get("/signed-in").json()["csrf"])


def test_the_cookie_is_kept_from_scripts_and_from_other_sites(browser: TestClient) -> None:
    cookie = browser.post("/sign-in", data={"key": KEYS[Role.VIEWER]}).headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert KEYS[Role.VIEWER] not in cookie
    browser.base_url = "https://testserver"
    cookie = browser.post("/sign-in", data={"key": KEYS[Role.VIEWER]}).headers["Set-Cookie"]
    assert cookie.startswith("__Host-haltline=")
    assert browser.get("/sign-in").headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "Secure" in cookie


def test_what_changes_something_takes_the_sessions_token(browser: TestClient) -> None:
    token = enter(browser)
    own, other = {CSRF_HEADER: token}, {CSRF_HEADER: "other"}
    for headers, status in (
        ({}, 403),
        (other, 403),
        (own, 200),
        (own | {"Origin": "http://testserver"}, 200),
        (own | {"Origin": "https://evil.example"}, 403),
        (own | {"Sec-Fetch-Site": "cross-site"}, 403),
        (own | {"Sec-Fetch-Site": "same-site"}, 403),
    ):
        assert browser.post("/api/v1/kill", json=KILL, headers=headers).status_code == status, headers
    assert browser.get("/api/v1/control").status_code == 200


def test_a_key_in_the_header_takes_no_token_and_a_wrong_one_is_wrong_beside_a_good_cookie(browser: TestClient) -> None:
    enter(browser, Role.VIEWER)
    key = {"Authorization": f"Bearer {KEYS[Role.OPERATOR]}"}
    assert browser.post("/api/v1/kill", json=KILL, headers=key).status_code == 200
    enter(browser)
    assert browser.get("/api/v1/control", headers={"Authorization": "Bearer nobody's"}).status_code == 401


def test_after_signing_in_one_is_where_one_wanted_to_be_and_never_elsewhere(browser: TestClient) -> None:
    own, evil = "/sessions/night-7?step=3", "evil.example"
    for page in (own, "", f"https://{evil}", f"//{evil}", f"/\\{evil}", f"/\t/{evil}", "/\r\nSet-Cookie: a=b"):
        answer = browser.post("/sign-in", data={"key": KEYS[Role.VIEWER], "next": page})
        assert answer.headers["Location"] == (own if page == own else "/fleet"), page


def test_consoles_at_two_ports_of_one_host_have_a_cookie_each(browser: TestClient) -> None:
    names = []
    for port in (8460, 8461):
        browser.base_url = f"http://127.0.0.1:{port}"
        enter(browser)
        names.append([*browser.cookies])
    assert names == [["haltline-8460"], ["haltline-8460", "haltline-8461"]]


def test_signing_out_ends_the_session_for_whoever_kept_the_cookie(browser: TestClient) -> None:
    token = enter(browser)
    kept = dict(browser.cookies)
    assert browser.post("/sign-out").status_code == 403
    assert browser.post("/sign-out", headers={CSRF_HEADER: token}).status_code == 204
    browser.cookies.update(kept)
    assert browser.get("/api/v1/control").status_code == 401


def test_pages_ask_who_is_not_signed_in_to_do_so_and_who_may_not_look_is_sent_back(browser: TestClient) -> None:
    answer = browser.get("/interventions?type=hard_block")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in?next=/interventions%3Ftype%3Dhard_block")
    for key, problem in (("nobody's", "key"), ("", "key"), (KEYS[Role.AGENT], "role")):
        answer = browser.post("/sign-in", data={"key": key, "next": "/kill"})
        assert answer.headers["Location"] == f"/sign-in?problem={problem}&next=/kill"
        assert "Set-Cookie" not in answer.headers
        assert browser.get("/signed-in").status_code == 401
    answer = browser.post("/sign-in", data={"key": KEYS[Role.VIEWER]}, headers={"Origin": "https://evil.example"})
    assert (answer.status_code, answer.headers.get("Set-Cookie")) == (403, None)


def test_every_answer_says_what_a_browser_may_do_with_it(browser: TestClient) -> None:
    for path in ("/sign-in", "/static/main.js", "/api/v1/control", "/openapi.json", "/nothing"):
        headers = browser.get(path).headers
        assert "default-src 'self'" in headers["Content-Security-Policy"], path
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"], path
        assert "unsafe" not in headers["Content-Security-Policy"], path
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer"), path


def test_no_document_has_a_script_or_a_style_within_it_or_from_elsewhere() -> None:
    from haltline.console import pages  # noqa: PLC0415  # only here

    folder = Path(pages.__file__).parent
    documents = list(folder.glob("*.html"))
    assert documents
    for document in documents:
        text = document.read_text()
        assert "<style" not in text
        assert " style=" not in text
        assert "//" not in text.replace("<!doctype", "")
        assert text.count("<script") == text.count("<script src=") + text.count('<script type="module" src=')
    scripts = list((folder / "static").rglob("*.js"))
    for script in scripts:
        text = script.read_text()
        addresses = () if "vendor" in script.parts else ("https://", "http://")  # a library names its own in a comment
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", *addresses):
            assert word not in text, (script.name, word)


def test_a_session_ends_when_it_is_idle_old_or_ended_and_of_too_many_the_idlest() -> None:
    clock = Clock()
    sessions = BrowserSessions(clock)
    token = sessions.begin(ADA)
    for _ in range(int(LASTS_S / IDLE_S) * 2):
        clock.now_s += IDLE_S / 2
        found = sessions.find(token)
        assert found is not None
        assert found.who == ADA
    clock.now_s += 1
    assert sessions.find(token) is None
    idle = sessions.begin(ADA)
    clock.now_s += IDLE_S + 1
    assert sessions.find(idle) is None
    ended = sessions.begin(ADA)
    sessions.end(ended)
    assert sessions.find(ended) is None
    assert sessions.find("") is None
    sessions = BrowserSessions(most=2)
    first, second = sessions.begin(ADA), sessions.begin(ADA)
    assert sessions.find(first) is not None
    third = sessions.begin(ADA)
    assert [sessions.find(token) is not None for token in (first, second, third)] == [True, False, True]
