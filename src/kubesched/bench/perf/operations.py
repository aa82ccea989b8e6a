"""The operations of scheduler_perf, one struct per opcode, and their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from kubesched.cel.times import parse_duration


class Operation(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, tag_field="opcode"
):
    """One step of a workload."""


class NodeAllocatableStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """Limits on volumes that each node gets, as allocatable resources and in its CSINode."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, dict[str, int]] = {}
    migrated_plugins: tuple[str, ...] = ()


class LabelNodeStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """A label whose values nodes get in turn."""

    label_key: str
    label_values: tuple[str, ...] = ()


class CreateNodes(Operation, frozen=True, kw_only=True, tag="createNodes"):
    """Create nodes."""

    count: int = 0
    count_param: str = ""
    node_template_path: str | None = None
    node_allocatable_strategy: NodeAllocatableStrategy | None = None
    label_node_prepare_strategy: LabelNodeStrategy | None = None
    unique_node_label_strategy: LabelNodeStrategy | None = None


class CreateNamespaces(Operation, frozen=True, kw_only=True, tag="createNamespaces"):
    """Create namespaces `prefix-0`, `prefix-1` and so on."""

    prefix: str
    count: int = 0
    count_param: str = ""
    namespace_template_path: str | None = None


class CreatePods(Operation, frozen=True, kw_only=True, tag="createPods"):
    """Create pods and, unless told to skip that, wait until they are scheduled."""

    count: int = 0
    count_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str | None = None
    pod_template_path: str | None = None
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str | None = None
    persistent_volume_claim_template_path: str | None = None


class CreatePodSets(Operation, frozen=True, kw_only=True, tag="createPodSets"):
    """Create pods in each of several namespaces."""

    count: int = 0
    count_param: str = ""
    namespace_prefix: str
    create_pods_op: CreatePods


class DeletePods(Operation, frozen=True, kw_only=True, tag="deletePods"):
    """Delete the pods of a namespace, all at once or so many per second."""

    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


class Churn(Operation, frozen=True, kw_only=True, tag="churn"):
    """Create objects, or create and delete them, at an interval, until the workload ends."""

    mode: str
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str | None = None
    template_paths: tuple[str, ...]


class Barrier(Operation, frozen=True, kw_only=True, tag="barrier"):
    """Wait until pods that were created without waiting are scheduled, or have been tried."""

    namespaces: tuple[str, ...] = ()
    label_selector: dict[str, str] = {}
    stage_requirement: str = "Scheduled"


class Sleep(Operation, frozen=True, kw_only=True, tag="sleep"):
    """Do nothing for a while."""

    duration: str = "0s"
    duration_param: str = ""


class CreateAny(Operation, frozen=True, kw_only=True, tag="createAny"):
    """Create objects of any kind."""

    template_path: str
    namespace: str | None = None
    count: int = 1
    count_param: str = ""


class UpdateAny(Operation, frozen=True, kw_only=True, tag="updateAny"):
    """Replace objects of any kind and their status, all at once or so many per second."""

    template_path: str
    namespace: str | None = None
    count: int = 1
    count_param: str = ""
    update_per_second: int = 0
    subresources: tuple[str, ...] = ()


class StartCollectingMetrics(Operation, frozen=True, kw_only=True, tag="startCollectingMetrics"):
    """Begin to measure the throughput of some namespaces."""

    name: str = ""
    namespaces: tuple[str, ...]
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(Operation, frozen=True, kw_only=True, tag="stopCollectingMetrics"):
    """End the measurement."""


class CreateResourceDriver(Operation, frozen=True, kw_only=True, tag="createResourceDriver"):
    """Publish devices for the nodes that match a pattern."""

    driver_name: str
    nodes: str
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""


class CreateResourceClaims(Operation, frozen=True, kw_only=True, tag="createResourceClaims"):
    """Create claims from a template with a generated name."""

    namespace: str
    template_path: str
    count: int = 0
    count_param: str = ""


class AllocResourceClaims(Operation, frozen=True, kw_only=True, tag="allocResourceClaims"):
    """Allocate the claims of a namespace, or of all, on nodes chosen at random."""

    namespace: str = ""


OPERATIONS: Final[Mapping[str, type[Operation]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        CreateNodes,
        CreateNamespaces,
        CreatePods,
        CreatePodSets,
        DeletePods,
        Churn,
        Barrier,
        Sleep,
        CreateAny,
        UpdateAny,
        StartCollectingMetrics,
        StopCollectingMetrics,
        CreateResourceDriver,
        CreateResourceClaims,
        AllocResourceClaims,
    )
}

O = TypeVar("O", bound=Operation)  # noqa: E741 - some kind of operation

_PARAM = "_param"


def resolve(operation: O, params: Mapping[str, Any]) -> O:
    """The operation with the values of its parameters. Raises ValueError for one that the workload does not set."""
    values: dict[str, Any] = {}
    for field in operation.__struct_fields__:
        name = getattr(operation, field)
        if field.endswith(_PARAM) and name:
            if name[1:] not in params:
                raise ValueError(f"{operation.__struct_config__.tag}: the workload does not set parameter {name}")
            values[field.removesuffix(_PARAM)] = params[name[1:]]
    if isinstance(operation, CreatePodSets):
        values["create_pods_op"] = resolve(operation.create_pods_op, params)
    resolved = msgspec.structs.replace(operation, **values)
    # Parameters are of any type, so the fields are checked again.
    return msgspec.convert(msgspec.to_builtins(resolved), type(operation))


def seconds(text: str) -> float:
    """The seconds in a duration such as `10s`."""
    parsed = parse_duration(text)
    if parsed is None:
        raise ValueError(f"{text!r} is not a duration; write it like 10s or 1m30s")
    return parsed.nanos / 1e9
