"""The default admission plugins of upstream that matter for scheduling.

Namespaces must exist and not be terminating. Pods get their service account, priority and default tolerations, claims
and ingresses their class, and services their address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from kubesched.api.quantity import QuantityError, nanos
from kubesched.apiserver.admission import pod_groups
from kubesched.apiserver.admission.allocation import ServiceAddresses
from kubesched.apiserver.admission.certificate_requests import CERTIFICATE_REQUESTS, CertificateRequests
from kubesched.apiserver.admission.limit_ranges import LimitRanges
from kubesched.apiserver.admission.runtime_classes import apply_runtime_class
from kubesched.apiserver.auth.claim_status import ClaimStatusAuthorization
from kubesched.apiserver.auth.escalation import Escalation
from kubesched.apiserver.auth.rbac import Authorizer
from kubesched.apiserver.kinds.registry import ApiResource, ResourceRegistry
from kubesched.apiserver.names import NameGenerator
from kubesched.apiserver.policies.attributes import SERVER, AdmissionAttributes
from kubesched.apiserver.policies.mutating import MutatingPolicies
from kubesched.apiserver.policies.validating import ValidatingPolicies
from kubesched.apiserver.quota.ledger import QuotaLedger
from kubesched.apiserver.storage.store import Record, Store
from kubesched.apiserver.wire.request import UserInfo
from kubesched.apiserver.wire.status import Cause, forbidden, not_found
from kubesched.base.types import JSON

_PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_TOLERATION_SECONDS = 300
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
_PRIORITY_CLASSES = "scheduling.k8s.io/priorityclasses"
_POD_GROUPS = ("podgroups", "scheduling.k8s.io")
_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
_STORAGE_CLASSES = "storage.k8s.io/storageclasses"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_REQUESTER = ("username", "groups", "uid", "extra")
"""The fields of a certificate request that say who made it."""
_DEVICE_CLAIMS = ("resource.k8s.io/resourceclaims", "resource.k8s.io/resourceclaimtemplates")
_ADMIN_ACCESS = "resource.kubernetes.io/admin-access"
_MIRROR = "kubernetes.io/config.mirror"
_LIMITED = {"/pods": "resize", "/persistentvolumeclaims": ""}
"""The kinds that limit ranges apply to, and the part of them that an update can change."""


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Settings that need a controller for the other half of the work."""

    require_service_accounts: bool = False
    """Refuse pods whose service account does not exist. Needs the controller that creates default accounts."""
    taint_new_nodes: bool = False
    """Taint nodes as not ready when they register. Needs the controller that removes the taint."""
    protect_in_use: bool = False
    """Give volumes, claims and pod groups the finalizer that protects them while in use. Needs the controllers that
    remove it."""
    complete_pods: bool = True
    """Run the plugins ServiceAccount and Priority. Without them, pods keep what their spec says."""


