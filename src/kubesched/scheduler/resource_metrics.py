"""/metrics/resources: the requests and limits of every pod, as the scheduler computes them.

The page has several lines per pod, so it is formatted by hand, and the resources of a pod class are computed once for
all its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kubesched.api import objects as api
from kubesched.api import resources
from kubesched.api.quantity import NANO, nanos
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.scheduler.metric_types import go_float

REQUEST = "kube_pod_resource_request"
LIMIT = "kube_pod_resource_limit"
_TEXTS = {
    REQUEST: "Resources requested by workloads on the cluster, broken down by pod. This shows the resource usage the "
    "scheduler and kubelet expect per pod for resources along with the unit for the resource if any.",
    LIMIT: "Resources limit for workloads on the cluster, broken down by pod. This shows the resource usage the "
    "scheduler and kubelet expect per pod for resources along with the unit for the resource if any.",
}
_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Endings = tuple[str, ...]
"""The part of a line after the pod's own labels, for each of its resources."""


def resource_metrics(pods: Iterable[PodInfo]) -> str:
    """The page in the Prometheus text format. Pods that have ended are skipped."""
    living = [(info, _pod_labels(info.pod)) for info in pods if not (info.pod.node_name and info.pod.is_terminal)]
    return "".join(_family(REQUEST, living, 0)) + "".join(_family(LIMIT, living, 1))


def _family(name: str, living: list[tuple[PodInfo, str]], which: int) -> Iterator[str]:
    heading = f"# HELP {name} [STABLE] {_TEXTS[name]}\n# TYPE {name} gauge\n"
    for info, labels in living:
        for ending in _endings(info.pod_class)[which]:
            yield f"{heading}{name}{{{labels}{ending}"
            heading = ""


def _pod_labels(pod: api.Pod) -> str:
    labels = {
        "namespace": pod.namespace,
        "pod": pod.name,
        "node": pod.node_name,
        "scheduler": pod.spec.scheduler_name,
        "priority": "" if pod.spec.priority is None else str(pod.spec.priority),
    }
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())


def _endings(pod_class: PodClass) -> tuple[Endings, Endings]:
    def work_out() -> tuple[Endings, Endings]:
        pod = api.Pod(spec=pod_class.spec)
        return (
            _written(resources.pod_requests(pod, use_status=False)),
            _written(pod_limits(pod)),
        )

    return pod_class.remember(__name__, work_out)


def _written(amounts: resources.Amounts) -> Endings:
    return tuple(
        f',resource="{name.translate(_ESCAPES)}",unit="{_unit(name)}"}} {go_float(amount / NANO)}\n'
        for name, amount in sorted(amounts.items())
        if amount
    )


def _unit(name: str) -> str:
    if resources.is_hugepage(name):
        return "bytes"
    if resources.is_attachable_volume(name):
        return "integer"
    return _UNITS.get(name, "")


def pod_limits(pod: api.Pod) -> resources.Amounts:
    """The total limits of `pod`, in billionths.

    Limits add up like requests, so they are computed as if they were requests. A pod's overhead is added only to
    resources that have a limit.
    """
    spec = pod.spec
    as_requests = msgspec.structs.replace(
        spec,
        containers=tuple(map(_limits_as_requests, spec.containers)),
        init_containers=tuple(map(_limits_as_requests, spec.init_containers)),
        resources=spec.resources and api.ResourceRequirements(requests=spec.resources.limits),
        overhead={},
    )
    total = resources.pod_requests(api.Pod(spec=as_requests), use_status=False)
    for name, amount in spec.overhead.items():
        if total.get(name):
            total[name] += nanos(amount)
    return total


def _limits_as_requests(container: api.Container) -> api.Container:
    return msgspec.structs.replace(container, resources=api.ResourceRequirements(requests=container.resources.limits))
