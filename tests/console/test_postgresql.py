"""The read model on a real PostgreSQL: the same tests as on SQLite, those that ask most of the database."""

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from tests.console import databases
from tests.console.read_model.test_intervention_queries import (  # noqa: F401
    filled,
    test_counts_by_day_and_what_is_counted_now_say_the_same_for_any_filter,
    test_what_is_hidden_or_recreated_is_counted_as_it_is_now,
)
from tests.console.read_model.test_projection import (  # noqa: F401
    of_incidents,
    test_incidents_are_listed_worst_first_found_by_every_filter_and_shown_with_their_history,
)
from tests.console.read_model.test_text_search import (  # noqa: F401
    searched,
    test_everything_is_searched_and_the_whole_id_comes_first,
    test_many_matches_are_counted_up_to_a_number,
    test_what_contains_a_text_is_found,
    test_what_was_changed_or_hidden_is_found_as_it_is_now,
    test_without_the_extension_every_row_is_read,
)
from tests.console.test_api import (  # noqa: F401  # collected here again
    NEW,
    console,
    test_a_record_that_is_created_is_read_by_its_writer_counts_and_can_be_hidden,
    test_what_was_intervened_is_listed_filtered_and_reported_in_whole,
)

pytestmark = pytest.mark.skipif(databases.binaries() is None, reason=databases.MISSING)


@pytest.fixture(scope="module", autouse=True)
def postgresql() -> Iterator[None]:
    if databases.running:  # all of them are on it already
        yield
        return
    with databases.server():
        yield


def test_a_text_with_a_nul_is_kept_and_found(client: TestClient) -> None:
    made = client.post("/api/v1/interventions", json={**NEW, "action_name": "a\x00b", "run_id": "r\x00"})
    assert made.status_code == 201, made.text
    assert client.get("/api/v1/interventions", params={"run_id": "r\x00"}).json()["total"] == 1
    assert client.get("/healthz").json()["ok"]
