"""The objects that every new cluster contains: namespaces, roles, priority classes, CA certificates.

Missing objects are created and existing ones are left alone, so that a restarted durable server keeps its users'
changes. Only the server's own address is always written, and default roles get the rights that they lack, as upstream.
"""

from __future__ import annotations

from copy import deepcopy

from kubesched.apiserver.auth.bootstrap_roles import DefaultRole, RoleRule, default_roles
from kubesched.apiserver.auth.rbac import GROUP
from kubesched.apiserver.rest.writer import Writer
from kubesched.base.types import JSON

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}
_SERVICE = "kubernetes"
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


class Bootstrap:
    """Fills a new store."""

    def __init__(self, writer: Writer, client_ca: str, *, all_roles: bool) -> None:
        """Without `all_roles`, those of programs that do not run here are left out."""
        self._writer = writer
        self._client_ca = client_ca
        self._all_roles = all_roles
        self._address: tuple[str, int] | None = None

    def run(self) -> None:
        for namespace in NAMESPACES:
            self._ensure("", "namespaces", "", namespace, {})
        for namespace in NAMESPACES:
            self._ensure("", "serviceaccounts", namespace, "default", {})
            if self._client_ca:
                self._ensure("", "configmaps", namespace, "kube-root-ca.crt", {"data": {"ca.crt": self._client_ca}})
        for name, (value, description) in _PRIORITIES.items():
            body = {"value": value, "description": description}
            self._ensure("scheduling.k8s.io", "priorityclasses", "", name, body)
        for role in default_roles(with_controllers=self._all_roles):
            self._role(role)
        self._client_ca_map()
        self._kubernetes_service()

    def _role(self, role: DefaultRole) -> None:
        """Create a role and its binding."""
        kind = "Role" if role.namespace else "ClusterRole"
        body: JSON = {"rules": [rule.to_json() for rule in role.rules]}
        if role.aggregates:
            selector = {"matchLabels": {f"{GROUP}/aggregate-to-{role.aggregates}": "true"}}
            body["aggregationRule"] = {"clusterRoleSelectors": [selector]}
        labels = {f"{GROUP}/aggregate-to-{role.aggregate_to}": "true"} if role.aggregate_to else {}
        plural = f"{kind.lower()}s"
        self._ensure(GROUP, plural, role.namespace, role.name, body, {**_LABELS, **labels})
        self._complete(plural, role.namespace, role.name, "rules", body["rules"])
        if role.subjects:
            plural = f"{kind.lower()}bindings"
            body = {"roleRef": _reference(kind, role.name), "subjects": [_subject(each) for each in role.subjects]}
            self._ensure(GROUP, plural, role.namespace, role.binding, body, _LABELS)
            self._complete(plural, role.namespace, role.binding, "subjects", body["subjects"])

    def _complete(self, plural: str, namespace: str, name: str, field: str, wanted: list[JSON]) -> None:
        """Add what a role or binding of an older version lacks, unless its users have forbidden that."""
        resource = self._writer.registry.find(GROUP, "v1", plural)
        record = self._writer.find(resource, namespace, name)
        obj = record.load()
        known = obj.get(field) or []
        missing = [each for each in wanted if each not in known]
        annotations = obj["metadata"].get("annotations") or {}
        if missing and annotations.get(_AUTOUPDATE) == "true":
            self._writer.put(resource, record, {**obj, field: [*known, *missing]})

    def _client_ca_map(self) -> None:
        """The ConfigMap in which other servers, such as a scheduler's, find the client CA to trust."""
        if self._client_ca:
            data = {"client-ca-file": self._client_ca}
            name = "extension-apiserver-authentication"
            self._ensure("", "configmaps", "kube-system", name, {"data": data})

    def _kubernetes_service(self) -> None:
        spec = {"clusterIP": "10.96.0.1", "ports": _service_ports(6443)}
        labels = {"component": "apiserver", "provider": "kubernetes"}
        self._ensure("", "services", "default", _SERVICE, {"spec": spec}, labels)

    def grant(self, name: str, user: str, rule: RoleRule) -> None:
        """Give a user one more right, by a cluster role and a binding of this name."""
        self._ensure(GROUP, "clusterroles", "", name, {"rules": [rule.to_json()]})
        body = {"roleRef": _reference("ClusterRole", name), "subjects": [_subject(f"user {user}")]}
        self._ensure(GROUP, "clusterrolebindings", "", name, body)

    def define(self, definition: JSON) -> None:
        """Install a custom resource definition."""
        # Defaults are written into what is stored, and other servers of this process may use the same definition.
        body = deepcopy({"metadata": definition["metadata"], "spec": definition["spec"]})
        self._ensure("apiextensions.k8s.io", "customresourcedefinitions", "", body["metadata"]["name"], body)

    def announce(self, address: str, port: int) -> None:
        """Write the server's address to the endpoints of the service `kubernetes`, replacing an earlier server's."""
        self._address = address, port
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        services = self._writer.registry.find("", "v1", "services")
        spec = {"ports": _service_ports(port)}
        self._writer.update(services, "default", _SERVICE, lambda old: {**old, "spec": {**old["spec"], **spec}})
        subset = {"addresses": [{"ip": address}], "ports": ports}
        self._write("", "endpoints", {"subsets": [subset]}, {"endpointslice.kubernetes.io/skip-mirror": "true"})
        piece = {
            "addressType": "IPv6" if ":" in address else "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": ports,
        }
        self._write("discovery.k8s.io", "endpointslices", piece, {"kubernetes.io/service-name": _SERVICE})

    def restore_service(self) -> None:
        """Create the service `kubernetes` and its endpoints again if somebody has deleted or changed them."""
        self._kubernetes_service()
        if self._address is not None:
            self.announce(*self._address)

    def _write(self, group: str, plural: str, body: JSON, labels: dict[str, str]) -> None:
        """Write endpoints unchecked: those of a server on a loopback address are no valid ones."""
        resource = self._writer.registry.find(group, "v1", plural)
        first = {"addressType": body["addressType"]} if "addressType" in body else {}
        self._ensure(group, plural, "default", _SERVICE, first, labels)
        record = self._writer.find(resource, "default", _SERVICE)
        old = record.load()
        if (new := {**old, **body}) != old:
            self._writer.put(resource, record, new)

    def _ensure(
        self, group: str, plural: str, namespace: str, name: str, body: JSON, labels: dict[str, str] | None = None
    ) -> None:
        resource = self._writer.registry.find(group, "v1", plural)
        if self._writer.store.get(resource.storage, resource.key(namespace, name)) is not None:
            return
        meta: JSON = {"name": name}
        if labels:
            meta["labels"] = dict(labels)
        if labels and group == GROUP:
            meta["annotations"] = {_AUTOUPDATE: "true"}
        head = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": meta}
        self._writer.create(resource, namespace, {**head, **body})


def _service_ports(target: int) -> list[JSON]:
    return [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": target}]


def _reference(kind: str, name: str) -> JSON:
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def _subject(text: str) -> JSON:
    """A subject from ``user NAME``, ``group NAME`` or ``account NAMESPACE:NAME``."""
    kind, _, name = text.partition(" ")
    if kind == "account":
        namespace, _, account = name.partition(":")
        return {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return {"apiGroup": GROUP, "kind": {"user": "User", "group": "Group"}[kind], "name": name}
