"""ImageLocality: prefer nodes that already have the pod's images, large ones in particular.

An image counts by its size and by how many nodes have it, so that one node with a big image does not attract every pod.
"""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin, Reads
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState

_MB = 1024 * 1024
MIN_THRESHOLD = 23 * _MB
MAX_CONTAINER_THRESHOLD = 1000 * _MB


class ImageLocality(Plugin):
    """Score on the images that nodes report."""

    name = "ImageLocality"
    reads = Reads.NODE

    def sign(self, pod: api.Pod) -> Signature:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return {"v1.Pod.Spec.CanonicalImageNames()": sorted({_with_tag(container.image) for container in containers})}

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        table = nodes.table
        spec = pod.spec
        known = [image for name in _images(spec) if (image := table.images.get(name)) is not None]
        if not known:
            return 0
        sums = np.zeros(table.size, dtype=np.int64)
        highest = MAX_CONTAINER_THRESHOLD * (len(spec.init_containers) + len(spec.containers))
        for image in known:
            # More than `highest` scores no better, and an absurd size must not overflow.
            sums[list(image.rows)] += min(int(image.size * (len(image.rows) / table.valid_count)), highest)
        window = sums[nodes.rows]
        clipped = np.where(window < MIN_THRESHOLD, MIN_THRESHOLD, np.minimum(window, highest))
        return MAX_NODE_SCORE * (clipped - MIN_THRESHOLD) // (highest - MIN_THRESHOLD)


def _images(spec: api.PodSpec) -> list[str]:
    names = [container.image for container in (*spec.init_containers, *spec.containers)]
    names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return [_with_tag(name) for name in names]


def _with_tag(name: str) -> str:
    """An image without a tag is the latest one; a colon before the last slash belongs to the registry."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
