"""The intake's port with TLS: real certificates, as the command serves them."""

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import ClientConnectionError, ClientSession, TCPConnector

from haltline.streams.intake.tls import ServerTls
from tests.builders import cases
from tests.mock_cluster import QuickBroker
from tests.streams.secured.pki import Authority

PASSWORD = "secret-of-server"


@dataclass(frozen=True)
class Served:
    """An intake, and the certificates of who may ask it and of who may not."""

    http: str
    authority: Path
    client: Path
    stranger: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("tls")
    authority, other = Authority(folder, "authority"), Authority(folder, "other")
    certificate = authority.certify("intake", PASSWORD)
    config = folder / "tls.properties"
    config.write_text(
        "# as Kafka's clients are given theirs\n"
        "security.protocol=SSL\n"
        f"ssl.certificate.location={certificate}\nssl.key.location={certificate}\nssl.key.password={PASSWORD}\n"
        f"ssl.ca.location={authority.file}\n"
    )
    with QuickBroker() as broker:
        command = [sys.executable, "-m", "haltline.cli", "intake", "--bootstrap", broker.bootstrap, "--port", "0"]
        command += ["--tls-config", str(config)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=os.environ.copy()) as intake:
            assert intake.stdout is not None
            address = intake.stdout.readline().strip()
            yield Served(address, authority.file, authority.certify("client"), other.certify("stranger"))
            intake.send_signal(signal.SIGTERM)
    assert intake.returncode == 0


Certificate = Callable[[Served], Path | None]
CLIENTS: dict[str, tuple[Certificate, bool]] = {
    "a client with a certificate of the authority is admitted": (lambda served: served.client, True),
    "one without is not": (lambda _: None, False),
    "one of another authority is not": (lambda served: served.stranger, False),
}


@cases("certificate, admitted", CLIENTS)
def test_http(certificate: Certificate, admitted: bool, served: Served) -> None:
    context = ssl.create_default_context(cafile=str(served.authority))
    if (own := certificate(served)) is not None:
        context.load_cert_chain(own)

    async def ask() -> int:
        connector = TCPConnector(ssl=context)
        async with ClientSession(connector=connector) as http, http.get(f"{served.http}/v1/verdict") as response:
            return response.status

    assert served.http.startswith("https://")
    if admitted:
        assert asyncio.run(ask()) == 405
    else:
        with pytest.raises((ClientConnectionError, ssl.SSLError)):
            asyncio.run(ask())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    authority = Authority(folder, "authority")
    (folder / "none.pem").write_text("no certificate\n")
    return {
        "server": str(authority.certify("server")),
        "locked": str(authority.certify("locked", PASSWORD)),
        "authority": str(authority.file),
        "none": str(folder / "none.pem"),
    }


CERTIFICATE = "ssl.certificate.location"
OURS = {CERTIFICATE: "server"}


@cases(
    "settings, message",
    {
        "no certificate": ({}, f"tls: {CERTIFICATE}: expected the file of the server's certificate, got none"),
        "a key of another certificate": (
            OURS | {"ssl.key.location": "locked", "ssl.key.password": PASSWORD},
            "locked.pem: expected the private key of ",
        ),
        "a key whose password is missing": ({CERTIFICATE: "locked"}, "and ssl.key.password if it has one"),
        "an authority that is none": (
            OURS | {"ssl.ca.location": "none"},
            "none.pem: expected certificates in PEM, got ",
        ),
    },
)
def test_settings_that_cannot_be_used_are_refused_at_the_start(
    settings: dict[str, str], message: str, files: dict[str, str]
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is compared below
        ServerTls.of({name: files.get(value, value) for name, value in settings.items()}, "tls")
    assert message in str(refused.value)
