"""One local cluster for all tests; each has a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.apiserver.kubectl import find_kubectl
from tests.kubectl.local import Local, eventually, local

PATH, REASON = find_kubectl()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a kubectl."""
    for item in items:
        if "tests/kubectl/" in str(item.path):
            item.add_marker(pytest.mark.kubectl)
            item.add_marker(pytest.mark.skipif(not PATH, reason=REASON))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """Three nodes, and a scheduler that tells much."""
    with local(tmp_path_factory.mktemp("up"), "--nodes=3", "--v=5") as running:
        yield running


@pytest.fixture
def kubectl(cluster: Local, request: pytest.FixtureRequest) -> Iterator[Local]:
    """kubectl in a fresh namespace that is deleted afterwards."""
    name = request.node.name.replace("_", "-")[:60].strip("-")
    cluster(f"create namespace {name}")
    cluster.use_namespace(name)
    needed = ("get", "serviceaccount/default", "configmap/kube-root-ca.crt")
    eventually(lambda: cluster.run(*needed).returncode == 0, what="what every namespace has")
    try:
        yield cluster
    finally:
        cluster.use_namespace("default")
        cluster(f"delete namespace {name} --wait=false")
