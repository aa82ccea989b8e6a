"""A plugin of one's own for the scenario beside it."""

from kubesched import NodeInfo, score
from kubesched.api.objects import Pod


@score(weight=3)
def prefer_even(pod: Pod, node: NodeInfo) -> int:
    return 100 if int(node.name.removeprefix("node")) % 2 == 0 else 0
