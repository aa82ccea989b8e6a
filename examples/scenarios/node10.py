"""Nine nodes that take no pods, a pod that has to wait, and a tenth node that takes it.

kubesched simulate examples/scenarios/node10.py
"""

from kubesched.simulator import ScenarioClient, node, pod


async def scenario(client: ScenarioClient) -> None:
    for number in range(9):
        await client.create(node(f"node{number}", unschedulable=True))
    client.log("all nodes created")

    await client.create(pod("pod1"))
    client.log("pod1 created")

    await client.sleep(3)
    await client.expect(pod="pod1", pending=True, because="9 node(s) were unschedulable")

    client.log("node10 arrives")
    await client.create(node("node10"))
    await client.wait_for(pod="pod1", on_node="node10", timeout="5s")

    pod1 = await client.get("Pod", "pod1")
    client.log(f"pod1 is bound to {pod1['spec']['nodeName']}")
