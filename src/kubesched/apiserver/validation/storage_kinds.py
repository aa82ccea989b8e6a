"""Validation of CSI drivers, nodes and capacities, attachments and attribute classes of volumes."""

from __future__ import annotations

from kubesched.api.names import label_key_errors
from kubesched.apiserver.validation.checks import (
    Check,
    Comparison,
    check_amount,
    each,
    fixed,
    require_name,
    too_long,
)
from kubesched.apiserver.validation.claims import check_volume_spec
from kubesched.apiserver.validation.containers import non_negative, one_of
from kubesched.apiserver.validation.device_names import check_driver
from kubesched.apiserver.validation.naming import subdomain_errors
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.apiserver.validation.selectors import check_label_selector
from kubesched.base.types import JSON

_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")
_EXACTLY_ONE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_MOST_PARAMETERS, _MAX_PARAMETERS, _MAX_NODE_ID, _MAX_MESSAGE = 512, 256 << 10, 256, 1024
_SHORTEST_TOKEN, _LONGEST_TOKEN = 600, 1 << 32
_SHORTEST_PERIOD = 10


def check_parameters(parameters: JSON, path: str, problems: Problems) -> None:
    """Check the parameters of a class of volumes."""
    if len(parameters) > _MOST_PARAMETERS:
        too_long(path, _MOST_PARAMETERS, problems)
        return
    if "" in parameters:
        problems.invalid(path, "", "field can not be empty.")
    if sum(len(key) + len(str(value)) for key, value in parameters.items()) > _MAX_PARAMETERS:
        too_long(path, _MAX_PARAMETERS, problems)


def _attributes_class(obj: JSON, problems: Problems) -> None:
    driver, parameters = (obj.get("driverName") or "").lower(), obj.get("parameters") or {}
    require_name(driver, label_key_errors, "driverName", problems)
    check_parameters(parameters, "parameters", problems)
    if not parameters:
        problems.required("parameters", "must contain at least one key/value pair")


def _compare_attributes_classes(old: JSON, new: JSON, problems: Problems) -> None:
    for field in ("driverName", "parameters"):
        if old.get(field) != new.get(field):
            problems.forbidden(field, f"updates to {field} are forbidden.")


# --- attachments ------------------------------------------------------------------------------------------------------


