"""The feature gates that kube-scheduler 1.36 or the embedded cluster reads, as one immutable value.

The daemon parses ``--feature-gates``; every other caller uses the defaults or sets fields by name. A cluster carries
the value, and plugins read it as ``handle.features``. Nothing is global, so two schedulers in one process can differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

_UPPER: Final = frozenset(("api", "dra"))


@dataclass(frozen=True, slots=True)
class Features:
    """Gate values; the defaults are those of Kubernetes 1.36. Gates that are locked on have no field."""

    dra_consumable_capacity: bool = True
    dra_device_binding_conditions: bool = True
    dra_device_taint_rules: bool = False
    dra_device_taints: bool = True
    dra_extended_resource: bool = True
    dra_list_type_attributes: bool = False
    dra_node_allocatable_resources: bool = False
    dra_partitionable_devices: bool = True
    dra_prioritized_list: bool = True
    dra_resource_claim_device_status: bool = True
    dra_scheduler_filter_timeout: bool = True
    dra_workload_resource_claims: bool = False
    gang_scheduling: bool = False
    generic_workload: bool = False
    in_place_pod_level_resources_vertical_scaling: bool = True
    match_label_keys_in_pod_topology_spread: bool = True
    node_declared_features: bool = True
    nominated_node_name_for_expectation: bool = True
    opportunistic_batching: bool = True
    pod_level_resources: bool = True
    scheduler_async_api_calls: bool = False
    scheduler_async_preemption: bool = True
    scheduler_pop_from_backoff_q: bool = True
    storage_capacity_scoring: bool = False
    taint_toleration_comparison_operators: bool = False
    topology_aware_workload_scheduling: bool = False
    volume_limit_scaling: bool = False
    workload_aware_preemption: bool = False
    workload_with_job: bool = False

    @property
    def binding_conditions(self) -> bool:
        """Whether devices may have conditions that binding waits for. Without device statuses they cannot be met."""
        return self.dra_device_binding_conditions and self.dra_resource_claim_device_status

    @classmethod
    def of(cls, enabled: Callable[[str], bool]) -> Features:
        """The values that ``enabled`` returns for upstream's gate names."""
        return cls(**{field.name: enabled(gate_name(field.name)) for field in fields(cls)})


DEFAULT_FEATURES: Final = Features()


def gate_name(field: str) -> str:
    """Upstream's name of a field's gate: ``dra_device_taints`` is ``DRADeviceTaints``."""
    return "".join(word.upper() if word in _UPPER else word.capitalize() for word in field.split("_"))
