"""Feature gates: those of Kubernetes 1.36, and the effect of each here.

Operators give the same gates to all components of a cluster, so every gate that kube-scheduler knows must be accepted.
Most have no effect on any scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Final

from kubesched.base.features import Features
from kubesched.config.errors import suggest
from kubesched.daemon.flags.value_types import parse_bool

EFFECTIVE: Final = {
    "CoordinatedLeaderElection": "let the control plane choose the leader",
    "ComponentFlagz": "serve /flagz",
    "ComponentStatusz": "serve /statusz",
    "LoggingAlphaOptions": "allow --log-*-split-stream, --log-*-info-buffer-size",
    "RemoteRequestHeaderUID": "allow --requestheader-uid-headers",
    "DRANodeAllocatableResources": "count the node resources that devices stand for",
    "DRAWorkloadResourceClaims": "reserve claims of a PodGroup for the group",
    "GangScheduling": "schedule the pods of a gang together or not at all",
    "GenericWorkload": "schedule the pods of a PodGroup in one cycle",
    "InPlacePodLevelResourcesVerticalScaling": "count resizes of pod-level requests",
    "MatchLabelKeysInPodTopologySpread": "use matchLabelKeys of spread constraints",
    "NativeHistograms": "add native histograms to metrics in protobuf",
    "NodeDeclaredFeatures": "enable the plugin NodeDeclaredFeatures",
    "NominatedNodeNameForExpectation": "announce a node before Permit and PreBind wait",
    "OpportunisticBatching": "let equal pods share scores",
    "PodLevelResources": "count spec.resources of pods",
    "SchedulerAsyncAPICalls": "queue API calls by pod",
    "SchedulerAsyncPreemption": "delete victims in the background",
    "SchedulerPopFromBackoffQ": "let an idle scheduler end backoffs early",
    "StorageCapacityScoring": "let VolumeBinding score nodes by their storage",
    "TaintTolerationComparisonOperators": "use the operators Gt and Lt of tolerations",
    "TopologyAwareWorkloadScheduling": "place pod groups within one topology domain",
    "VolumeLimitScaling": "keep pods off nodes that lack a required CSI driver",
    "WorkloadAwarePreemption": "let pod groups preempt as a whole",
    "WorkloadWithJob": "make gangs of indexed Jobs in the embedded cluster",
}
"""The gates that have an effect here, and which."""


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """A gate as upstream defines it; the stage is alpha, beta, ga or deprecated."""

    name: str
    stage: str
    default: bool
    locked: bool
    needs: tuple[str, ...]
    """The gates that this one depends on."""


@cache
def known_gates() -> dict[str, FeatureGate]:
    """Return every gate of kube-scheduler by name."""
    text = resources.files(__package__).joinpath("gates.txt").read_text(encoding="utf-8")
    gates = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, stage, default, *more = line.split()
            needs = more.pop().removeprefix("needs=") if more and more[-1].startswith("needs=") else ""
            gates[name] = FeatureGate(
                name, stage, default == "on", bool(more), tuple(needs.split(",")) if needs else ()
            )
    return gates


@dataclass
class FeatureGates:
    """The values of ``--feature-gates``. Invalid settings are collected in `problems`."""

    set_to: dict[str, bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, given: Iterable[str]) -> FeatureGates:
        """Parse settings of the form ``Name=true`` or ``kube:Name=true``."""
        gates = cls()
        prefixes = set()
        for pair in given:
            name, equals, value = (part.strip() for part in pair.partition("="))
            component, colon, name = name.rpartition(":")
            prefixes.add(colon)
            if component not in ("", "kube"):
                gates.problems.append(f"component not registered: {component}")
            elif not equals:
                gates.problems.append(f"missing bool value for {name}")
            else:
                gates._set(name, value)
        if len(prefixes) > 1:
            gates.problems.append(
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
            )
        gates._check_requirements()
        return gates

    def enabled(self, name: str) -> bool:
        """Whether a gate is on."""
        gate = known_gates()[name]
        group = {"alpha": "AllAlpha", "beta": "AllBeta"}.get(gate.stage, "")
        return self.set_to.get(name, self.set_to.get(group, gate.default))

    @property
    def features(self) -> Features:
        """The values of the gates that scheduling reads."""
        return Features.of(self.enabled)

    def _set(self, name: str, text: str) -> None:
        gate = known_gates().get(name)
        if gate is None:
            hint = suggest(name, known_gates())
            self.problems.append(f"unrecognized feature gate: {name}" + (f"; {hint}" if hint else ""))
            return
        try:
            value = parse_bool(text)
        except ValueError as error:
            self.problems.append(f"invalid value of {name}={text}, err: {error}")
            return
        if gate.locked and value != gate.default:
            wanted, locked = (str(each).lower() for each in (value, gate.default))
            self.problems.append(f"cannot set feature gate {name} to {wanted}, feature is locked to {locked}")
            return
        self.set_to[name] = value
        if gate.stage in ("ga", "deprecated"):
            stage = "GA" if gate.stage == "ga" else gate.stage
            self.warnings.append(f"setting {stage} feature gate {name}; it will be removed in a future release")

    def _check_requirements(self) -> None:
        for gate in known_gates().values():
            missing = [each for each in gate.needs if not self.enabled(each)]
            if missing and self.enabled(gate.name):
                listed = " ".join(missing)
                self.problems.append(f"{gate.name} is enabled, but depends on features that are disabled: [{listed}]")
