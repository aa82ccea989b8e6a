"""scheduler_perf's files: test cases, each with operations and with workloads that set their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kubesched.base.documents import DocumentError, read_yaml
from kubesched.base.features import DEFAULT_FEATURES, gate_name
from kubesched.bench.perf.operations import OPERATIONS, Operation, resolve
from kubesched.bench.perf.templates import PerfTemplateError

CONFIG = "performance-config.yaml"

LOCKED_ON = frozenset(
    (
        "DynamicResourceAllocation",
        "InPlacePodVerticalScaling",
        "NodeInclusionPolicyInPodTopologySpread",
        "SchedulerQueueingHints",
    )
)
"""Gates of the files that Kubernetes 1.36 no longer lets anybody turn off."""


class PerfFormatError(ValueError):
    """A file that is not in the format. The message names file, test case and field."""


class PerfWorkload(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Parameters for the operations of a test case."""

    name: str
    params: dict[str, Any] = {}
    labels: tuple[str, ...] = ()
    feature_gates: dict[str, bool] = {}
    threshold: Any = None
    threshold_metric_selector: Any = None


class PerfCase(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Operations, and the workloads to run them with."""

    name: str
    workload_template: tuple[dict[str, Any], ...]
    workloads: tuple[PerfWorkload, ...]
    feature_gates: dict[str, bool] = {}
    default_pod_template_path: str | None = None
    default_thresholds_metric_selector: Any = None
    labels: tuple[str, ...] = ()
    metrics_collector_config: Any = None
    scheduler_config_path: str | None = None


@dataclass(frozen=True, slots=True)
class PerfRun:
    """One workload, ready to run unless `problem` says why it cannot."""

    name: str
    labels: tuple[str, ...]
    gates: Mapping[str, bool]
    operations: Sequence[Operation]
    folder: Path
    """The folder that paths in operations start from."""
    default_pod_template: Path | None
    scheduler_config: Path | None
    threshold: float | None
    problem: str = ""


def load_runs(place: Path) -> list[PerfRun]:
    """All workloads of a file, or of every performance-config.yaml under a folder, in the order of their paths."""
    files = sorted(place.rglob(CONFIG)) if place.is_dir() else [place]
    if not files:
        raise PerfFormatError(f"{place}: there is no {CONFIG} in it; name a folder with scheduler_perf workloads")
    return [run for file in files for run in _runs_of(file)]


def is_selected(label_filter: str, labels: Sequence[str]) -> bool:
    """Whether labels satisfy a filter such as `performance,-short`, as scheduler_perf reads it."""
    for wanted in filter(None, label_filter.split(",")):
        name = wanted.lstrip("+-") if wanted[0] in "+-" else wanted
        if (name in labels) != (wanted[0] != "-"):
            return False
    return True


def _runs_of(file: Path) -> Iterator[PerfRun]:
    try:
        cases = msgspec.convert(read_yaml(file.read_text("utf-8")), tuple[PerfCase, ...])
    except (OSError, DocumentError, msgspec.ValidationError) as error:
        raise PerfFormatError(f"{file}: {error}") from None
    for case in cases:
        for workload in case.workloads:
            yield _run_of(file, case, workload)


def _run_of(file: Path, case: PerfCase, workload: PerfWorkload) -> PerfRun:
    gates = {**case.feature_gates, **workload.feature_gates}
    operations: list[Operation] = []
    problem = _gate_problem(gates)
    try:
        operations = [_operation(raw, workload.params) for raw in case.workload_template]
    except (ValueError, PerfTemplateError) as error:
        problem = problem or str(error)
    pod, config = case.default_pod_template_path, case.scheduler_config_path
    return PerfRun(
        name=f"{case.name}/{workload.name}",
        labels=(*case.labels, *workload.labels),
        gates=gates,
        operations=operations,
        folder=file.parent,
        default_pod_template=file.parent / pod if pod else None,
        scheduler_config=file.parent / config if config else None,
        threshold=float(workload.threshold) if isinstance(workload.threshold, int | float) else None,
        problem=problem,
    )


def _operation(raw: Mapping[str, Any], params: Mapping[str, Any]) -> Operation:
    opcode = str(raw.get("opcode", ""))
    kind = OPERATIONS.get(opcode)
    if kind is None:
        raise PerfFormatError(f"opcode {opcode!r} is not supported")
    try:
        return resolve(msgspec.convert(raw, kind), params)
    except msgspec.ValidationError as error:
        raise PerfFormatError(f"{opcode}: {error}") from None


def _gate_problem(gates: Mapping[str, bool]) -> str:
    known = {gate_name(field) for field in DEFAULT_FEATURES.__dataclass_fields__}
    for name, value in gates.items():
        if name in LOCKED_ON and not value:
            return f"feature gate {name} is locked to true in Kubernetes 1.36"
        if name not in LOCKED_ON and name not in known:
            return f"feature gate {name} is not known"
    return ""