class Admission:
    """Changes or refuses objects before they are checked and stored."""

    def __init__(
        self,
        store: Store,
        registry: ResourceRegistry,
        settings: AdmissionSettings,
        random: Random,
        authorizer: Authorizer,
    ) -> None:
        self._store = store
        self.quotas = QuotaLedger(store, registry)
        self._policies = ValidatingPolicies(store, registry, authorizer)
        self.mutating = MutatingPolicies(store, registry, authorizer)
        self._names = NameGenerator(random)
        self._escalation = Escalation(authorizer)
        self._certificate_requests = CertificateRequests(authorizer)
        self._claim_status = ClaimStatusAuthorization(authorizer)
        self.settings = settings
        self._addresses = ServiceAddresses(store, random)
        self._limit_ranges = LimitRanges(store)
        self._create: dict[str, Callable[[JSON], None]] = {
            "/pods": self._pod,
            "/nodes": self._node,
            "/persistentvolumeclaims": self._claim,
            "/persistentvolumes": self._volume,
            "/services": self._addresses.assign,
            "scheduling.k8s.io/podgroups": self._pod_group,
            _PRIORITY_CLASSES: self._only_default,
            "networking.k8s.io/ingresses": self._ingress,
        }

    # --- namespaces ---------------------------------------------------------------------------------------------------

    def check_namespace(self, resource: ApiResource, namespace: str, obj: JSON) -> None:
        """Refuse creation in a namespace that does not exist or is terminating."""
        if not resource.namespaced:
            return
        record = self._store.get("/namespaces", namespace)
        if record is None:
            raise not_found("namespaces", "", namespace)
        if record.fields.get("status.phase") == "Terminating":
            cause = Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource.plural, resource.group, obj["metadata"].get("name", ""), why, (cause,))

    # --- the three verbs ----------------------------------------------------------------------------------------------

    def create(self, resource: ApiResource, obj: JSON, user: UserInfo | None) -> None:
        self._escalation.check(resource, None, obj, user)
        if resource.storage == CERTIFICATE_REQUESTS:
            sent = {field: value for field, value in (obj.get("spec") or {}).items() if field not in _REQUESTER}
            obj["spec"] = {**sent, **_requester(user or SERVER)}
        act = self._create.get(resource.storage)
        if act is not None:
            act(obj)
        if resource.storage in _LIMITED:
            self._limit_ranges.apply(resource, obj)

    def problems(self, resource: ApiResource, obj: JSON) -> list[Cause]:
        """The problems of a new object that depend on other objects."""
        if resource.storage not in _DEVICE_CLAIMS:
            return []
        spec = obj.get("spec") or {}
        if resource.storage != _DEVICE_CLAIMS[0]:
            spec = spec.get("spec") or {}
        requests = (spec.get("devices") or {}).get("requests") or []
        return self._admin_access([each.get("exactly") or {} for each in requests], "spec.devices.requests", obj)

    def status_problems(
        self, resource: ApiResource, old: JSON, new: JSON, verb: str, user: UserInfo | None
    ) -> list[Cause]:
        """The problems of a new status that depend on other objects, or on who writes it."""
        if resource.storage != _DEVICE_CLAIMS[0]:
            return []
        before, after = (((obj.get("status") or {}).get("allocation") or {}).get("devices") or {} for obj in (old, new))
        if any(each.get("adminAccess") for each in before.get("results") or []):
            after = {}
        found = self._admin_access(after.get("results") or [], "status.allocation.devices.results", new)
        return [*found, *self._claim_status.problems(verb, user, old, new)]

    def _admin_access(self, requests: list[JSON], path: str, obj: JSON) -> list[Cause]:
        """The problem of the first request for admin access in a namespace that does not allow it."""
        index = next((index for index, each in enumerate(requests) if each.get("adminAccess")), None)
        if index is None:
            return []
        record = self._store.get("/namespaces", obj["metadata"].get("namespace", ""))
        labels = {} if record is None else record.load()["metadata"].get("labels") or {}
        if labels.get(_ADMIN_ACCESS) == "true":
            return []
        why = f"admin access to devices requires the `{_ADMIN_ACCESS}: true` label on the containing namespace"
        return [Cause("FieldValueForbidden", f"Forbidden: {why}", f"{path}[{index}].adminAccess")]

    def update(self, resource: ApiResource, old: JSON, new: JSON, user: UserInfo | None, subresource: str = "") -> None:
        self._escalation.check(resource, old, new, user)
        if _LIMITED.get(resource.storage) == subresource and "deletionTimestamp" not in old["metadata"]:
            self._limit_ranges.apply(resource, new)
        if resource.storage == "/services":
            self._addresses.keep(old, new)
        elif resource.storage == "/pods" and old["spec"].get("tolerations") != new["spec"].get("tolerations"):
            _default_tolerations(new["spec"])
        elif resource.storage == "/persistentvolumeclaims":
            self._resized(old, new)
        elif resource.storage == _PRIORITY_CLASSES:
            self._only_default(new)

    def validate(self, attributes: AdmissionAttributes) -> None:
        """Refuse a valid object for what other objects say. Called last before it is stored."""
        storage, old, new = attributes.resource.storage, attributes.old, attributes.obj
        if old is None and new is not None and storage == "scheduling.k8s.io/podgroups":
            pod_groups.check_workload(self._store, new)
        elif old is not None and new is not None and storage == "batch/jobs" and not attributes.subresource:
            pod_groups.check_parallelism(self._store, old, new)
        elif storage == CERTIFICATE_REQUESTS:
            self._certificate_requests.check(attributes)
        self._policies.check(attributes)
        self.quotas.check(attributes)

    @property
    def asks_policies(self) -> bool:
        """Whether policies may refuse writes at all. If not, attributes of bindings need not be made."""
        return self._policies.is_used

    def check_policies(self, attributes: AdmissionAttributes) -> None:
        """Refuse the body of a subresource, such as a binding, that breaks the rule of a policy."""
        self._policies.check(attributes)

    def delete(self, resource: ApiResource, obj: JSON) -> None:
        name = obj["metadata"]["name"]
        if resource.storage == "/namespaces" and name in _PROTECTED_NAMESPACES:
            raise forbidden("namespaces", "", name, "this namespace may not be deleted")
        if resource.storage == _PRIORITY_CLASSES and name in _SYSTEM_CLASSES:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden("priorityclasses", "scheduling.k8s.io", name, why)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _pod(self, pod: JSON) -> None:
        if self.settings.complete_pods:
            self._service_account(pod)
            self._priority(pod)
        apply_runtime_class(self._store, pod)
        _default_tolerations(pod["spec"])
        if labels := self.topology_labels(pod["spec"].get("nodeName") or ""):
            pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}

    def topology_labels(self, node: str) -> JSON:
        """A node's zone and region labels, which its pods get too."""
        record = self._store.get("/nodes", node) if node else None
        return {} if record is None else {key: record.labels[key] for key in _TOPOLOGY if key in record.labels}

    def _service_account(self, pod: JSON) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        if _MIRROR in (meta.get("annotations") or {}):
            return
        name = spec.get("serviceAccountName") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self._store.get("/serviceaccounts", f"{meta['namespace']}/{name}")
        if account is None and self.settings.require_service_accounts:
            why = f'error looking up service account {meta["namespace"]}/{name}: serviceaccount "{name}" not found'
            raise forbidden("pods", "", meta.get("name", ""), why)
        if _mounts_token(spec, account):
            _mount_token(spec, self._names.suffix())

    def _priority(self, pod: JSON) -> None:
        spec = pod["spec"]
        name = spec.get("priorityClassName") or ""
        found = self._priority_class(pod, name)
        value, policy = (found["value"], found.get("preemptionPolicy")) if found else (0, None)
        policy = policy or "PreemptLowerPriority"
        if found and not name:
            spec["priorityClassName"] = found["metadata"]["name"]
        self._check_given(pod, "priority", spec.get("priority"), value)
        if spec.get("preemptionPolicy") not in (None, policy):
            why = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec;"
                f" priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise forbidden("pods", "", pod["metadata"].get("name", ""), why)
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def _pod_group(self, group: JSON) -> None:
        """A group has a priority of its own, which counts when it preempts or is preempted as a whole."""
        spec = group["spec"] = group.get("spec") or {}
        found = self._priority_class(group, spec.get("priorityClassName") or "", _POD_GROUPS)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
            spec["priority"] = found["value"]
        spec.setdefault("disruptionMode", "Pod")
        if self.settings.protect_in_use:
            _add_finalizer(group, pod_groups.FINALIZER)

    def _check_given(self, pod: JSON, field: str, given: int | None, computed: int) -> None:
        if given not in (None, computed):
            why = (
                f"the integer value of {field} ({given}) must not be provided in pod spec;"
                f" priority admission controller computed {computed} from the given PriorityClass name"
            )
            raise forbidden("pods", "", pod["metadata"].get("name", ""), why)

    def _priority_class(self, obj: JSON, name: str, kind: tuple[str, str] = ("pods", "")) -> JSON | None:
        if not name:
            return self._default_priority_class()
        record = self._store.get(_PRIORITY_CLASSES, name)
        if record is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(*kind, obj["metadata"].get("name", ""), why)
        return record.load()

    def _default_priority_class(self) -> JSON | None:
        """The default priority class. If there are several, the lowest, then the first by name."""
        records = self._store.shelf(_PRIORITY_CLASSES).records.values()
        defaults = [record.load() for record in records if b'"globalDefault":true' in record.data]
        return min(defaults, key=lambda c: (int(c.get("value", 0)), c["metadata"]["name"])) if defaults else None

    def _only_default(self, new: JSON) -> None:
        """Refuse a second default priority class."""
        default = self._default_priority_class() if new.get("globalDefault") is True else None
        name, known = new["metadata"].get("name", ""), "" if default is None else default["metadata"]["name"]
        if known not in ("", name):
            why = f"PriorityClass {known} is already marked as default. Only one default can exist"
            raise forbidden("priorityclasses", "scheduling.k8s.io", name, why)

    # --- nodes and storage --------------------------------------------------------------------------------------------

    def _node(self, node: JSON) -> None:
        if not self.settings.taint_new_nodes:
            return
        taints = node["spec"].get("taints") or []
        if not any(t.get("key") == _NOT_READY and t.get("effect") == "NoSchedule" for t in taints):
            node["spec"]["taints"] = [*taints, {"key": _NOT_READY, "effect": "NoSchedule"}]

    def _claim(self, claim: JSON) -> None:
        spec = claim["spec"]
        if self.settings.protect_in_use:
            _add_finalizer(claim, "kubernetes.io/pvc-protection")
        beta = "volume.beta.kubernetes.io/storage-class" in (claim["metadata"].get("annotations") or {})
        if spec.get("storageClassName") is not None or beta:
            return
        default = self._default_storage_class()
        if default is not None:
            spec["storageClassName"] = default

    def _resized(self, old: JSON, new: JSON) -> None:
        """Refuse growth of a claim unless its storage class allows it."""
        before, after = _requested(old), _requested(new)
        if not old["spec"].get("volumeName") or before is None or after is None or after <= before:
            return
        record = self._store.get(_STORAGE_CLASSES, new["spec"].get("storageClassName") or "")
        if record is None or not record.load().get("allowVolumeExpansion"):
            why = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must"
                " support resize"
            )
            raise forbidden("persistentvolumeclaims", "", new["metadata"]["name"], why)

    def _volume(self, volume: JSON) -> None:
        if self.settings.protect_in_use:
            _add_finalizer(volume, "kubernetes.io/pv-protection")

    def _default_storage_class(self) -> str | None:
        return self._newest_default(_STORAGE_CLASSES, _DEFAULT_CLASS)

    def _ingress(self, ingress: JSON) -> None:
        annotated = _INGRESS_CLASS in (ingress["metadata"].get("annotations") or {})
        spec = ingress["spec"] = ingress.get("spec") or {}
        if not annotated and spec.get("ingressClassName") is None:
            default = self._newest_default("networking.k8s.io/ingressclasses", _DEFAULT_INGRESS_CLASS)
            if default is not None:
                spec["ingressClassName"] = default

    def _newest_default(self, storage: str, annotation: str) -> str | None:
        """The class that an annotation marks as the default. If there are several, the newest."""
        defaults = []
        for record in self._store.records(storage):
            meta = record.load()["metadata"]
            if (meta.get("annotations") or {}).get(annotation) == "true":
                defaults.append((meta["creationTimestamp"], meta["name"]))
        return max(defaults)[1] if defaults else None


