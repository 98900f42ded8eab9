from pathlib import Path

from haltline.console.access.keys import Role
from haltline.streams.local.embedded_broker import EmbeddedBroker
from tests.console.serving import LOOP, bearer, serving
from tests.console.topics import messages_of, produce
from tests.waiting import wait_until


def test_what_a_console_is_asked_and_how_far_behind_it_is_are_reported_to_viewers(
    embedded: EmbeddedBroker, tmp_path: Path
) -> None:
    with serving(embedded.bootstrap, tmp_path, metrics_token="metrics only") as client:
        produce(embedded.bootstrap, messages_of(LOOP))
        assert client.get("/api/v1/sessions/nobody-42").status_code == 404
        client.headers.clear()
        assert client.get("/api/v1/sessions").status_code == 401
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", headers=bearer(Role.AGENT)).status_code == 403
        client.headers["Authorization"] = "Bearer metrics only"
        assert client.get("/api/v1/sessions").status_code == 401

        def told(what: str) -> bool:
            return what in client.get("/metrics").text

        wait_until(lambda: told("haltline_consumer_lag_records{"), "its lag is followed", deadline_s=60)
        text = client.get("/metrics").text
    assert 'haltline_build_info{component="console"' in text
    assert 'haltline_http_requests_total{route="/api/v1/sessions",status="401"} 2.0' in text
    assert "nobody-42" not in text, "what is in a path has no bound"
