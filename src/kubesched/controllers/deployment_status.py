"""The status of Deployments, on which `kubectl rollout status` and `kubectl wait` rely."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kubesched.apiserver.meta import parse_timestamp
from kubesched.base.types import JSON
from kubesched.controllers.rollout import Limits
from kubesched.reconcile.access import DEPLOYMENTS
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext


class _Enqueue(Protocol):
    def __call__(self, key: str, after: float = 0.0) -> None: ...


class DeploymentStatus:
    """Computes and stores the status."""

    def __init__(self, context: ControllerContext, enqueue: _Enqueue) -> None:
        self._context = context
        self._enqueue = enqueue

    def write(self, key: str, deployment: JSON, new: JSON | None, sets: list[JSON]) -> None:
        """Compute the status from the ReplicaSets and store it."""
        self._context.access.edit_status(DEPLOYMENTS, key, self._editor(key, new, sets), deployment["metadata"]["uid"])

    def _editor(self, key: str, new: JSON | None, sets: list[JSON]) -> Callable[[JSON], None]:
        def edit(obj: JSON) -> None:
            old = obj["status"]
            counts = _counts(obj, new, sets)
            status: JSON = {name: count for name, count in counts.items() if count}
            status["observedGeneration"] = obj["metadata"].get("generation", 0)
            if old.get("collisionCount"):
                status["collisionCount"] = old["collisionCount"]
            status["conditions"] = self._conditions(key, obj, old, counts, new, sets)
            obj["status"] = status

        return edit

    def _conditions(
        self, key: str, deployment: JSON, old: JSON, counts: dict[str, int], new: JSON | None, sets: list[JSON]
    ) -> list[JSON]:
        now = self._context.access.now()
        conditions = list(old.get("conditions") or [])
        wanted = deployment["spec"].get("replicas", 1)
        enough = counts["availableReplicas"] >= wanted - Limits.of(deployment).unavailable
        available = {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        }
        conditions = _set_last(conditions, available, now)
        progressing = self._progressing(key, deployment, old, counts, new)
        if progressing is not None:
            conditions = _set_last(conditions, progressing, now)
        return self._with_failure(conditions, new, sets, now)

    def _with_failure(self, conditions: list[JSON], new: JSON | None, sets: list[JSON], now: str) -> list[JSON]:
        """Copy the ReplicaFailure condition of a ReplicaSet that cannot create its pods."""
        for each in [new] if new is not None else sets:
            for condition in (each.get("status") or {}).get("conditions") or []:
                if condition.get("type") == "ReplicaFailure":
                    kept = {part: condition.get(part, "") for part in ("type", "status", "reason", "message")}
                    return set_condition(conditions, kept, now, updated=True)
        return [each for each in conditions if each.get("type") != "ReplicaFailure"]

    def _progressing(
        self, key: str, deployment: JSON, old: JSON, counts: dict[str, int], new: JSON | None
    ) -> JSON | None:
        previous = next((each for each in old.get("conditions") or [] if each.get("type") == "Progressing"), None)
        if deployment["spec"].get("paused"):
            if previous is not None and previous.get("reason") == "DeploymentPaused":
                return None
            return _progress("Unknown", "DeploymentPaused", "Deployment is paused")
        name = new["metadata"]["name"] if new is not None else ""
        if _is_complete(deployment, counts):
            return _progress("True", "NewReplicaSetAvailable", f'ReplicaSet "{name}" has successfully progressed.')
        if _has_progressed(old, counts):
            if previous is None and new is not None:
                return _progress("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
            return _progress("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        return self._deadline(key, deployment, previous, name)

    def _deadline(self, key: str, deployment: JSON, previous: JSON | None, name: str) -> JSON | None:
        """Without progress, wait for the deadline, then report that it was exceeded."""
        seconds = deployment["spec"].get("progressDeadlineSeconds", 600)
        if previous is None:
            self._enqueue(key, seconds)
            return _progress("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        if previous.get("reason") in ("NewReplicaSetAvailable", "DeploymentPaused"):
            return _progress("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        if previous.get("reason") == "ProgressDeadlineExceeded":
            return None
        left = parse_timestamp(previous["lastUpdateTime"]) + seconds - self._context.access.clock.now()
        if left > 0:
            self._enqueue(key, left + 1)
            return None
        return _progress("False", "ProgressDeadlineExceeded", f'ReplicaSet "{name}" has timed out progressing.')


def _counts(deployment: JSON, new: JSON | None, sets: list[JSON]) -> dict[str, int]:
    def total(field: str) -> int:
        return sum((each.get("status") or {}).get(field, 0) for each in sets)

    available = total("availableReplicas")
    size = sum(each["spec"].get("replicas", 1) for each in sets)
    return {
        "replicas": total("replicas"),
        "updatedReplicas": (new.get("status") or {}).get("replicas", 0) if new is not None else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, size - available),
    }


def _is_complete(deployment: JSON, counts: dict[str, int]) -> bool:
    wanted = deployment["spec"].get("replicas", 1)
    return all(counts[field] == wanted for field in ("updatedReplicas", "replicas", "availableReplicas"))


def _has_progressed(old: JSON, new: dict[str, int]) -> bool:
    def older(status: JSON) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    return (
        new["updatedReplicas"] > old.get("updatedReplicas", 0)
        or older(new) < older(old)
        or new["readyReplicas"] > old.get("readyReplicas", 0)
        or new["availableReplicas"] > old.get("availableReplicas", 0)
    )


def _set_last(conditions: list[JSON], new: JSON, now: str) -> list[JSON]:
    """Set a condition. As upstream, one that changes becomes the last."""
    found = set_condition(conditions, new, now, updated=True)
    changed = [each for each in found if each.get("type") == new["type"] and each not in conditions]
    return [*(each for each in found if each not in changed), *changed]


def _progress(status: str, reason: str, message: str) -> JSON:
    return {"type": "Progressing", "status": status, "reason": reason, "message": message}
