"""The table of kinds: groups, versions, names, scopes, verbs and subresources.

Discovery, routing, OpenAPI and Table output all read this table. Custom resources are added at run time.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

from kubesched.apiserver.kinds.fields import FIELDS, FieldPaths
from kubesched.apiserver.wire.status import NoSuchPageError, no_such_path, qualified
from kubesched.base.types import JSON

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)
_RETURNS_DELETED = frozenset(
    (
        "/persistentvolumeclaims",
        "/persistentvolumes",
        "/pods",
        "/podtemplates",
        "/resourcequotas",
        "/serviceaccounts",
        "/services",
        *(f"resource.k8s.io/{plural}" for plural in ("deviceclasses", "devicetaintrules", "resourceclaims")),
        *(f"resource.k8s.io/{plural}" for plural in ("resourceclaimtemplates", "resourceslices")),
        *(f"storage.k8s.io/{plural}" for plural in ("csidrivers", "csinodes", "storageclasses")),
        *(f"storage.k8s.io/{plural}" for plural in ("volumeattachments", "volumeattributesclasses")),
    )
)
_ONE_AT_A_TIME = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource, such as status: its verbs, and the kind of its body if it is not the object's."""

    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


STATUS = Subresource("status", ("get", "patch", "update"))
SCALE = Subresource("scale", ("get", "patch", "update"), "Scale", "autoscaling", "v1")
BINDING = Subresource("binding", CREATE_ONLY, "Binding", "", "v1")
EVICTION = Subresource("eviction", CREATE_ONLY, "Eviction", "policy", "v1")
TOKEN = Subresource("token", CREATE_ONLY, "TokenRequest", "authentication.k8s.io", "v1")
EPHEMERAL = Subresource("ephemeralcontainers", ("get", "patch", "update"))
APPROVAL = Subresource("approval", ("get", "patch", "update"))
RESIZE = Subresource("resize", ("get", "patch", "update"))
FINALIZE = Subresource("finalize", ("update",))
ATTACH = Subresource("attach", ("create", "get"), "PodAttachOptions")
EXEC = Subresource("exec", ("create", "get"), "PodExecOptions")
LOG = Subresource("log", ("get",))
PORT_FORWARD = Subresource("portforward", ("create", "get"), "PodPortForwardOptions")
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")
NODE_PROXY = Subresource("proxy", _PROXY_VERBS, "NodeProxyOptions")
POD_PROXY = Subresource("proxy", _PROXY_VERBS, "PodProxyOptions")
SERVICE_PROXY = Subresource("proxy", _PROXY_VERBS, "ServiceProxyOptions")


