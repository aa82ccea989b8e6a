"""A kopf operator: a Site has a Deployment of as many replicas as it says, and its status tells how many are ready.

Run by ``kopf run``; see test_clients.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import kopf

kubernetes: Any = import_module("kubernetes")
GROUP, VERSION, PLURAL = PLACE = ("shop.example.com", "v1", "sites")


@kopf.on.startup()
def connect(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Find the cluster as kubectl does, and write events of handlers."""
    kubernetes.config.load_kube_config()
    settings.posting.enabled = True


@kopf.on.create(*PLACE)
def deploy(name: str, namespace: str | None, spec: kopf.Spec, **_: Any) -> dict[str, str]:
    """Create the Deployment. It belongs to the Site, and is deleted with it."""
    labels = {"site": name}
    container = {"name": "web", "image": spec["image"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    body: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template},
    }
    kopf.adopt(body)
    made = kubernetes.client.AppsV1Api().create_namespaced_deployment(namespace, body)
    return {"deployment": made.metadata.name}


@kopf.on.field(*PLACE, field="spec.replicas", old=kopf.PRESENT, new=kopf.PRESENT)
def scale(name: str, namespace: str | None, new: Any, **_: Any) -> None:
    """Scale the Deployment."""
    change = {"spec": {"replicas": new}}
    kubernetes.client.AppsV1Api().patch_namespaced_deployment_scale(name, namespace, change)


@kopf.on.event("apps", "v1", "deployments", labels={"site": kopf.PRESENT})
def report(name: str, namespace: str | None, status: kopf.Status, type: str, **_: Any) -> None:
    """Write the number of ready replicas to the Site's status."""
    if type != "DELETED":
        change = {"status": {"ready": status.get("readyReplicas", 0)}}
        sites = kubernetes.client.CustomObjectsApi()
        sites.patch_namespaced_custom_object_status(GROUP, VERSION, namespace, PLURAL, name, change)


@kopf.on.delete(*PLACE)
def forget(body: kopf.Body, **_: Any) -> None:
    """Say goodbye by an Event. Until this has run, the finalizer keeps the Site."""
    kopf.info(body, reason="Goodbye", message="The site is closed.")
