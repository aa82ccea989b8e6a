"""Plugins that read and write objects of the embedded API server."""

from __future__ import annotations

from typing import ClassVar

from kubesched import Action, CycleState, EventHint, Hint, Nodes, Object, Plugin, Pod, Status, on, unresolvable
from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Scenario


class Budget(Object, frozen=True):
    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "Budget"
    plural: ClassVar[str] = "budgets"
    spent: int = 0


class Accountant(Plugin):
    """Counts pods in a custom resource and annotates them."""

    name = "Accountant"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        client = self.handle.client
        (budget,) = await client.list(Budget)
        await client.merge_patch(Budget, budget.name, {"spent": budget.spent + 1}, budget.namespace)
        counted = await client.merge_patch(Pod, pod.name, {"metadata": {"labels": {"counted": "true"}}}, pod.namespace)
        assert counted.labels == {"counted": "true"}


DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: budgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Budget, plural: budgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spent: {type: integer}}}}
"""


def test_a_plugin_reads_lists_and_patches_any_kind() -> None:
    """A plugin updates a custom resource defined in the scenario, and the pod."""

    async def act(client: ScenarioClient) -> None:
        await client.create(DEFINITION)
        await client.create({"apiVersion": "example.com/v1", "kind": "Budget", "metadata": {"name": "all"}})
        await client.create(node("n1"))
        for name in ("a", "b"):
            await client.create(pod(name))
            await client.sleep(1)
        await client.expect(kind="Budget", name="all", fields={"spent": 2})
        await client.expect(labels={"counted": "true"}, count=2, phase="Running")

    report = run(Scenario("accountant", "here", act, plugins=[Accountant]))
    assert (report.error, [each.message for each in report.expectations if not each.holds]) == ("", [])


class Funded(Plugin):
    """Holds pods back until there is a budget in their namespace."""

    name = "Funded"

    def events_to_register(self) -> list[EventHint]:
        return [on(Budget, Action.ADD, self._after_budget)]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        budgets = [each for each in self.handle.cluster.all(Budget) if each.namespace == pod.namespace]
        return None if budgets else unresolvable("no budget")

    def _after_budget(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        assert isinstance(new, Budget)
        return Hint.QUEUE if new.spent == 0 else Hint.SKIP


def test_a_plugin_waits_for_a_custom_kind() -> None:
    """A kind that is defined while the scheduler runs is watched, and its objects wake the pods that wait for them."""

    async def act(client: ScenarioClient) -> None:
        await client.create(node("n1"))
        await client.create(pod("a"))
        await client.expect(name="a", phase="Pending")
        await client.create(DEFINITION)
        budget = {"apiVersion": "example.com/v1", "kind": "Budget", "metadata": {"name": "spent"}, "spent": 7}
        await client.create(budget)
        await client.sleep(90)
        await client.expect(name="a", phase="Pending")
        await client.create(budget | {"metadata": {"name": "all"}, "spent": 0})
        await client.sleep(15)
        await client.expect(name="a", phase="Running")

    report = run(Scenario("funded", "here", act, plugins=[Funded]))
    assert (report.error, [each.message for each in report.expectations if not each.holds]) == ("", [])
