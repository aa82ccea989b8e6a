"""Plugins that read and write objects of the embedded API server."""

from __future__ import annotations

from typing import ClassVar

from kubesched import CycleState, Object, Plugin, Pod
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
