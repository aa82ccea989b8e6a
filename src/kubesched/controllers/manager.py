"""All controllers of a cluster, started and stopped together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

from kubesched.controllers.api_services import ApiServiceController
from kubesched.controllers.autoscaler import AutoscalerController
from kubesched.controllers.certificates import CertificateController, SignRequest
from kubesched.controllers.control_plane import ControlPlaneController
from kubesched.controllers.cronjob import CronJobController
from kubesched.controllers.daemonset import DaemonSetController
from kubesched.controllers.deployment import DeploymentController
from kubesched.controllers.device_taint_eviction import DeviceTaintEvictionController
from kubesched.controllers.disruption import DisruptionController
from kubesched.controllers.elastic_quotas import ElasticQuotaController
from kubesched.controllers.ended_pods import EndedPodCollector
from kubesched.controllers.endpoints import EndpointsController
from kubesched.controllers.event_expiry import EventExpiry
from kubesched.controllers.flow_control import FlowControlController
from kubesched.controllers.gangs import GangController
from kubesched.controllers.garbage import GarbageCollector
from kubesched.controllers.job import JobController
from kubesched.controllers.load_balancers import LoadBalancerController
from kubesched.controllers.namespaces import NamespaceController, PodCollector, ServiceAccountController
from kubesched.controllers.node_lifecycle import LifecycleSettings, NodeLifecycleController
from kubesched.controllers.pod_groups import PodGroupProtectionController
from kubesched.controllers.policy_status import PolicyStatusController
from kubesched.controllers.replicaset import ReplicaSetController, replication_controllers
from kubesched.controllers.resource_claims import ResourceClaimController
from kubesched.controllers.service_addresses import ServiceAddressController
from kubesched.controllers.statefulset import StatefulSetController
from kubesched.controllers.storage_protection import EphemeralController, ProtectionController
from kubesched.controllers.taint_eviction import TaintEvictionController
from kubesched.controllers.volumes import VolumeController
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller


class ControllerManager:
    """Builds every controller and runs them in one task."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        lifecycle: LifecycleSettings | None = None,
        heartbeat: Callable[[], float] | None = None,
        root_certificate: str = "",
        workloads: bool = True,
        control_plane: bool = False,
        ended_pods: int = 0,
        sign_request: SignRequest | None = None,
    ) -> None:
        """Without `workloads`, nothing creates the pods of workloads, and nothing deletes objects without owners. With
        `control_plane`, there are the objects by which a real control plane describes itself, and what it says about
        policies. Of pods that have ended, `ended_pods` are kept; all if it is 0. With `sign_request`, approved clients
        get certificates."""
        self._context = context
        self._task: asyncio.Task[None] | None = None
        self.controllers = list(self._make(lifecycle, heartbeat, root_certificate, workloads))
        if control_plane:
            self.controllers += self._control_plane()
        if ended_pods:
            self.controllers.append(EndedPodCollector(context, ended_pods))
        if sign_request is not None:
            self.controllers.append(CertificateController(context, sign_request))

    def _make(
        self,
        lifecycle: LifecycleSettings | None,
        heartbeat: Callable[[], float] | None,
        root_certificate: str,
        workloads: bool,
    ) -> Iterator[Controller]:
        context = self._context
        yield ServiceAccountController(context, root_certificate)
        yield NamespaceController(context)
        if workloads:
            yield from self._workloads()
        volumes = VolumeController(context)
        volumes.add_classes()
        yield volumes
        yield ProtectionController(context)
        yield EphemeralController(context)
        yield ResourceClaimController(context)
        yield PodGroupProtectionController(context)
        yield GangController(context)
        yield ElasticQuotaController(context)
        yield DisruptionController(context)
        yield EndpointsController(context)
        yield PodCollector(context)
        yield NodeLifecycleController(context, lifecycle, heartbeat)
        yield TaintEvictionController(context)
        yield DeviceTaintEvictionController(context)
        yield EventExpiry(context)

    def _workloads(self) -> Iterator[Controller]:
        context = self._context
        yield GarbageCollector(context)
        yield DeploymentController(context)
        yield ReplicaSetController(context)
        yield replication_controllers(context)
        yield StatefulSetController(context)
        yield DaemonSetController(context)
        yield JobController(context)
        yield CronJobController(context)
        yield AutoscalerController(context)

    def _control_plane(self) -> Iterator[Controller]:
        context = self._context
        yield ControlPlaneController(context)
        yield ServiceAddressController(context)
        yield LoadBalancerController(context)
        yield FlowControlController(context)
        yield ApiServiceController(context)
        yield PolicyStatusController(context)

    def start(self) -> None:
        """Start reconciling."""
        self._task = asyncio.create_task(self._context.loop.run(), name="controllers")

    def halt(self) -> None:
        """Begin no further reconciliation. `stop` must follow."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """Stop after the reconciliation in progress."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