@dataclass(frozen=True, slots=True, eq=False)
class ApiResource:
    """A kind as it is served. Compared by identity, so that it can be a cheap dictionary key."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    singular: str = ""
    schema: str = ""
    """The name of its type among the schemas; empty for a custom resource."""
    stored_as: str = ""
    """The storage name of the other resource, if one kind of object is served in two groups."""
    stored_version: str = ""
    """The version that its objects are stored in, if it is another one with the same fields."""
    storage_version: str = ""
    """The storage version for discovery's hash, if it is another one: that of a definition, or upstream's."""
    custom: bool = False
    field_paths: FieldPaths = field(default_factory=dict)
    complete_on_read: Callable[[JSON], None] | None = None
    """Fills in defaults that a definition got after an object was stored; None if there are none."""
    storage: str = field(init=False)
    """The name of its shelf in the store. It has no version, because all versions share their objects."""
    has_status: bool = field(init=False)
    """Whether it has the subresource `status`."""
    group_version: str = field(init=False)
    """As objects have it in `apiVersion`."""

    def __post_init__(self) -> None:
        # No properties: every write reads them several times.
        object.__setattr__(self, "storage", self.stored_as or f"{self.group}/{self.plural}")
        object.__setattr__(self, "has_status", any(each.name == "status" for each in self.subresources))
        object.__setattr__(self, "group_version", f"{self.group}/{self.version}" if self.group else self.version)

    @property
    def group_version_kind(self) -> JSON:
        return {"group": self.group, "version": self.version, "kind": self.kind}

    @property
    def returns_deleted(self) -> bool:
        """Whether the response to a deletion is the object. That of most kinds is a Status."""
        return self.storage in _RETURNS_DELETED

    @property
    def storage_hash(self) -> str:
        """Discovery's hash of the group, version and kind in which objects are stored. Empty if they are not."""
        if "watch" not in self.verbs:
            return ""
        main = next((each for each in BUILT_IN if each.storage == self.storage), self)
        version = self.storage_version or self.stored_version or main.version
        digest = sha256(f"{main.group}/{version}/{self.kind}".encode()).digest()
        return b64encode(digest[:8]).decode()

    @property
    def qualified(self) -> str:
        """As messages name it: ``pods``, ``deployments.apps``."""
        return qualified(self.plural, self.group)

    @property
    def is_stored(self) -> bool:
        """Whether its objects are stored. Reviews and the like are not."""
        return self.verbs != CREATE_ONLY

    def subresource(self, name: str) -> Subresource:
        for subresource in self.subresources:
            if subresource.name == name:
                return subresource
        raise no_such_path()

    def key(self, namespace: str, name: str) -> str:
        return f"{namespace}/{name}" if self.namespaced else name


_STORED_AS_BETA = ("CustomResourceDefinition", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
"""Kinds that kube-apiserver 1.36 stores in an older version than the one that it serves."""


def _kind(
    group_version: str,
    kind: str,
    plural: str,
    short_names: str = "",
    *,
    cluster: bool = False,
    subresources: tuple[Subresource, ...] = (),
    categories: str = "",
    verbs: tuple[str, ...] = ALL_VERBS,
    stored_as: str = "",
    schema_group: str = "",
    stored_version: str = "",
) -> ApiResource:
    group, _, version = group_version.rpartition("/")
    return ApiResource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=not cluster,
        short_names=tuple(short_names.split()),
        categories=tuple(categories.split()),
        subresources=subresources,
        verbs=verbs,
        singular=kind.lower(),
        schema=f"{schema_group or _schema_group(group)}.{kind}",
        stored_as=stored_as,
        stored_version=stored_version,
        field_paths=FIELDS.get((group, plural), {}),
        storage_version="v1beta1" if kind in _STORED_AS_BETA else "",
    )


def _policy(kind: str, plural: str, subresources: tuple[Subresource, ...] = ()) -> ApiResource:
    return _kind(
        "admissionregistration.k8s.io/v1",
        kind,
        plural,
        cluster=True,
        subresources=subresources,
        categories="api-extensions",
    )


def _schema_group(group: str) -> str:
    return group.split(".")[0] if group else "core"


_RBAC = "rbac.authorization.k8s.io/v1"
_STORAGE = "storage.k8s.io/v1"
_AUTHORIZATION = "authorization.k8s.io/v1"
_AUTHENTICATION = "authentication.k8s.io/v1"
_RESOURCE = "resource.k8s.io/v1"
_TAINT_RULES = "resource.k8s.io/v1beta2"
_WORKLOADS = "scheduling.k8s.io/v1alpha2"
_NETWORKING = "networking.k8s.io/v1"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io/v1"
_POD_SUBRESOURCES = (ATTACH, BINDING, EPHEMERAL, EVICTION, EXEC, LOG, PORT_FORWARD, POD_PROXY, RESIZE, STATUS)

