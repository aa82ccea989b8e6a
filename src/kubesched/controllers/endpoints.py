"""Endpoints and EndpointSlices: the pods behind each Service."""

from __future__ import annotations

from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.base.types import JSON
from kubesched.controllers.ownership import controller_reference
from kubesched.reconcile.access import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod

MAX_ENDPOINTS = 1000
"""Maximum number of endpoints per Service: upstream's limit for an Endpoints object and for a slice."""
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY, ENDPOINTS_MANAGED_BY = "endpointslice.kubernetes.io/managed-by", "endpoints.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
ZONE = "topology.kubernetes.io/zone"


class EndpointsController(Controller):
    """Maintains an EndpointSlice and an Endpoints object for every Service with a selector."""

    name = "endpoint-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._selectors: dict[str, dict[str, dict[str, str]]] = {}
        shelf = self._access.store.shelf(SERVICES)
        for record in shelf.records.values():
            self._learn(record.key, record.load())
        shelf.observers.append(self._on_service)

    def _on_service(self, event: StoreEvent) -> None:
        if event.change is ChangeType.DELETED:
            self._selectors.get(event.record.namespace, {}).pop(event.record.key, None)
            self.enqueue(event.record.key)
        else:
            self._learn(event.record.key, event.record.load())

    def _learn(self, key: str, service: JSON) -> None:
        known = self._selectors.setdefault(key.partition("/")[0], {})
        selector = service["spec"].get("selector")
        if selector:
            known[key] = selector
            self._context.pods.watch_changes(self._on_pod)
            self.enqueue(key)
        else:
            known.pop(key, None)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        namespace = "" if pod is None else pod.metadata.namespace
        selectors = self._selectors.get(namespace)
        if not selectors or (old is not None and new is not None and _shown(old) == _shown(new)):
            return
        for key, selector in selectors.items():
            if any(_selects(selector, pod) for pod in (old, new) if pod is not None):
                self.enqueue_one_of(key, self._context.pods_by_namespace.size(namespace))

    def sync(self, key: str) -> None:
        service = self._access.get(SERVICES, key)
        if service is None:
            self._access.delete(ENDPOINTS, key)
            return
        selector = service["spec"].get("selector")
        if not selector or "deletionTimestamp" in service["metadata"]:
            return
        namespace = key.partition("/")[0]
        pods = [
            pod
            for pod in self._context.pods_by_namespace.get(namespace)
            if _selects(selector, pod) and pod.status.pod_ip and not pod.has_ended
        ]
        pods.sort(key=lambda pod: pod.metadata.name)
        self._write_slice(key, service, pods[:MAX_ENDPOINTS])
        self._write_endpoints(key, service, pods[:MAX_ENDPOINTS])

    # --- the two forms ------------------------------------------------------------------------------------------------

    def _write_slice(self, key: str, service: JSON, pods: list[Pod]) -> None:
        meta = service["metadata"]
        body: JSON = {
            "metadata": {
                "name": f"{meta['name']}-{meta['uid'][:5]}",
                "namespace": meta["namespace"],
                "labels": {
                    **_labels(service),
                    SERVICE_NAME: meta["name"],
                    MANAGED_BY: "endpointslice-controller.k8s.io",
                },
                "ownerReferences": [controller_reference(service)],
            },
            "addressType": "IPv4",
            "endpoints": [self._endpoint(pod, service) for pod in pods],
            "ports": _ports(service, pods, with_name=True),
        }
        self._store(ENDPOINT_SLICES, body, ("endpoints", "ports"))

    def _endpoint(self, pod: Pod, service: JSON) -> JSON:
        serving, terminating = pod.is_ready, pod.metadata.being_deleted
        ready = _publishes_all(service) or (serving and not terminating)
        node = self._context.nodes.objects.get(pod.spec.node_name)
        zone = "" if node is None else node.metadata.labels.get(ZONE, "")
        return {
            "addresses": [pod.status.pod_ip],
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            **_hostname(pod, service),
            "nodeName": pod.spec.node_name,
            "targetRef": _target(pod),
            **({"zone": zone} if zone else {}),
        }

    def _write_endpoints(self, key: str, service: JSON, pods: list[Pod]) -> None:
        every = _publishes_all(service)
        listed = [pod for pod in pods if every or not pod.metadata.being_deleted]
        ready = [_address(pod, service) for pod in listed if every or pod.is_ready]
        unready = [_address(pod, service) for pod in listed if not every and not pod.is_ready]
        subset: JSON = {}
        if ready:
            subset["addresses"] = ready
        if unready:
            subset["notReadyAddresses"] = unready
        if subset:
            subset["ports"] = _ports(service, pods, with_name=False)
        meta = {"name": service["metadata"]["name"], "namespace": service["metadata"]["namespace"]}
        meta["labels"] = {**_labels(service), ENDPOINTS_MANAGED_BY: self.name}
        self._store(ENDPOINTS, {"metadata": meta, "subsets": [subset] if subset else []}, ("subsets",))

    def _store(self, storage: str, body: JSON, parts: tuple[str, ...]) -> None:
        meta = body["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        found = self._access.get(storage, key)
        if found is None:
            self._access.create(storage, body)
            return
        labels = meta["labels"]
        if found["metadata"].get("labels") == labels and all((found.get(part) or []) == body[part] for part in parts):
            return

        def edit(obj: JSON) -> None:
            obj.update({part: body[part] for part in parts})
            obj["metadata"]["labels"] = labels

        self._access.edit(storage, key, edit)


def _selects(selector: dict[str, str], pod: Pod) -> bool:
    labels = pod.metadata.labels
    return all(labels.get(name) == wanted for name, wanted in selector.items())


def _shown(pod: Pod) -> tuple[object, ...]:
    """Return the parts of a pod that affect its endpoint."""
    return (pod.metadata.labels, pod.metadata.being_deleted, pod.status.pod_ip, pod.is_ready, pod.has_ended)


def _target(pod: Pod) -> JSON:
    meta = pod.metadata
    return {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}


def _publishes_all(service: JSON) -> bool:
    """Whether pods get traffic before they are ready, as members of a cluster that find one another need."""
    return bool(service["spec"].get("publishNotReadyAddresses"))


def _labels(service: JSON) -> JSON:
    """The labels that its endpoints get from a service."""
    labels = dict(service["metadata"].get("labels") or {})
    labels.pop(HEADLESS, None)
    return labels | ({HEADLESS: ""} if service["spec"].get("clusterIP") in (None, "", "None") else {})


def _hostname(pod: Pod, service: JSON) -> JSON:
    """The name of a pod in the domain of its service, as members of a StatefulSet have one."""
    spec = pod.spec
    return {"hostname": spec.hostname} if spec.hostname and spec.subdomain == service["metadata"]["name"] else {}


def _address(pod: Pod, service: JSON) -> JSON:
    where = {"nodeName": pod.spec.node_name, "targetRef": _target(pod)}
    return {"ip": pod.status.pod_ip, **_hostname(pod, service), **where}


def _ports(service: JSON, pods: list[Pod], *, with_name: bool) -> list[JSON]:
    """Return the Service's ports with target numbers. A named port is looked up in the first pod that has it."""
    ports = []
    for port in service["spec"].get("ports") or []:
        number = port.get("targetPort", port.get("port"))
        if isinstance(number, str):
            named = number
            found = [
                each.container_port
                for pod in pods
                for container in pod.spec.containers
                for each in container.ports
                if each.name == named
            ]
            if not found:
                continue
            number = found[0]
        entry: JSON = {"port": number, "protocol": port.get("protocol", "TCP")}
        if with_name or port.get("name"):
            entry["name"] = port.get("name", "")
        if port.get("appProtocol"):
            entry["appProtocol"] = port["appProtocol"]
        ports.append(entry)
    return ports
