"""The Kubernetes manifests against the published schemas of Kubernetes, unknown fields being errors."""

from typing import Any, Final

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import pytest

from tests.deploy.test_deployment import MANIFESTS

OF_OTHERS: Final = {"ScaledObject", "TriggerAuthentication", "PodMonitor", "PrometheusRule"}
"""Kinds that an operator brings: KEDA's and Prometheus'."""
VERSIONS: Final = ("1.30", kubernetes_validate.latest_version())
OURS: Final = [(where, one) for where, one in MANIFESTS if one["kind"] not in OF_OTHERS]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("where", "one"), OURS, ids=[where for where, _ in OURS])
def test_a_manifest_is_one_of_kubernetes(where: str, one: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(one, version, strict=True)


def test_a_manifest_that_is_wrong_would_be_found() -> None:
    (budget,) = [one for _, one in OURS if one["metadata"]["name"] == "haltline-worker" and "Budget" in one["kind"]]
    with pytest.raises(kubernetes_validate.ValidationError, match="maxUnavailble"):
        kubernetes_validate.validate({**budget, "spec": {**budget["spec"], "maxUnavailble": 1}}, "1.30", strict=True)