BUILT_IN: tuple[ApiResource, ...] = (
    _kind("v1", "Binding", "bindings", verbs=CREATE_ONLY),
    _kind("v1", "ConfigMap", "configmaps", "cm"),
    _kind("v1", "Endpoints", "endpoints", "ep"),
    _kind("v1", "Event", "events", "ev"),
    _kind("v1", "LimitRange", "limitranges", "limits"),
    _kind("v1", "Namespace", "namespaces", "ns", cluster=True, subresources=(FINALIZE, STATUS), verbs=_ONE_AT_A_TIME),
    _kind("v1", "Node", "nodes", "no", cluster=True, subresources=(NODE_PROXY, STATUS)),
    _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources=(STATUS,)),
    _kind("v1", "PersistentVolume", "persistentvolumes", "pv", cluster=True, subresources=(STATUS,)),
    _kind("v1", "Pod", "pods", "po", subresources=_POD_SUBRESOURCES, categories="all"),
    _kind("v1", "PodTemplate", "podtemplates"),
    _kind(
        "v1", "ReplicationController", "replicationcontrollers", "rc", subresources=(SCALE, STATUS), categories="all"
    ),
    _kind("v1", "ResourceQuota", "resourcequotas", "quota", subresources=(STATUS,)),
    _kind("v1", "Secret", "secrets"),
    _kind("v1", "ServiceAccount", "serviceaccounts", "sa", subresources=(TOKEN,)),
    _kind("v1", "Service", "services", "svc", subresources=(SERVICE_PROXY, STATUS), categories="all"),
    _kind("apps/v1", "ControllerRevision", "controllerrevisions"),
    _kind("apps/v1", "DaemonSet", "daemonsets", "ds", subresources=(STATUS,), categories="all"),
    _kind("apps/v1", "Deployment", "deployments", "deploy", subresources=(SCALE, STATUS), categories="all"),
    _kind("apps/v1", "ReplicaSet", "replicasets", "rs", subresources=(SCALE, STATUS), categories="all"),
    _kind("apps/v1", "StatefulSet", "statefulsets", "sts", subresources=(SCALE, STATUS), categories="all"),
    _kind("events.k8s.io/v1", "Event", "events", "ev", stored_as="/events"),
    _kind(_AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", cluster=True, verbs=CREATE_ONLY),
    _kind(_AUTHENTICATION, "TokenReview", "tokenreviews", cluster=True, verbs=CREATE_ONLY),
    _kind(_AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=CREATE_ONLY),
    _kind(_AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", cluster=True, verbs=CREATE_ONLY),
    _kind(_AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", cluster=True, verbs=CREATE_ONLY),
    _kind(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", cluster=True, verbs=CREATE_ONLY),
    _kind("batch/v1", "CronJob", "cronjobs", "cj", subresources=(STATUS,), categories="all"),
    _kind("batch/v1", "Job", "jobs", subresources=(STATUS,), categories="all"),
    _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", subresources=(STATUS,)),
    _kind(_RBAC, "ClusterRoleBinding", "clusterrolebindings", cluster=True),
    _kind(_RBAC, "ClusterRole", "clusterroles", cluster=True),
    _kind(_RBAC, "RoleBinding", "rolebindings"),
    _kind(_RBAC, "Role", "roles"),
    _kind(_STORAGE, "CSIDriver", "csidrivers", cluster=True),
    _kind(_STORAGE, "CSINode", "csinodes", cluster=True),
    _kind(_STORAGE, "CSIStorageCapacity", "csistoragecapacities"),
    _kind(_STORAGE, "StorageClass", "storageclasses", "sc", cluster=True),
    _kind(_STORAGE, "VolumeAttachment", "volumeattachments", cluster=True, subresources=(STATUS,)),
    _kind(_STORAGE, "VolumeAttributesClass", "volumeattributesclasses", "vac", cluster=True),
    _kind(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd crds",
        cluster=True,
        subresources=(STATUS,),
        categories="api-extensions",
    ),
    _kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", cluster=True),
    _kind(_WORKLOADS, "PodGroup", "podgroups", subresources=(STATUS,)),
    _kind(_WORKLOADS, "Workload", "workloads"),
    _kind("coordination.k8s.io/v1", "Lease", "leases"),
    _kind(
        "apiregistration.k8s.io/v1",
        "APIService",
        "apiservices",
        cluster=True,
        subresources=(STATUS,),
        categories="api-extensions",
    ),
    _kind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", cluster=True),
    _kind(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        subresources=(STATUS,),
        categories="all",
    ),
    _kind(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        subresources=(STATUS,),
        categories="all",
        schema_group="autoscalingv1",
    ),
    _kind(_NETWORKING, "IngressClass", "ingressclasses", cluster=True),
    _kind(_NETWORKING, "Ingress", "ingresses", "ing", subresources=(STATUS,)),
    _kind(_NETWORKING, "IPAddress", "ipaddresses", "ip", cluster=True),
    _kind(_NETWORKING, "NetworkPolicy", "networkpolicies", "netpol"),
    _kind(_NETWORKING, "ServiceCIDR", "servicecidrs", cluster=True, subresources=(STATUS,)),
    _kind(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "csr",
        cluster=True,
        subresources=(APPROVAL, STATUS),
    ),
    _policy("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
    _policy("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
    _policy("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    _policy("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    _policy("ValidatingAdmissionPolicy", "validatingadmissionpolicies", subresources=(STATUS,)),
    _policy("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    _kind(_FLOW_CONTROL, "FlowSchema", "flowschemas", cluster=True, subresources=(STATUS,)),
    _kind(
        _FLOW_CONTROL,
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        cluster=True,
        subresources=(STATUS,),
    ),
    _kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    _kind(_RESOURCE, "DeviceClass", "deviceclasses", cluster=True),
    _kind(_RESOURCE, "ResourceClaim", "resourceclaims", subresources=(STATUS,)),
    _kind(_RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates"),
    _kind(_RESOURCE, "ResourceSlice", "resourceslices", cluster=True),
    _kind(_TAINT_RULES, "DeviceTaintRule", "devicetaintrules", cluster=True, subresources=(STATUS,)),
    _kind(
        "resource.k8s.io/v1alpha3",
        "DeviceTaintRule",
        "devicetaintrules",
        cluster=True,
        subresources=(STATUS,),
        stored_version="v1beta2",
    ),
)

COMPONENT_STATUSES = _kind("v1", "ComponentStatus", "componentstatuses", "cs", cluster=True, verbs=("get", "list"))
NODE_METRICS = _kind("metrics.k8s.io/v1beta1", "NodeMetrics", "nodes", cluster=True, verbs=("get", "list"))
POD_METRICS = _kind("metrics.k8s.io/v1beta1", "PodMetrics", "pods", verbs=("get", "list"))
"""Served where something computes them."""


class ResourceRegistry:
    """The served kinds, built-in and custom."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str, str], ApiResource] = {}
        self.generation = 0
        """Grows with every change, to invalidate caches."""
        for resource in BUILT_IN:
            self.add(resource)

    def add(self, resource: ApiResource) -> None:
        self._resources[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, resource: ApiResource) -> None:
        self._resources.pop((resource.group, resource.version, resource.plural), None)
        self.generation += 1

    def find(self, group: str, version: str, plural: str) -> ApiResource:
        """The resource at a path; 404 if there is none."""
        found = self._resources.get((group, version, plural))
        if found is None:
            raise no_such_path() if self.of(group, version) else NoSuchPageError()
        return found

    def __iter__(self) -> Iterator[ApiResource]:
        return iter(tuple(self._resources.values()))

    def groups(self) -> dict[str, list[str]]:
        """Each group's versions, the preferred one first."""
        groups: dict[str, list[str]] = {}
        for group, version, _ in self._resources:
            versions = groups.setdefault(group, [])
            if version not in versions:
                versions.append(version)
        return groups

    def of(self, group: str, version: str) -> list[ApiResource]:
        """The resources of a group and version."""
        return [r for r in self._resources.values() if (r.group, r.version) == (group, version)]

    def by_kind(self, group: str, kind: str) -> ApiResource | None:
        """A resource by the kind of its objects, in its preferred version."""
        return next((r for r in self._resources.values() if (r.group, r.kind) == (group, kind)), None)