def _attachment(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    check_driver(spec.get("attacher"), "spec.attacher", problems)
    source, path = spec.get("source") or {}, "spec.source"
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if inline is None and name is None:
        problems.required(path, _EXACTLY_ONE)
    elif inline is not None and name is not None:
        problems.forbidden(path, _EXACTLY_ONE)
    elif inline is not None:
        check_volume_spec(inline, f"{path}.inlineVolumeSpec", problems, inline=True)
    elif not name:
        problems.required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")
    node = spec.get("nodeName") or ""
    for error in subdomain_errors(node):
        problems.invalid("spec.nodeName", node, error)
    for error in subdomain_errors(name) if name is not None else ():
        problems.invalid("spec.source.persistentVolumeName", name, error)


def _compare_attachments(old: JSON, new: JSON, problems: Problems) -> None:
    spec = new.get("spec") or {}
    if old.get("spec") != spec:
        source = spec.get("source") or {}
        names = {"PersistentVolumeName": "persistentVolumeName", "InlineVolumeSpec": "inlineVolumeSpec"}
        shown = {"Attacher": spec.get("attacher") or "", "Source": {n: source.get(f) for n, f in names.items()}}
        problems.invalid("spec", {**shown, "NodeName": spec.get("nodeName") or ""}, IMMUTABLE)


def _attachment_status(_old: JSON, new: JSON, problems: Problems) -> None:
    status = new.get("status") or {}
    for field in ("attachError", "detachError"):
        error, path = status.get(field) or {}, f"status.{field}"
        if len(error.get("message") or "") > _MAX_MESSAGE:
            too_long(f"{path}.message", _MAX_PARAMETERS, problems)
        if (error.get("errorCode") or 0) < 0:
            problems.invalid(f"{path}.errorCode", error["errorCode"], "must be between 0 and 2147483647, inclusive")


# --- CSI --------------------------------------------------------------------------------------------------------------


def _driver(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    one_of(spec, "fsGroupPolicy", _GROUP_POLICIES, "spec", problems)
    audiences: set[str] = set()
    for request, path in each(spec.get("tokenRequests"), "spec.tokenRequests"):
        _token_request(request, audiences, path, problems)
    for mode in spec.get("volumeLifecycleModes") or []:
        if mode not in _LIFECYCLES:
            problems.unsupported("spec.volumeLifecycleModes", mode, _LIFECYCLES)
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < _SHORTEST_PERIOD:
        detail = f"must be greater than or equal to {_SHORTEST_PERIOD} seconds"
        problems.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail)
    in_secrets, field = spec.get("serviceAccountTokenInSecrets"), "serviceAccountTokenInSecrets"
    if in_secrets is not None and not spec.get("tokenRequests"):
        problems.invalid(f"spec.{field}", in_secrets, f"{field} is set but no tokenRequests are specified")


def _token_request(request: JSON, audiences: set[str], path: str, problems: Problems) -> None:
    audience, seconds = request.get("audience") or "", request.get("expirationSeconds")
    if audience in audiences:
        problems.duplicate(f"{path}.audience", audience)
        return
    audiences.add(audience)
    if seconds is not None and seconds < _SHORTEST_TOKEN:
        problems.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > _LONGEST_TOKEN:
        problems.invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")


def _compare_drivers(old: JSON, new: JSON, problems: Problems) -> None:
    # Upstream's message names the first field so.
    for field, shown in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
        after = new["spec"].get(field)
        if old["spec"].get(field) != after:
            problems.invalid(f"spec.{shown}", after, IMMUTABLE)


def _node(obj: JSON, problems: Problems) -> None:
    names: set[str] = set()
    for driver, path in each((obj.get("spec") or {}).get("drivers"), "spec.drivers"):
        name, node, keys = driver.get("name") or "", driver.get("nodeID") or "", driver.get("topologyKeys") or []
        check_driver(name, f"{path}.name", problems)
        if not node:
            problems.required(f"{path}.nodeID")
        if len(node) > _MAX_NODE_ID:
            problems.invalid(f"{path}.nodeID", node, f"must be {_MAX_NODE_ID} characters or less")
        non_negative(driver.get("allocatable") or {}, "count", f"{path}.allocatable", problems)
        if name in names:
            problems.duplicate(f"{path}.name", name)
        names.add(name)
        for index, key in enumerate(keys):
            if not key:
                problems.required(path)
            if key in keys[:index]:
                problems.duplicate(path, key)
            for error in label_key_errors(key):
                problems.invalid(path, key, error)


def _compare_nodes(old: JSON, new: JSON, problems: Problems) -> None:
    """A driver that stays may change only how many volumes it allows."""
    drivers = [(each.get("spec") or {}).get("drivers") or [] for each in (old, new)]
    before, after = ({driver.get("name"): _fixed_part(driver) for driver in each} for each in drivers)
    for name, driver in before.items():
        if name in after and after[name] != driver:
            problems.invalid("spec.drivers", after[name], IMMUTABLE)


def _fixed_part(driver: JSON) -> JSON:
    """The internal form of a driver, which messages show, without the field that may change."""
    return {
        "Name": driver.get("name") or "",
        "NodeID": driver.get("nodeID") or "",
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None,
    }


def _capacity(obj: JSON, problems: Problems) -> None:
    check_label_selector(obj.get("nodeTopology"), "nodeTopology", problems)
    name = obj.get("storageClassName") or ""
    for error in subdomain_errors(name):
        problems.invalid("storageClassName", name, error)
    check_amount(obj.get("capacity"), "capacity", problems)


_GROUP = "storage.k8s.io"
CHECKS: dict[str, Check] = {
    f"{_GROUP}/volumeattributesclasses": _attributes_class,
    f"{_GROUP}/volumeattachments": _attachment,
    f"{_GROUP}/csidrivers": _driver,
    f"{_GROUP}/csinodes": _node,
    f"{_GROUP}/csistoragecapacities": _capacity,
}
COMPARISONS: dict[str, Comparison] = {
    f"{_GROUP}/volumeattributesclasses": _compare_attributes_classes,
    f"{_GROUP}/volumeattachments": _compare_attachments,
    f"{_GROUP}/csidrivers": _compare_drivers,
    f"{_GROUP}/csinodes": _compare_nodes,
    f"{_GROUP}/csistoragecapacities": fixed("nodeTopology", "storageClassName"),
}
STATUS: dict[str, Comparison] = {f"{_GROUP}/volumeattachments": _attachment_status}
