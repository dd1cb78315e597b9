"""The service asked whatever its own schema allows, and what it forbids: it answers as it says, and never with 500."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, settings

pytestmark = pytest.mark.slow

# Habits of other services that this one does not have: any body is read as JSON, whatever it calls itself.
NOT_OURS = (
    "unsupported_method",
    "negative_data_rejection",
    "positive_data_acceptance",
    "ignored_auth",
)


def test_the_service_keeps_to_its_schema(model_file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tool's own making
        import schemathesis
        from schemathesis import GenerationMode
        from schemathesis.checks import CHECKS

        from rankwood.serve.app import make_app
        from rankwood.serve.store import ModelStore

        schema = schemathesis.openapi.from_asgi(
            "/openapi.json", make_app(ModelStore([model_file]), reload_seconds=0)
        )
        excluded = [CHECKS.get_one(name) for name in NOT_OURS]
        statuses = []

        def ask(operation, mode):
            @settings(
                max_examples=200,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.explicit, Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def run(case):
                response = case.call()
                statuses.append(response.status_code)
                assert response.status_code < 500
                case.validate_response(response, excluded_checks=excluded)

            run()

        for found in schema.get_all_operations():
            operation = found.ok()
            ask(operation, GenerationMode.POSITIVE)
            if operation.method == "post":
                ask(operation, GenerationMode.NEGATIVE)
        assert len(statuses) > 300
        assert {200, 422} <= set(statuses)
