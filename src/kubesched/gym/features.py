"""What a policy sees: columns about nodes and about the pod, all from 0 to 1.

The environment shows them to an agent, and `PolicyScore` shows the same to a trained policy.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kubesched.api.resources import Requests
from kubesched.cluster.view import Nodes

Floats = npt.NDArray[np.float32]
NODE_COLUMNS = ("cpu free", "memory free", "pods free", "cpu left", "memory left", "size")
"""Free now and left with the pod, as parts of the node's own; and the node's CPU, as a part of the largest node's."""
POD_COLUMNS = ("cpu", "memory")
"""What the pod requests, as parts of what the largest node has."""


def observe(nodes: Nodes, requests: Requests, largest: tuple[int, int]) -> tuple[Floats, Floats]:
    """All that a policy sees of a pod and of some nodes."""
    return node_features(nodes, requests, largest), pod_features(requests, largest)


def node_features(nodes: Nodes, requests: Requests, largest: tuple[int, int]) -> Floats:
    """A row per node of a window, a column per `NODE_COLUMNS`."""
    cpu, memory, pods = (np.maximum(nodes.allocatable(each), 1) for each in ("cpu", "memory", "pods"))
    free_cpu, free_memory = nodes.free("cpu"), nodes.free("memory")
    found = np.empty((len(nodes), len(NODE_COLUMNS)), dtype=np.float32)
    found[:, 0] = free_cpu / cpu
    found[:, 1] = free_memory / memory
    found[:, 2] = (pods - nodes.pod_count) / pods
    found[:, 3] = (free_cpu - requests.milli_cpu) / cpu
    found[:, 4] = (free_memory - requests.memory) / memory
    found[:, 5] = cpu / largest[0]
    return np.clip(found, 0.0, 1.0, out=found)


def pod_features(requests: Requests, largest: tuple[int, int]) -> Floats:
    """A value per `POD_COLUMNS`."""
    wanted = (requests.milli_cpu / largest[0], requests.memory / largest[1])
    return np.clip(np.array(wanted, dtype=np.float32), 0.0, 1.0)


def largest_node(nodes: Nodes) -> tuple[int, int]:
    """The most CPU and the most memory that any node has; at least 1, for divisions."""
    return int(nodes.allocatable("cpu").max(initial=1)), int(nodes.allocatable("memory").max(initial=1))
