"""Refusals and failures: a page for browsers, JSON for every other client, with the same status."""

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from haltline.console.access.browser_sessions import BrowserSessions
from haltline.console.pages.errors import install_errors
from tests.builders import cases

BROWSER, PROGRAM = {"Accept": "text/html,*/*;q=0.8"}, {"Accept": "*/*"}


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    app.state.sessions = BrowserSessions()
    install_errors(app)

    @app.get("/refused/{status}")
    @app.get("/api/refused/{status}")
    def refused(status: int) -> None:
        raise HTTPException(status, "link: it expired <b>yesterday</b>")

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("a secret of the inside")

    return TestClient(app, raise_server_exceptions=False)


@cases(
    "path, status, title",
    {
        "what is not allowed": ("/refused/403", 403, "Not allowed"),
        "an unknown address": ("/nothing", 404, "Page not found"),
        "a failure": ("/broken", 500, "Something went wrong"),
    },
)
def test_a_browser_gets_a_page_and_a_program_json(client: TestClient, path: str, status: int, title: str) -> None:
    shown = client.get(path, headers=BROWSER)
    assert (shown.status_code, shown.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert f"<h1>{title}</h1>" in shown.text
    assert "<b>" not in shown.text
    assert "secret" not in shown.text
    answer = client.get(path, headers=PROGRAM)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/json")
    assert "secret" not in answer.json()["detail"]


def test_the_api_answers_json_to_everybody(client: TestClient) -> None:
    assert client.get("/api/refused/403", headers=BROWSER).json() == {"detail": "link: it expired <b>yesterday</b>"}
