"""The arithmetic of rolling updates: the next size of each ReplicaSet. Pure functions, same results as upstream."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kubesched.apiserver.names import safe_name
from kubesched.apiserver.validation.naming import percentage
from kubesched.base.types import JSON

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
MOST, MAX_DIGITS = 2**63 - 1, 19
"""Go's largest integer. Python refuses to read numbers of thousands of digits."""


def resolve(value: object, total: int, *, round_up: bool) -> int:
    """Resolve a number or a percentage of a total."""
    if isinstance(value, str) and value.endswith("%"):
        share = percentage(value) * total / 100
        return math.ceil(share) if round_up else math.floor(share)
    return int(str(value or 0))


@dataclass(frozen=True, slots=True)
class Limits:
    """How many pods may exist above, and be unavailable below, the desired number."""

    surge: int
    unavailable: int

    @classmethod
    def of(cls, deployment: JSON) -> Limits:
        spec = deployment["spec"]
        if (spec.get("strategy") or {}).get("type") == "Recreate":
            return cls(0, 0)
        rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
        replicas = spec.get("replicas", 1)
        surge = resolve(rolling.get("maxSurge", "25%"), replicas, round_up=True)
        unavailable = resolve(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
        if surge == 0 and unavailable == 0:
            # If both round to zero, the rollout could never progress.
            unavailable = 1
        return cls(surge, min(unavailable, replicas) if replicas else unavailable)


def new_size(wanted: int, limits: Limits, current: int, total: int) -> int:
    """Return the allowed size of the new ReplicaSet when all ReplicaSets together have `total` pods."""
    room = wanted + limits.surge - total
    if room <= 0:
        return current
    return current + min(room, max(0, wanted - current))


def template_hash(template: JSON, collisions: int) -> str:
    """Return a short hash of a template. It differs from upstream's, which hashes the printed Go struct."""
    data = msgspec.json.encode(template, order="deterministic") + str(collisions or "").encode()
    return safe_name(str(zlib.crc32(data)))


def without_hash(template: JSON) -> JSON:
    """Return a template without the hash label that a controller added."""
    meta = dict(template.get("metadata") or {})
    meta["labels"] = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH_LABEL}
    if meta.get("creationTimestamp", "") is None:
        del meta["creationTimestamp"]
    return {**template, "metadata": meta}


def revision_of(replica_set: JSON) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "0")
    number = int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else 0
    return number if number <= MOST else 0


def shares(sizes: Sequence[int], change: int) -> list[int]:
    """Distribute a change over ReplicaSets by their sizes. The first one gets the rounding remainder."""
    total = sum(sizes)
    left = change
    result = []
    for size in sizes:
        part = round(size * change / total) if total else 0
        part = max(min(part, left), 0) if change > 0 else min(max(part, left), 0)
        result.append(part)
        left -= part
    if result:
        result[0] += left
    return result
