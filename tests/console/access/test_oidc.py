"""Signing in with an OpenID provider: names, roles, and refused sign-ins."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from oidc_provider_mock import User, run_server_in_thread  # type: ignore[import-untyped]  # it has no types

from haltline.console.access.keys import Keys, Role, Who
from haltline.console.access.provider import BadProvider, Provider
from haltline.console.app import create_app
from haltline.console.settings import ConsoleSettings
from haltline.schemas.topics import Topics
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.builders import cases
from tests.mock_cluster import QuickBroker

ROLES = {Role.OPERATOR: ("sre", "on-call"), Role.VIEWER: ("staff",), Role.ADMIN: ("platform",)}
PEOPLE = (
    User(sub="ada", claims={"email": "ada@example.com", "email_verified": True, "groups": ["staff", "sre"]}),
    User(sub="bob", claims={"email": "bob@example.com", "email_verified": True, "groups": ["sales"]}),
    User(sub="eve", claims={"email": "ada@example.com", "email_verified": False, "groups": ["sre"]}),
)


@dataclass
class Site:
    """A console and the provider that it trusts."""

    console: TestClient
    address: str

    def begin(self, next_page: str = "/kill") -> str:
        """The address to which the console redirects the browser."""
        sent = self.console.get("/sign-in/oidc", params={"next": next_page})
        assert sent.status_code == 302, sent.text
        return sent.headers["location"]

    def agree(self, location: str, person: str) -> str:
        """The address to which the provider redirects the browser after that person has signed in."""
        sent = httpx2.post(location, data={"sub": person})
        assert sent.status_code == 302, sent.text
        return sent.headers["location"]

    def sign_in(self, person: str) -> Response:
        return self.console.get(self.agree(self.begin(), person))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with run_server_in_thread(require_nonce=True, user_claims=PEOPLE) as server, QuickBroker() as broker:
        broker.ensure_topics(Topics())
        address = f"http://127.0.0.1:{server.server_port}"
        with console(broker, tmp_path_factory.mktemp("oidc"), address) as client:
            yield Site(client, address)


@pytest.fixture
def site(shared: Site) -> Site:
    """The site for a browser without cookies."""
    shared.console.cookies.clear()
    return shared


@contextmanager
def console(embedded: EmbeddedBroker, folder: Path, issuer: str) -> Iterator[TestClient]:
    secret = folder / "secret"
    secret.write_text("not to be told\n")
    settings = ConsoleSettings(
        bootstrap=embedded.bootstrap,
        keys=Keys.of([("k", Who("key", Role.ADMIN))]),
        database=f"sqlite:///{folder / 'model.db'}",
        provider=Provider(issuer=issuer, client_id="haltline", client_secret_file=secret, roles=ROLES),
    )
    with TestClient(create_app(settings), follow_redirects=False) as client:
        yield client


def test_whom_the_provider_names_comes_in_with_the_role_of_a_group(site: Site) -> None:
    assert 'href="/sign-in/oidc"' in site.console.get("/sign-in").text
    entered = site.sign_in("ada")
    assert (entered.status_code, 'content="0;url=/kill"' in entered.text) == (200, True)
    who = site.console.get("/signed-in").json()
    assert (who["name"], who["role"]) == ("ada@example.com", "operator")
    cookie = next(c for c in entered.headers.get_list("set-cookie") if c.startswith("haltline="))
    assert {"HttpOnly", "SameSite=strict"} <= set(re.split("; ", cookie))
    unproved = site.console.post("/api/v1/kill", json={"id": "x", "reason": "r"})
    assert unproved.status_code == 403, "the cookie alone changes nothing"


@pytest.mark.parametrize("person", ["bob", "eve"], ids=["without a role", "with an address that nobody has verified"])
def test_somebody_else_does_not_come_in(site: Site, person: str) -> None:
    refused = site.sign_in(person)
    assert (refused.status_code, refused.headers["location"]) == (303, "/sign-in?problem=person")
    assert site.console.get("/signed-in").status_code == 401


@cases(
    "forge",
    {
        "another state": lambda back: re.sub("state=[^&]+", "state=x", back),
        "nothing at all": lambda back: back.split("?")[0],
        "a refusal": lambda back: f"{back.split('?')[0]}?error=access_denied",
    },
)
def test_an_answer_that_is_not_to_the_question_is_none(site: Site, forge: Callable[[str], str]) -> None:
    refused = site.console.get(forge(site.agree(site.begin(), "ada")))
    assert (refused.status_code, refused.headers["location"]) == (303, "/sign-in?problem=provider")
    assert site.console.get("/signed-in").status_code == 401


def test_an_answer_counts_once_and_for_its_client(site: Site) -> None:
    back = site.agree(site.begin(), "ada")
    cookies = dict(site.console.cookies)
    site.console.cookies.clear()
    assert site.console.get(back).headers["location"] == "/sign-in?problem=provider", "in another browser"
    site.console.cookies.update(cookies)
    assert site.console.get(back).status_code == 200
    assert site.console.get(back).headers["location"] == "/sign-in?problem=provider", "again"


def test_a_provider_that_is_away_is_reported_and_without_one_there_is_no_such_way(
    embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    with console(embedded, tmp_path, "http://127.0.0.1:9") as client:
        sent = client.get("/sign-in/oidc")
        assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in?problem=provider")
        settings = client.app.state.context.settings  # type: ignore[attr-defined]  # Starlette's, typed as any callable
    with TestClient(create_app(replace(settings, provider=None)), follow_redirects=False) as client:
        assert client.get("/sign-in/oidc").status_code == 404
        assert "oidc" not in client.get("/sign-in").text


@cases(
    "claims, who",
    {
        "a list of groups": ({"email": "a@b", "groups": ["staff"]}, Who("a@b", Role.VIEWER)),
        "the highest": ({"email": "a@b", "groups": ["staff", "platform"]}, Who("a@b", Role.ADMIN)),
        "no group that has a role": ({"email": "a@b", "groups": ["none"]}, None),
        "an unverified address": ({"email": "a@b", "email_verified": False, "groups": ["sre"]}, None),
    },
)
def test_who_it_is(claims: dict[str, Any], who: Who | None) -> None:
    assert Provider(issuer="https://i.example", client_id="c", roles=ROLES).who(claims) == who


@cases(
    "text, wrong",
    {
        "in the clear": ("issuer: http://i.example\nclient_id: c\nroles: {viewer: [x]}", "https://"),
        "programs": ("issuer: https://i.example\nclient_id: c\nroles: {agent: [x]}", "of people"),
        "no role": ("issuer: https://i.example\nclient_id: c\nroles: {}", "roles"),
        "no YAML": ("[", "expected YAML"),
    },
)
def test_a_file_that_describes_none_is_refused_with_its_place(tmp_path: Path, text: str, wrong: str) -> None:
    file = tmp_path / "oidc.yaml"
    file.write_text(text)
    with pytest.raises(BadProvider, match=wrong) as refused:
        Provider.read(file)
    assert str(refused.value).startswith(f"{file}: ")
