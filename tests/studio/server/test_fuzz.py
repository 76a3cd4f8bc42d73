"""The interface under requests made from its own description, fitting and unfitting ones."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.conftest import need
from tests.studio.server.conftest import TOKEN

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
@pytest.mark.attack("requests made from the interface's description (schemathesis)")
def test_no_request_makes_the_server_fail(address, study, mode, tried):
    need("schemathesis")
    import schemathesis

    described = schemathesis.openapi.from_url(f"{address}/openapi.json", headers=HEADERS)
    reached, cases = set(), []
    for found in described.get_all_operations():
        operation = found.ok()
        if mode == "NEGATIVE" and not (
            operation.body or operation.query or operation.path_parameters
        ):
            continue

        @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
        @settings(
            max_examples=30,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def holds(case):
            response = case.call(headers=HEADERS)
            assert response.status_code < 500, (case.as_curl_command(), response.text)
            assert response.headers["content-security-policy"]
            reached.add((case.method, case.path))
            cases.append(case)

        holds()
    assert len(reached) >= 13
    # Whatever came, the study is whole.
    assert study.state.seq > 0
    tried(len(cases))
