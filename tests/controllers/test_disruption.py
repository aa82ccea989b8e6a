"""PodDisruptionBudgets: allowed disruptions, and evictions."""

from __future__ import annotations

import pytest
from tests.controllers.world import World, workload, world

from kubesched.apiserver.rest.deletion import DeleteOptions
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.reconcile.access import BUDGETS, DEPLOYMENTS


async def _web(w: World, replicas: int, **budget: object) -> None:
    w.create(DEPLOYMENTS, "web", workload("web", replicas))
    w.create(BUDGETS, "web", {"selector": {"matchLabels": {"app": "web"}}, **budget})
    await w.until(lambda: len(w.running(app="web")) == replicas)


def _status(w: World) -> JSON:
    status: JSON = w.get(BUDGETS, "web")["status"]
    return status


@pytest.mark.parametrize(
    ("budget", "allowed"),
    [
        ({"minAvailable": 3}, 1),
        ({"minAvailable": "50%"}, 2),
        ({"maxUnavailable": 1}, 1),
        ({"maxUnavailable": "30%"}, 2),
        ({"minAvailable": 9}, 0),
        ({"maxUnavailable": 0}, 0),
    ],
)
def test_the_numbers(budget: dict[str, object], allowed: int) -> None:
    """The number of allowed disruptions of four healthy pods, with percentages rounded like upstream."""

    @virtual_time
    async def check(clock: VirtualClock) -> None:
        async with world(clock) as w:
            await _web(w, 4, **budget)
            await clock.advance(1)
            status = _status(w)
            assert (status["disruptionsAllowed"], status["currentHealthy"], status["expectedPods"]) == (allowed, 4, 4)

    check()


@virtual_time
async def test_evictions_wait_for_replacements(clock: VirtualClock) -> None:
    """A second eviction is allowed only when the first pod's replacement is ready."""
    async with world(clock) as w:
        await _web(w, 2, minAvailable=1)
        await clock.advance(1)
        first, second = (pod["metadata"]["name"] for pod in w.running(app="web"))
        w.api.pods.evict("default", first, DeleteOptions())
        with pytest.raises(StatusError) as refused:
            w.api.pods.evict("default", second, DeleteOptions())
        assert refused.value.code == 429
        await w.until(lambda: len(w.running(app="web")) == 2)
        await clock.advance(1)
        w.api.pods.evict("default", second, DeleteOptions())


@virtual_time
async def test_an_eviction_that_comes_to_nothing_is_forgiven(clock: VirtualClock) -> None:
    """An evicted pod that still exists after two minutes counts as healthy again."""
    async with world(clock) as w:
        await _web(w, 2, minAvailable=1)
        await clock.advance(1)
        name = w.running(app="web")[0]["metadata"]["name"]
        now = w.access.now()
        w.access.edit_status(BUDGETS, "default/web", lambda obj: obj["status"].update(disruptedPods={name: now}))
        await clock.advance(1)
        assert _status(w)["disruptionsAllowed"] == 0
        await clock.advance(125)
        assert _status(w)["disruptionsAllowed"] == 1
        assert "disruptedPods" not in _status(w)


@virtual_time
async def test_a_budget_without_a_spec_has_a_status(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """A budget without a spec guards nothing; it gets a status once and is not retried for ever."""
    async with world(clock) as w:
        w.access.create(BUDGETS, {"metadata": {"name": "web", "namespace": "default"}})
        await clock.advance(300)
        assert _status(w)["disruptionsAllowed"] == _status(w)["expectedPods"] == _status(w)["desiredHealthy"] == 0
        version = w.get(BUDGETS, "web")["metadata"]["resourceVersion"]
        await clock.advance(300)
        assert w.get(BUDGETS, "web")["metadata"]["resourceVersion"] == version
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
