"""The interface under requests made from its own description, and from their mutations."""

import pytest

from tests.conftest import need
from tests.server.conftest import TOKEN

need("fastapi")
need("schemathesis")

import schemathesis  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402


@pytest.fixture
def described(address):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return schemathesis.openapi.from_url(f"{address}/openapi.json", headers=headers)


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_makes_the_server_fail(case):
    response = case.call(headers={"Authorization": f"Bearer {TOKEN}"})
    case.validate_response(response, checks=[schemathesis.checks.not_a_server_error])
    assert response.headers["content-security-policy"]
