"""How well a pod's volumes would use the storage of a node, by the shape in the plugin's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kubesched.api import objects as api
from kubesched.api.quantity import value
from kubesched.config.args import UtilizationShapePoint
from kubesched.framework.plugin import MAX_NODE_SCORE
from kubesched.plugins.volume_binding.plan import Provision, VolumeMatch
from kubesched.plugins.volume_binding.supply import STORAGE
from kubesched.plugins.volumes import class_of_claim

MAX_SHAPE_SCORE = 10


class Use(NamedTuple):
    """The requested amount and the capacity of one storage class."""

    requested: int = 0
    capacity: int = 0


Scorer = Callable[[Sequence[Use]], int]


def scorer(shape: Sequence[UtilizationShapePoint]) -> Scorer:
    """The mean over storage classes of the shape's score for their utilization."""
    points = [(point.utilization, point.score * (MAX_NODE_SCORE // MAX_SHAPE_SCORE)) for point in shape]

    def score(uses: Sequence[Use]) -> int:
        if not uses:
            return 0
        total = sum(_on_line(points, _percent(use)) for use in uses)
        return (2 * total + len(uses)) // (2 * len(uses))  # the mean, halves rounded up

    return score


def class_uses(bindings: Sequence[VolumeMatch], provisions: Sequence[Provision]) -> list[Use]:
    """The use of each storage class on a node: of the volumes to be bound, or of the pools if there are none."""
    uses: dict[str, Use] = {}
    for binding in bindings:
        before = uses.get(binding.volume.spec.storage_class_name, Use())
        uses[binding.volume.spec.storage_class_name] = Use(
            before.requested + _request(binding.claim),
            before.capacity + value(binding.volume.spec.capacity.get(STORAGE, 0)),
        )
    for provision in provisions if not bindings else ():
        if provision.pool is not None:
            name = class_of_claim(provision.claim)
            requested = uses.get(name, Use()).requested + _request(provision.claim)
            uses[name] = Use(requested, value(provision.pool.capacity or 0))
    return list(uses.values())


def _request(claim: api.PersistentVolumeClaim) -> int:
    return value(claim.spec.resources.requests.get(STORAGE, 0))


def _percent(use: Use) -> int:
    return 100 if use.requested > use.capacity or not use.capacity else use.requested * 100 // use.capacity


def _on_line(points: Sequence[tuple[int, int]], percent: int) -> int:
    """The piecewise linear function through the points, constant before the first and after the last; results are
    truncated."""
    after = next((i for i, (at, _) in enumerate(points) if percent <= at), None)
    if after is None:
        return points[-1][1]
    if after == 0:
        return points[0][1]
    (x, y), (to_x, to_y) = points[after - 1], points[after]
    return y + int((to_y - y) * (percent - x) / (to_x - x))
