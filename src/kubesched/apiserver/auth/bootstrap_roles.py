"""The default roles of every cluster, as short lines: verbs, group, resources.

`system:kube-scheduler` has exactly upstream's rights, so least privilege can be tried here. `admin`, `edit` and `view`
are aggregated by labels, as upstream.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.base.types import JSON

_ALL = "create delete deletecollection get list patch update watch"
_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"


@dataclass(frozen=True, slots=True)
class RoleRule:
    """One rule. Words are separated by spaces, and ``core`` is the group without a name."""

    verbs: str
    groups: str = ""
    resources: str = ""
    names: str = ""
    paths: str = ""

    def to_json(self) -> JSON:
        if self.paths:
            return {"nonResourceURLs": self.paths.split(), "verbs": self.verbs.split()}
        rule: JSON = {
            "apiGroups": ["" if group == "core" else group for group in self.groups.split()],
            "resources": self.resources.split(),
            "verbs": self.verbs.split(),
        }
        return {**rule, "resourceNames": self.names.split()} if self.names else rule


@dataclass(frozen=True, slots=True)
class ClusterRole:
    """A cluster role: its rules or the label that it aggregates, and the roles that aggregate it."""

    rules: tuple[RoleRule, ...] = ()
    aggregates: str = ""
    aggregate_to: tuple[str, ...] = ()


_R = RoleRule
_STORAGE = "storage.k8s.io"
_WORKLOADS = "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"
_CORE_VIEW = (
    "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers"
    " replicationcontrollers/scale serviceaccounts services services/status bindings events limitranges"
    " namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status"
    " namespaces"
)

_SCHEDULER = (
    _R("create patch update", "core events.k8s.io", "events"),
    _R("create", "coordination.k8s.io", "leases"),
    _R("get list update watch", "coordination.k8s.io", "leases", names="kube-scheduler"),
    _R(_ALL, "coordination.k8s.io", "leasecandidates"),
    _R(_READ, "core", "nodes"),
    _R("delete get list watch", "core", "pods"),
    _R("create", "core", "bindings pods/binding"),
    _R("patch update", "core", "pods/status"),
    _R(_READ, "core", "replicationcontrollers services"),
    _R(_READ, "apps extensions", "replicasets"),
    _R(_READ, "apps", "statefulsets"),
    _R(_READ, "policy", "poddisruptionbudgets"),
    _R(_READ, "core", "persistentvolumeclaims persistentvolumes"),
    _R("create", "authentication.k8s.io", "tokenreviews"),
    _R("create", "authorization.k8s.io", "subjectaccessreviews"),
    _R(_READ, _STORAGE, "csinodes volumeattachments csidrivers csistoragecapacities"),
    _R(_READ, "core", "namespaces"),
    _R(_READ, "resource.k8s.io", "deviceclasses resourceslices devicetaintrules"),
    _R("get list patch update watch create delete", "resource.k8s.io", "resourceclaims"),
    _R("get list patch update watch", "resource.k8s.io", "resourceclaims/status"),
    _R("patch update", "resource.k8s.io", "resourceclaims/binding"),
    _R("update", "core", "pods/finalizers"),
    _R(_READ, "scheduling.k8s.io", "podgroups"),
    _R("patch update", "scheduling.k8s.io", "podgroups/status"),
)

CLUSTER_ROLES: dict[str, ClusterRole] = {
    "cluster-admin": ClusterRole((_R("*", "*", "*"), _R("*", paths="*"))),
    "admin": ClusterRole(aggregates="admin"),
    "edit": ClusterRole(aggregates="edit", aggregate_to=("admin",)),
    "view": ClusterRole(aggregates="view", aggregate_to=("edit",)),
    "system:aggregate-to-admin": ClusterRole(
        (
            _R("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            _R(_ALL, "rbac.authorization.k8s.io", "rolebindings roles"),
        ),
        aggregate_to=("admin",),
    ),
    "system:aggregate-to-edit": ClusterRole(
        (
            _R(_READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
            _R("impersonate", "core", "serviceaccounts"),
            _R(_WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
            _R("create", "core", "pods/eviction serviceaccounts/token"),
            _R(
                _WRITE,
                "core",
                "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets"
                " serviceaccounts services services/proxy",
            ),
            _R(_WRITE, "events.k8s.io", "events"),
            _R(_WRITE, "apps", f"{_WORKLOADS} deployments/rollback"),
            _R(_WRITE, "autoscaling", "horizontalpodautoscalers"),
            _R(_WRITE, "batch", "cronjobs jobs"),
            _R(_WRITE, "networking.k8s.io", "ingresses networkpolicies"),
            _R(_WRITE, "policy", "poddisruptionbudgets"),
            _R(_WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
            _R(_ALL, "coordination.k8s.io", "leases"),
        ),
        aggregate_to=("edit",),
    ),
    "system:aggregate-to-view": ClusterRole(
        (
            _R(_READ, "core", _CORE_VIEW),
            _R(_READ, "events.k8s.io", "events"),
            _R(_READ, "discovery.k8s.io", "endpointslices"),
            _R(
                _READ,
                "apps",
                f"controllerrevisions {_WORKLOADS} daemonsets/status deployments/status replicasets/status"
                " statefulsets/status",
            ),
            _R(_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            _R(_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
            _R(_READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
            _R(_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            _R(_READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
        ),
        aggregate_to=("view",),
    ),
    "system:discovery": ClusterRole(
        (
            _R(
                "get",
                paths="/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
            ),
        )
    ),
    "system:public-info-viewer": ClusterRole((_R("get", paths="/healthz /livez /readyz /version /version/"),)),
    "system:basic-user": ClusterRole(
        (
            _R("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            _R("create", "authentication.k8s.io", "selfsubjectreviews"),
        )
    ),
    "system:auth-delegator": ClusterRole(
        (
            _R("create", "authentication.k8s.io", "tokenreviews"),
            _R("create", "authorization.k8s.io", "subjectaccessreviews"),
        )
    ),
    "system:monitoring": ClusterRole(
        (
            _R(
                "get",
                paths="/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz",
            ),
            _R("get", "core", "nodes/metrics"),
        )
    ),
    "system:kube-scheduler": ClusterRole(_SCHEDULER),
    "system:volume-scheduler": ClusterRole(
        (
            _R("get list patch update watch", "core", "persistentvolumes persistentvolumeclaims"),
            _R(_READ, _STORAGE, "storageclasses"),
        )
    ),
    "system:kube-controller-manager": ClusterRole(
        (
            _R("create patch update", "core events.k8s.io", "events"),
            _R("create", "coordination.k8s.io", "leases"),
            _R("get update", "coordination.k8s.io", "leases", names="kube-controller-manager"),
            _R("create", "core", "secrets serviceaccounts serviceaccounts/token"),
            _R("delete", "core", "secrets"),
            _R("get", "core", "configmaps namespaces secrets serviceaccounts"),
            _R("update", "core", "secrets serviceaccounts"),
            _R("create", "authentication.k8s.io", "tokenreviews"),
            _R("create", "authorization.k8s.io", "subjectaccessreviews"),
            _R("list watch", "*", "*"),
        )
    ),
    "system:node": ClusterRole(
        (
            _R("create", "authentication.k8s.io", "tokenreviews"),
            _R("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
            _R(_READ, "core", "services"),
            _R("create get list watch", "core", "nodes"),
            _R("patch update", "core", "nodes nodes/status"),
            _R("create patch update", "core events.k8s.io", "events"),
            _R("get list watch create delete", "core", "pods"),
            _R("patch update", "core", "pods/status"),
            _R("create", "core", "pods/eviction serviceaccounts/token"),
            _R(_READ, "core", "configmaps secrets"),
            _R("get", "core", "persistentvolumeclaims persistentvolumes endpoints serviceaccounts"),
            _R("get patch update", "core", "persistentvolumeclaims/status"),
            _R("create delete get patch update", "coordination.k8s.io", "leases"),
            _R("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
            _R(_READ, "node.k8s.io", "runtimeclasses"),
            _R("get", _STORAGE, "volumeattachments"),
            _R(_READ, _STORAGE, "csidrivers"),
            _R("create delete get patch update", _STORAGE, "csinodes"),
            _R("deletecollection", "resource.k8s.io", "resourceslices"),
            _R("get", "resource.k8s.io", "resourceclaims"),
        )
    ),
    "system:persistent-volume-provisioner": ClusterRole(
        (
            _R("create delete get list watch", "core", "persistentvolumes"),
            _R("get list update watch", "core", "persistentvolumeclaims"),
            _R(_READ, _STORAGE, "storageclasses"),
            _R("watch", "core", "events"),
            _R("create patch update", "core events.k8s.io", "events"),
        )
    ),
}

_AUTHENTICATED = ("group system:authenticated",)

CLUSTER_BINDINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cluster-admin": ("cluster-admin", ("group system:masters",)),
    "system:basic-user": ("system:basic-user", _AUTHENTICATED),
    "system:discovery": ("system:discovery", _AUTHENTICATED),
    "system:public-info-viewer": (
        "system:public-info-viewer",
        ("group system:authenticated", "group system:unauthenticated"),
    ),
    "system:monitoring": ("system:monitoring", ("group system:monitoring",)),
    "system:kube-scheduler": ("system:kube-scheduler", ("user system:kube-scheduler",)),
    "system:volume-scheduler": ("system:volume-scheduler", ("user system:kube-scheduler",)),
    "system:kube-controller-manager": ("system:kube-controller-manager", ("user system:kube-controller-manager",)),
    "system:node": ("system:node", ("group system:nodes",)),
}

_SYSTEM = "kube-system"

ROLES: dict[tuple[str, str], tuple[RoleRule, ...]] = {
    (_SYSTEM, "extension-apiserver-authentication-reader"): (
        _R(_READ, "core", "configmaps", names="extension-apiserver-authentication"),
    ),
    (_SYSTEM, "system::leader-locking-kube-scheduler"): (
        _R("watch", "core", "configmaps"),
        _R("get update", "core", "configmaps", names="kube-scheduler"),
    ),
}

ROLE_BINDINGS: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    (_SYSTEM, "system::extension-apiserver-authentication-reader"): (
        "extension-apiserver-authentication-reader",
        ("user system:kube-controller-manager", "user system:kube-scheduler"),
    ),
    (_SYSTEM, "system::leader-locking-kube-scheduler"): (
        "system::leader-locking-kube-scheduler",
        ("user system:kube-scheduler", "account kube-system:kube-scheduler"),
    ),
}