def _requester(user: UserInfo) -> JSON:
    extra = {key: list(values) for key, values in user.extra.items()}
    found = zip(_REQUESTER, (user.name, list(user.groups), user.uid, extra), strict=True)
    return {field: value for field, value in found if value}


def _requested(claim: JSON) -> int | None:
    try:
        return nanos(claim["spec"]["resources"]["requests"]["storage"])
    except (KeyError, TypeError, QuantityError):
        return None


def _add_finalizer(obj: JSON, finalizer: str) -> None:
    finalizers = obj["metadata"].get("finalizers") or []
    if finalizer not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, finalizer]


def _default_tolerations(spec: JSON) -> None:
    """By default a pod stays on a lost node for five minutes."""
    tolerations = spec.get("tolerations") or []
    missing = [key for key in (_NOT_READY, _UNREACHABLE) if not any(_covers(t, key) for t in tolerations)]
    if missing:
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            for key in missing
        ]
        spec["tolerations"] = [*tolerations, *added]


def _covers(toleration: JSON, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


# --- service account tokens -------------------------------------------------------------------------------------------


def _mounts_token(spec: JSON, account: Record | None) -> bool:
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None and account is not None and b"automountServiceAccountToken" in account.data:
        wanted = account.load().get("automountServiceAccountToken")
    return wanted is not False


def _mount_token(spec: JSON, suffix: str) -> None:
    """Mount a token where in-cluster clients look for one."""
    containers = [c for kind in ("initContainers", "containers") for c in spec.get(kind) or [] if isinstance(c, dict)]
    lacking = [c for c in containers if not _has_mount(c)]
    if not lacking:
        return
    name = f"kube-api-access-{suffix}"
    for container in lacking:
        mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    spec["volumes"] = [*(spec.get("volumes") or []), {"name": name, "projected": _token_volume()}]


def _has_mount(container: JSON) -> bool:
    return any(mount.get("mountPath") == _TOKEN_PATH for mount in container.get("volumeMounts") or [])


def _token_volume() -> JSON:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 420,
    }
