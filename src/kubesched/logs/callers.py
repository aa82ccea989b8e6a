"""Where upstream's messages come from: file and line in kube-scheduler v1.36.4.

Log dashboards filter on ``schedule_one.go`` and alerts on ``eventhandlers.go``. To keep them working, a message with
upstream's text is shown with upstream's file and line. All other messages show our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_UPSTREAM: Final[dict[str, dict[int, str]]] = {
    "scheduler/schedule_one.go": {
        71: "Error while retrieving next pod from scheduling queue",
        107: "About to try and schedule pod",
        113: "Error occurred",
        123: "Attempting to schedule pod",
        279: "Error selecting node for pod",
        289: "No PostFilter plugins are registered, so no preemption will be performed",
        300: "Status after running PostFilter plugins for pod",
        341: "ForgetPod failed",
        424: "Failed to update the nominated node name in the binding cycle",
        481: "Successfully bound pod to node",
        489: "Pod scheduled after flush from unschedulablePods",
        552: "Skip schedule deleting pod",
        561: "Failed to check whether pod is assumed",
        651: "Status after running PreFilter plugins for pod",
        669: "Evaluation failed on nominated node",
        914: "Skipping extender as it returned error and has ignorable flag set",
        982: "Plugin scored node for pod",
        1007: "Failed to run extender's priority function. No score given by this extender.",
        1016: "Extender scored node for pod",
        1050: "Calculated node's final score for pod",
        1133: "Scheduler cache AssumePod failed",
        1172: "Skipping extender in bind as it returned error and has ignorable flag set",
        1182: "Failed to bind pod",
        1235: "Unable to schedule pod; no nodes are registered to the cluster; waiting",
        1239: "Unable to schedule pod; no fit; waiting",
        1241: "Unable to schedule pod belonging to a pod group; waiting",
        1243: "Error scheduling pod; retrying",
        1250: "Pod doesn't exist in informer cache",
        1256: "Pod has been assigned to node. Abort adding it back to queue.",
        1260: "Pod was recreated while handling scheduling failure. Skip requeueing and status updates.",
        1297: "Error updating pod",
        1325: "Updating pod condition and nominated node name",
    },
    "scheduler/schedule_one_podgroup.go": {
        77: "Attempting to schedule pod group",
        364: "Running a pod group scheduling algorithm",
        413: "Attempting to schedule a pod belonging to a pod group",
        586: "Successfully scheduled a pod group",
        597: "Pod group is waiting for preemption",
        600: "Unable to schedule a pod group",
        611: "Error scheduling pod group",
        626: "Failed to get PodGroup for status update",
        642: "Failed to update PodGroup status",
        673: "Assuming placement in snapshot",
    },
    "httplog/httplog.go": {
        134: "HTTP",
    },
    "filters/authentication.go": {
        75: "Unable to authenticate the request",
    },
    "gangscheduling/gangscheduling.go": {
        92: "another pod was added but it doesn't match the target pod's scheduling group",
        97: "another pod was added and it matches the target pod's scheduling group, which may make "
        "the pod schedulable",
        109: "pod group was added but it doesn't match the target pod's scheduling group",
        114: "pod group was added and it matches the target pod's scheduling group, which may make the pod schedulable",
        200: "Quorum is not met for a gang. Waiting for another pod to allow",
        205: "Quorum is met for a gang. Allowing other pods from a gang waiting on permit",
    },
    "scheduler/eventhandlers.go": {
        63: "Add event for node",
        82: "Update event for node",
        122: "Delete event for node",
        124: "Scheduler cache RemoveNode failed",
        214: "Add event for unscheduled pod",
        248: "Assumed pod was already forgotten",
        257: "Unable to get profile for pod",
        268: "Scheduler cache ForgetPod failed",
        316: "Update event for unscheduled pod",
        335: "Delete event for unscheduled pod",
        374: "Add event for scheduled pod",
        376: "Scheduler cache AddPod failed",
        407: "Update event for scheduled pod",
        409: "Scheduler cache UpdatePod failed",
        443: "Delete event for scheduled pod",
        445: "Scheduler cache RemovePod failed",
    },
    "scheduler/scheduler.go": {
        571: "Failed to close plugins",
        592: "Creating extender",
    },
    "queue/scheduling_queue.go": {
        475: "receive an event that isn't interested by any enabled plugins",
        491: "Worth requeuing because no failed plugins",
        503: "Not worth requeuing because the event is wildcard, but for another pod",
        511: "Worth requeuing because the event is wildcard",
        518: "No QueueingHintMap is registered for this profile",
        544: "QueueingHintFn returns error",
        652: "Unexpected error running PreEnqueue plugin",
        654: "Status after running PreEnqueue plugin",
        694: "Pod moved to an internal scheduling queue, because the pod is gated",
        840: "Error getting cluster events for pod",
        847: "Checking event for in-flight pod",
        1128: "The pod doesn't need to be queued for now because it's being scheduled and will be "
        "queued back if necessary",
        1171: "Pod moved to an internal scheduling queue because the Pod is updated",
        1339: "Event is not making pod schedulable",
        1357: "Event received while pods are in flight",
    },
    "queue/active_queue.go": {
        325: "Scheduling queue is closed",
        346: "Discarding the popped pod",
        403: "Checking events for in-flight pod",
    },
    "queue/backoff_queue.go": {
        275: "Unable to pop pod from backoff queue despite backoff completion",
        306: "BackoffQueue add() was called with a pod that was already in the podBackoffQ",
        310: "Pod moved to an internal scheduling queue",
        317: "BackoffQueue add() was called with a pod that was already in the podErrorBackoffQ",
    },
    "queue/nominator.go": {
        92: "Pod doesn't exist in podLister, aborted adding it to the nominator",
        96: "Pod is already scheduled to a node, aborted adding it to the nominator",
        104: "Pod already exists in the nominator",
    },
    "cache/cache.go": {
        120: "No node info with given name found in the cache",
        327: "Error occurred while retrieving the list of names of the nodes from node tree",
        488: "Node not found when trying to remove pod",
        530: "Error occurred while updating pod",
        534: "Pod was added to a different node than it was assumed",
        539: "Error occurred while adding pod",
        568: "Pod updated on a different node than previously added to. Scheduler cache is corrupted "
        "and can badly affect scheduling decisions",
        592: "Scheduler cache is corrupted and can badly affect scheduling decisions",
    },
    "cache/node_tree.go": {
        56: "Did not add to the NodeTree because it already exists",
        65: "Added node to NodeTree",
        79: "Removed node from NodeTree",
        85: "Did not remove Node in NodeTree because it was not found",
    },
    "debugger/dumper.go": {
        52: "Dump of cached NodeInfo",
        62: "Dump of scheduling queue",
    },
    "debugger/comparer.go": {
        42: "Cache comparer started",
        43: "Cache comparer finished",
        60: "Cache mismatch",
    },
    "api_calls/pod_status_patch.go": {
        97: "Updating pod condition",
        103: "Pod status patch call does not need to be executed because it has no effect",
        110: "Failed to patch pod status",
    },
    "runtime/batch.go": {
        81: "OpportunisticBatch no node hint available for pod",
        89: "OpportunisticBatch provided node hint",
        107: "OpportunisticBatch set cycle state",
        111: "OpportunisticBatch skipping set state because hint was provided",
        122: "OpportunisticBatch hint not used",
        139: "OpportunisticBatch set batch information",
        157: "OpportunisticBatch found unusable state",
    },
    "runtime/framework.go": {
        502: "the scheduler starts to work with those plugins",
        655: "Skipped MultiPoint expansion because all plugins are disabled for extension point",
        676: "Skipped disabled plugin for extension point",
        686: "MultiPoint plugin is explicitly re-configured; overriding",
        825: "Disabling signatures for profile because it has extenders configured.",
        862: "Disabling signatures for profile because plugins do not support it.",
        896: "SignPod failed for plugin",
        898: "SignPod can't sign pod due to plugin",
        1022: "Plugin failed",
        1639: "Pod rejected by PreBind plugin",
        1800: "Pod rejected by Bind plugin",
        1805: "Plugin Failed",
        1879: "Pod rejected by plugin",
        1982: "One or more plugins asked to wait and no plugin rejected pod",
        2061: "Pod waiting on permit",
        2069: "Pod rejected while waiting on permit",
        2073: "Failed waiting on permit for pod",
    },
    "preemption/preemption.go": {
        113: "Could not get the updated preemptor pod object",
        120: "Pod is not eligible for preemption",
        136: "No preemption candidate is found; preemption is not helpful for scheduling",
        162: "the target node for the preemption is determined",
        185: "Preemption will not help schedule pod on any node",
        222: "Skipped extender as it returned error and has ignorable flag set",
        233: "Ignored node for which the extender didn't report victims",
        415: "Dry run the preemption",
        421: "Check the potential node for preemption",
    },
    "preemption/executor.go": {
        112: "Preemptor preempted a waiting pod",
        118: "Preemptor rejected a pod in preBind",
        121: "Failed to reject a pod in preBind, falling back to deletion via api call",
        137: "Could not add DisruptionTarget condition due to preemption",
        140: "Victim Pod is already deleted",
        146: "Tried to preempted pod",
        152: "Preemptor Pod preempted victim Pod",
        213: "Victim Pod is already being deleted, skipping the API call for it",
        251: "Start the preemption asynchronously",
        259: "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node",
        278: "Error occurred during async preemption",
        294: "Error occurred during async preemption of the last victim",
        303: "Async Preemption finished completely",
        342: "Cannot clear 'NominatedNodeName' field",
    },
    "dynamicresources/dynamicresources.go": {
        313: "pod is not schedulable after resource claim change",
        323: "claim with structured parameters got deallocated",
        329: "unrelated claim got modified",
        334: "claim for pod got created",
        345: "claim for pod got modified where the pod doesn't care",
        352: "status of claim for pod got updated",
        367: "pod is not schedulable after change in other pod",
        375: "pod is not schedulable after being updated",
        379: "pod got updated and is schedulable",
        481: "pod resource claims",
        542: "reusing pending allocation",
        600: "Preparing allocation with structured parameters",
        778: "allocation's node selector does not match",
        879: "pod unschedulable",
        972: "Deallocation of ResourceClaim",
        1057: "postfilter unreserved claim",
        1255: "Reserved resource in allocation result",
        1295: "Released resource in allocation result",
        1322: "unreserve",
        1419: "BindingConditions is met",
        1525: "Claim not stored in assume cache",
        1527: "Claim stored in assume cache",
        1550: "Removed claim from in-flight claims",
        1572: "preparing claim status update",
        1585: "retrying update after conflict",
        1647: "reserved",
    },
    "dynamicresources/extendeddynamicresources.go": {
        313: "Delete",
        534: "preparing to create claim for extended resources",
        542: "create claim for extended resources",
        554: "created claim for extended resources",
    },
    "dynamicresources/nodeallocatabledynamicresources.go": {
        432: "Patched pod status with NodeAllocatableResourceClaimStatuses",
        439: "Clearing NodeAllocatableResourceClaimStatuses on Unreserve",
        445: "Failed to clear NodeAllocatableResourceClaimStatuses on Unreserve",
        447: "Cleared NodeAllocatableResourceClaimStatuses",
    },
    "dynamicresources/dra_manager.go": {
        250: "Added share for in-flight claim",
        259: "Added in-flight claim",
        273: "Redundant remove of in-flight claim, not found",
        280: "Removed in-flight claim",
        286: "Claim is still shared by other pods, not removing in-flight claim",
    },
    "assumecache/assume_cache.go": {
        470: "Assumed object",
        490: "Restored object",
    },
    "incubating/allocator_incubating.go": {
        166: "Starting allocation",
        168: "Done with allocation",
        177: "Gathered pool information",
    },
    "defaultbinder/default_binder.go": {
        69: "Attempting to bind pod to node",
    },
    "defaultpreemption/default_preemption.go": {
        326: "Pod is a potential preemption victim on node",
    },
    "volumebinding/volume_binding.go": {
        147: "CSINode creation could make the pod schedulable",
        162: "CSINode's migrated plugins annotation is updated and that may make the pod schedulable",
        166: "CISNode was created or updated but it doesn't make this pod schedulable",
        183: "PersistentVolumeClaim was created or updated, but it doesn't make this pod schedulable "
        "because the PVC belongs to a different namespace",
        201: "PersistentVolumeClaim the pod requires was created or updated, potentially making the "
        "target Pod schedulable",
        206: "PersistentVolumeClaim was created or updated, but it doesn't make this pod schedulable",
        229: "A new StorageClass was created, which could make a Pod schedulable",
        234: "StorageClass got an update in AllowedTopologies",
        238: "StorageClass was updated, but it doesn't make this pod schedulable",
        255: "A new CSIStorageCapacity was created, which could make a Pod schedulable",
        275: "VolumeLimit was increased, which could make a Pod schedulable",
        279: "CSIStorageCapacity was updated, but it doesn't make this pod schedulable",
        301: "CSIDriver was updated and storage capacity got disabled, which may make the pod schedulable",
        306: "CSIDriver was created or updated but it doesn't make this pod schedulable",
        592: "Trying to bind volumes for pod",
        595: "Failed to bind volumes for pod",
        598: "Success binding volumes for pod",
    },
    "volumebinding/binder.go": {
        287: "FindPodVolumes",
        405: "AssumePodVolumes",
        413: "AssumePodVolumes: all PVCs bound and nothing to do",
        421: "AssumePodVolumes: GetBindVolumeToClaim",
        429: "AssumePodVolumes: fail to GetBindVolumeToClaim",
        479: "BindPodVolumes",
        548: "Updating PersistentVolume: binding to claim",
        551: "Updating PersistentVolume: binding to claim failed",
        555: "Updated PersistentVolume with claim. Waiting for binding to complete",
        564: "Updating claims objects to trigger volume provisioning",
        567: "Updating PersistentVolumeClaim: binding to volume failed",
        622: "Failed to get pod from the lister",
        718: "All PVCs for pod are bound",
        762: "PVC is fully bound to PV",
        765: "PVC is not fully bound to PV",
        767: "PVC is not bound",
        861: "PersistentVolume and node mismatch for pod",
        864: "PersistentVolume and node matches for pod",
        867: "All bound volumes for pod match with node",
        892: "No matching volumes for pod",
        901: "Found matching PV for PVC for pod",
        905: "Found matching volumes for pod",
        932: "Storage class of claim does not support dynamic provisioning",
        938: "Node cannot satisfy provisioning topology requirements of claim",
        957: "Provisioning for claims of pod that has no matching volumes...",
    },
    "app/server.go": {
        178: "Starting Kubernetes Scheduler",
        272: "[graceful-termination] secure server has stopped listening",
        274: "[graceful-termination] secure server is exiting",
        295: "handlers are not fully synchronized",
        299: "Handlers synced",
        313: "Starting informers and waiting for sync...",
        315: "Sync completed",
        324: "Requested to terminate, exiting",
        328: "Leaderelection lost",
    },
    "options/configfile.go": {
        94: "Using component config",
        106: "Wrote configuration",
    },
    "leaderelection/leaderelection.go": {
        258: "Attempting to acquire leader lease...",
        267: "Failed to acquire lease",
        272: "Successfully acquired lease",
        300: "Successfully renewed lease",
        304: "Failed to renew lease",
        323: "error retrieving resource lock",
        326: "lease lock not found",
        341: "Failed to release lease",
        366: "Error retrieving lease lock",
        369: "Lease lock not found",
        386: "Lease has expired",
        391: "Lease is held and has not yet expired",
        397: "Lease is marked as 'end of term'",
        421: "Failed to update lock",
        454: "Failed to update lease optimistically, falling back to slow path",
        465: "Error initially creating lease lock",
        481: "Lease is held by and has not yet expired",
        497: "Failed to update lease",
    },
    "events/event_broadcaster.go": {
        216: "Unable to write event (retry limit exceeded!)",
        268: "Server rejected event (will not retry!)",
        279: "Unable to write event (may retry after sleeping)",
    },
    "events/event_recorder.go": {
        81: "Unsupported event type",
    },
    "cache/shared_informer.go": {
        384: "Unable to sync caches",
        402: "Waiting for caches to sync",
        409: "Caches are synced",
        454: "Waiting",
        493: "Done waiting",
        504: "Timed out waiting",
        724: "Warning: the sharedIndexInformer has started, run more than once is not allowed",
        861: "Warning: the specified resyncPeriod is invalid because this shared informer doesn't support resyncing",
        865: "Warning: the specified resyncPeriod is being increased to the minimum resyncCheckPeriod",
        889: "Warning: resync period is too small. Changing it to the minimum allowed value",
        895: "Warning: resync period is smaller than resync check period and the informer has already "
        "started. Changing it to the resync check period",
        1367: "unrecognized notification",
    },
    "noderesources/fit.go": {
        410: "the deleted pod was unscheduled and it wouldn't make the unscheduled pod schedulable",
        415: "another scheduled pod was deleted, and it may make the unscheduled pod schedulable",
        428: "pod got scaled down, but the modification isn't related to the resource requests of the target pod",
        435: "another scheduled pod or the target pod itself got scaled down, and it may make the "
        "unscheduled pod schedulable",
        509: "node was created or updated, but it doesn't have enough resource(s) to accommodate this pod",
        514: "node was added and it might fit the pod's resource requests",
        519: "node was updated, but haven't changed the pod's resource requestments fit assessment",
        523: "node was updated, and may now fit the pod's resource requests",
        536: "device class has identical extended resource name",
        543: "device class was added, and may now fit the pod's resource requests",
        550: "device class was created or updated, and may fit the pod's resoruce requests",
        554: "created or updated deivce class extended resource name is either nil, or does not match "
        "pod's resource request",
    },
    "nodevolumelimits/csi.go": {
        121: "The deleted pod does not impact the scheduling of the unscheduled pod",
        148: "PVC that is referred from the pod was created, which might make this pod schedulable",
        153: "PVC irrelevant to the Pod was created, which doesn't make this pod schedulable",
        167: "Pod volume uses PersistentVolumeClaim, which might make this pod schedulable due to "
        "VolumeAttachment deletion",
        182: "Pod volume is an Inline Migratable volume that matches the CSI driver, which might make "
        "this pod schedulable due to VolumeAttachment deletion",
        190: "the VolumeAttachment deletion wouldn't make this pod schedulable because the pod has no "
        "volume related to a deleted VolumeAttachment",
        222: "CSINode driver limit increased, might make this pod schedulable",
    },
    "volumezone/volume_zone.go": {
        319: "PVC that is referred from the pod was created or updated, which might make this pod schedulable",
        323: "PVC irrelevant to the Pod was created or updated, which doesn't make this pod schedulable",
        335: "PVC is referred from the pod",
        339: "PVC is not referred from the pod",
        352: "StorageClass is created, but its VolumeBindingMode is not waitForFirstConsumer, which "
        "doesn't make the pod schedulable",
        356: "StorageClass with waitForFirstConsumer mode was created and it might make this pod schedulable",
        369: "PV is newly created, which might make the pod schedulable",
        375: "PV's topology was updated, which might make the pod schedulable.",
        379: "PV was updated, but the topology is unchanged, which it doesn't make the pod schedulable",
    },
    "nodedeclaredfeatures/nodedeclaredfeatures.go": {
        177: "the update event is not for targetPod, skipping queueing",
        193: "pod feature requirements didn't change, skipping queueing",
        196: "pod feature requirements changed, queueing",
        206: "node's declared features didn't change, skipping queueing",
        209: "Node declared features updated, queueing",
    },
    "tainttoleration/taint_toleration.go": {
        110: "node was created or updated, and this may make the Pod rejected by TaintToleration "
        "plugin in the previous scheduling cycle schedulable",
        114: "node was created or updated, but it doesn't change the TaintToleration plugin's decision",
        237: "a new toleration is added for the unschedulable Pod, and it may make it schedulable",
        241: "a new toleration is added for a Pod, but it's an unrelated Pod and wouldn't change the "
        "TaintToleration plugin's decision",
    },
    "interpodaffinity/plugin.go": {
        180: "the target pod labels have changed and it may be schedulable now",
        187: "the added/updated/deleted pod is unscheduled, so it doesn't make the target pod schedulable",
        207: "a scheduled pod was updated to match the target pod's affinity, and the pod may be schedulable now",
        212: "a scheduled pod was updated not to match the target pod's anti affinity, and the pod may "
        "be schedulable now",
        216: "a scheduled pod was updated but it doesn't match the target pod's affinity or does match "
        "the target pod's anti-affinity",
        224: "a scheduled pod was added and it matches the target pod's affinity",
        228: "a scheduled pod was added and it doesn't match the target pod's affinity",
        236: "a scheduled pod was deleted and it matches the target pod's anti-affinity. The pod may "
        "be schedulable now",
        246: "a scheduled pod was deleted and the target pod matches the deleted pod's anti-affinity. "
        "The pod may be schedulable now",
        251: "a scheduled pod was deleted but it doesn't match the target pod's anti-affinity, nor vice versa",
        275: "A node with a matched pod affinity topologyKey was added and it may make the pod schedulable",
        286: "A node got updated to have the topology key of pod affinity, which may make the pod schedulable",
        293: "A node is moved to a different domain of pod affinity, which may make the pod schedulable",
        315: "A node was added and it may make the pod schedulable",
        327: "A node got updated to not have the topology key of pod anti-affinity, which may make the pod schedulable",
        334: "A node is moved to a different domain of pod anti-affinity, which may make the pod schedulable",
        339: "a node is added/updated but doesn't have any topologyKey which matches pod affinity/anti-affinity",
    },
    "volumerestrictions/volume_restrictions.go": {
        397: "Pod with the volume that the target pod requires was deleted, which might make this pod schedulable",
        415: "Pod with the same PVC that the target pod requires was deleted, which might make this pod schedulable",
        420: "An irrelevant Pod was deleted, which doesn't make this pod schedulable",
    },
    "nodeports/node_ports.go": {
        136: "the deleted pod is unscheduled and it doesn't make the target pod schedulable",
        153: "the deleted pod and the target pod don't have any common port(s), returning QueueSkip as "
        "deleting this Pod won't make the Pod schedulable",
        157: "the deleted pod and the target pod have any common port(s), returning Queue as deleting "
        "this Pod may make the Pod schedulable",
    },
    "podtopologyspread/plugin.go": {
        213: "the added/updated/deleted pod is unscheduled or has different namespace with target pod, "
        "so it doesn't make the target pod schedulable",
        227: "the unschedulable pod has got a new toleration, which could make it schedulable",
        233: "the pod's update doesn't include the label update, which doesn't make the target pod schedulable",
        241: "a scheduled pod's label was updated and it makes the updated pod match or unmatch the "
        "pod's topology spread constraints",
        247: "a scheduled pod's label was updated, but it's a change unrelated to the pod's topology "
        "spread constraints",
        255: "a scheduled pod was created and it matches with the pod's topology spread constraints",
        259: "a scheduled pod was created, but it doesn't matches with the pod's topology spread constraints",
        266: "a scheduled pod which matches with the pod's topology spread constraints was deleted, "
        "and the pod may be schedulable now",
        270: "a scheduled pod was deleted, but it's unrelated to the pod's topology spread constraints",
        332: "the node is updated and now pod topology spread constraints has changed, and the pod may "
        "be schedulable now",
        337: "the node is updated and now has different taints or labels, and the pod may be schedulable now",
        346: "the created node doesn't match pod topology spread constraints",
        350: "the created node matches topology spread constraints, and the pod may be schedulable now",
        356: "the deleted node doesn't match pod topology spread constraints",
        359: "the deleted node matches topology spread constraints, and the pod may be schedulable now",
    },
    "nodeaffinity/node_affinity.go": {
        126: "added or modified node didn't match scheduler-enforced node affinity and this event "
        "won't make the Pod schedulable",
        136: "node was created or updated, but the pod's NodeAffinity doesn't match",
        141: "node was created, and matches with the pod's NodeAffinity",
        151: "node updated, but the pod's NodeAffinity hasn't changed",
        154: "node was updated and the pod's NodeAffinity changed to matched",
    },
    "nodeunschedulable/node_unschedulable.go": {
        98: "a new toleration is added for the unschedulable Pod, but it's an unrelated toleration",
        121: "node was created or updated, pod may be schedulable now",
        125: "node was created or updated, but it doesn't make this pod schedulable",
    },
    "extendedresourcecache/extendedresourcecache.go": {
        105: "DeviceClass added",
        126: "DeviceClass updated",
        145: "DeviceClass deleted",
        200: "Updated extended resource cache for explicit mapping",
        207: "Updated extended resource cache for default mapping",
        223: "Updated device class mapping",
        239: "Removed extended resource from cache",
        249: "Removed device class",
    },
    "leaderelection/leasecandidate.go": {
        168: "Ensuring lease failed",
        184: "Creating lease candidate",
        190: "Created lease candidate",
        195: "Lease candidate exists. Renewing.",
    },
}

_OLDER: Final = {"Finished binding for pod, can be expired": "cache/cache.go:389"}
"""Messages of earlier releases (this one is v1.31's) that people know from documentation and still look for."""

_PLACES: Final[dict[str, str]] = {
    message: f"{file}:{line}" for file, lines in _UPSTREAM.items() for line, message in lines.items()
} | _OLDER

_PRINTF: Final = {
    "FLAG: --": "flag/flags.go:64",
    "Generated self-signed cert (": "options/serving.go:405",
    "Generated self-signed cert in-memory": "options/serving.go:411",
    "Serving securely on ": "server/secure_serving.go:214",
    "No authentication-kubeconfig provided in order to lookup client-ca-file": "options/authentication.go:368",
    "No authentication-kubeconfig provided in order to lookup requestheader": "options/authentication.go:392",
    "Error looking up in-cluster authentication configuration: ": "options/authentication.go:397",
    "Continuing without authentication configuration.": "options/authentication.go:398",
    "To require authentication configuration lookup to succeed": "options/authentication.go:399",
    "No authorization-kubeconfig provided, so": "options/authorization.go:193",
}
"""Messages, by how they begin, that upstream formats in klog's older way: no fields, and text without quotes."""
_FAILED_CHECK: Final = " check failed: ", "healthz/healthz.go:311"
"""This message, also of that kind, begins with the names of checks."""
PRINTF_PLACES: Final = frozenset((*_PRINTF.values(), _FAILED_CHECK[1]))

WITHOUT_CONTEXT: Final = (
    "dynamicresources/dra_manager.go",
    "assumecache/assume_cache.go",
    "preemption/executor.go",
    "api_calls/pod_status_patch.go",
)
"""Files whose messages do not say in which cycle they were written."""

MOVED: Final = "Pod moved to an internal scheduling queue"
_MOVED: Final = {
    "Active": "queue/active_queue.go:111",
    "Backoff": "queue/backoff_queue.go:310",
    "Unschedulable": "queue/scheduling_queue.go:730",
}
_MOVED_AFTER_FAILURE: Final = "queue/scheduling_queue.go:965"


def upstream_caller(message: str, fields: Mapping[str, object]) -> str | None:
    """Folder, file and line of upstream's message; None for our own messages.

    Some messages occur in several files; their fields tell which one it is.
    """
    if message == MOVED:
        return _MOVED_AFTER_FAILURE if "schedulingCycle" in fields else _MOVED.get(str(fields.get("queue")))
    found = _PLACES.get(message) or next((_PRINTF[each] for each in _PRINTF if message.startswith(each)), None)
    part, place = _FAILED_CHECK
    return place if found is None and part in message else found
