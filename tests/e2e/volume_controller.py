"""The volume controller's part, played by the test: there is none in these clusters."""

from __future__ import annotations

from tests.e2e.api import CORE, JSON
from tests.e2e.stage import Stage
from tests.e2e.waiting import until


def claim_named(stage: Stage, name: str) -> JSON:
    """A claim as it is."""
    return stage.api.get(f"{CORE}/namespaces/default/persistentvolumeclaims/{name}")


def complete_when_given(stage: Stage, name: str, volume: str) -> None:
    """When the scheduler has given a volume to a claim, do what the controller does: complete the pair."""
    path = f"{CORE}/persistentvolumes/{volume}"
    until(lambda: stage.api.get(path)["spec"].get("claimRef", {}).get("name") == name, f"{volume} is given to {name}")
    _complete(stage, name, volume)


def bind_claim(stage: Stage, name: str, volume: str) -> None:
    """Bind a claim to a volume as the volume controller does."""
    meta = claim_named(stage, name)["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "name": name,
        "namespace": "default",
        "uid": meta["uid"],
    }
    stage.api.patch(f"{CORE}/persistentvolumes/{volume}", {"spec": {"claimRef": reference}})
    _complete(stage, name, volume)


def _complete(stage: Stage, name: str, volume: str) -> None:
    stage.api.patch(f"{CORE}/persistentvolumes/{volume}/status", {"status": {"phase": "Bound"}})
    path = f"{CORE}/namespaces/default/persistentvolumeclaims/{name}"
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    stage.api.patch(path, {"metadata": {"annotations": done}, "spec": {"volumeName": volume}})
    capacity = stage.api.get(f"{CORE}/persistentvolumes/{volume}")["spec"]["capacity"]
    stage.api.patch(f"{path}/status", {"status": {"phase": "Bound", "capacity": capacity}})
