"""Results that are cached by a pod's spec: creating a pod gives the same with the caches as without them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.apiserver.support import PODS, FixedClock, pod
from tests.apiserver.test_validation import PROBLEMS

from kubesched.apiserver.admission import defaults
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.part_cache import key_of
from kubesched.apiserver.validation import pod as validation_pod
from kubesched.apiserver.validation import typecheck
from kubesched.base.types import JSON

TOKEN = "kube-api-access-00000"
FRAGMENTS: list[JSON] = [
    {},
    {"schedulingGates": [{"name": "a"}]},
    {"hostNetwork": True, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
    {"containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "1"}}, "livenessProbe": {}}]},
    {"containers": [{"name": "c", "image": "i", "unknown": 1}]},
    {"containers": [{"name": "c", "image": 7}]},
    {"containers": [None]},
    {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": TOKEN, "mountPath": "/t"}]}]},
    {"volumes": [{"name": TOKEN}]},
    {"volumes": [{"name": f"{TOKEN}-0"}], "automountServiceAccountToken": False},
    {"ephemeralContainers": [{"name": "e", "image": "i"}]},
    {"nodeSelector": None, "priority": 0},
    {"terminationGracePeriodSeconds": 0, "nodeName": "n"},
    {"tolerations": [{"operator": "Exists"}], "serviceAccount": "default"},
    *(fragment for fragment, _ in PROBLEMS),
]


@st.composite
def specs(draw: st.DrawFn) -> JSON:
    """The spec of a pod, often with mistakes."""
    spec: JSON = pod()["spec"]
    for fragment in draw(st.lists(st.sampled_from(FRAGMENTS), max_size=2)):
        spec = {**spec, **fragment}
    return spec


class Clusters:
    """Two clusters with the same seed, which get the same requests. Only one of them uses the caches."""

    def __init__(self) -> None:
        self._cached, self._other = (LocalClient(ApiServer(clock=FixedClock(), random=Random(1))) for _ in range(2))
        self._numbers = count()

    def check(self, found: Sequence[JSON]) -> None:
        """Create pods with these specs in both clusters and compare the responses."""
        requests = [{**pod(f"pod-{next(self._numbers)}"), "spec": spec} for spec in found]
        cached = asyncio.run(_create(self._cached, requests))
        with pytest.MonkeyPatch.context() as patch:
            for module in (typecheck, defaults, validation_pod):
                patch.setattr(module, "key_of", lambda _part: None)
            assert asyncio.run(_create(self._other, requests)) == cached


async def _create(client: LocalClient, requests: Sequence[JSON]) -> list[tuple[int, bytes, Sequence[str]]]:
    found = [await client.send("POST", PODS, each) for each in requests]
    return [(each.status, each.body, each.warnings) for each in found]


@pytest.fixture(scope="module")
def clusters() -> Clusters:
    return Clusters()


@given(found=st.lists(specs(), min_size=1, max_size=4))
def test_pods_are_the_same_with_and_without_caches(clusters: Clusters, found: list[JSON]) -> None:
    """Each spec is sent twice, so that the second one is read from the caches."""
    clusters.check(found * 2)


def test_every_mistake_is_reported_again(clusters: Clusters) -> None:
    """Every spec of the table of mistakes, twice."""
    clusters.check([{**pod()["spec"], **each} for each in FRAGMENTS] * 2)


def test_what_is_encoded_alike_is_not_cached() -> None:
    """YAML has NaN, which is encoded as null: a spec with one must not pass for a spec with the other."""
    assert key_of({"priority": float("nan")}) is None
    assert key_of({"priority": None}) is None
    assert key_of({"priority": 1}) != key_of({"priority": True})


def test_long_specs_are_not_cached() -> None:
    """Clients cannot fill the memory of the server with the keys of its caches."""
    assert key_of({"hostname": "x" * 20_000}) is None
