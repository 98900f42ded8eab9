"""The API conforms to its OpenAPI description for any request: no server error, responses as described."""

from functools import cache
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from haltline.console.access.keys import Role
from tests.console.described import APP, ROUTES
from tests.console.serving import bearer

STREAM = "text/event-stream"  # has no end


@cache
def operations() -> dict[str, Any]:
    found = schemathesis.openapi.from_dict(APP.openapi()).get_all_operations()
    return {one.ok().label: one.ok() for one in found if isinstance(one, Ok)}


def test_the_description_has_each_route_and_beside_them_the_stream() -> None:
    others = [one.definition.raw["responses"] for name, one in operations().items() if name not in ROUTES]
    assert (ROUTES.keys() <= operations().keys(), [STREAM in str(one) for one in others]) == (True, [True])


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", sorted(ROUTES))
def test_any_request_is_answered_as_described(client: TestClient, name: str) -> None:
    # A command waits for a worker that is not there; without parameters each request is the same.
    described = operations()[name].definition.raw
    examples = 2 if name.startswith("POST") else 6 if described.get("parameters") else 1

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(case=operations()[name].as_strategy())
    def any_request(case: schemathesis.Case[Any]) -> None:
        arguments = case.as_transport_kwargs(base_url="http://testserver", headers=bearer(Role.ADMIN))
        arguments.pop("cookies")  # the API has none
        answer = client.request(**arguments)
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in described["responses"], (answer.status_code, answer.text)
        # A description cannot say that a text has to be a date of this century.
        case.validate_response(schemathesis.Response.from_any(answer), excluded_checks=[positive_data_acceptance])

    any_request()
