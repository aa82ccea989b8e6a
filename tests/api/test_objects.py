"""Objects: decoding every kind, accepting what Kubernetes accepts, and clear errors for the rest."""

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from kubesched.api.objects import (
    KINDS,
    ContainerPort,
    CSINode,
    CSIStorageCapacity,
    InvalidObject,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodStatus,
    StorageClass,
    decode,
    decode_as,
)

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "u-1",
        "labels": {"app": "web"},
        "annotations": {"note": "x"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u-2", "controller": True}
        ],
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "schedulerName": "special",
        "priority": 7,
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
                "minDomains": 2,
            }
        ],
        "containers": [
            {
                "name": "main",
                "image": "web:1",
                "command": ["run"],
                "resources": {"requests": {"cpu": "500m", "memory": 1024, "example.com/gpu": 0.5}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "TCP"}],
            }
        ],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
            {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}},
            {"name": "gce", "gcePersistentDisk": {"pdName": "pd-1", "readOnly": True}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
            {"name": "config", "configMap": {"name": "c"}},
        ],
        "schedulingGates": [{"name": "wait"}],
        "hostNetwork": True,
    },
    "status": {"phase": "Pending", "nominatedNodeName": "n1", "hostIP": "10.0.0.2"},
}


def refusal(data: object) -> str:
    """The error of `decode` for an invalid object, the same for JSON and for a dict."""
    assert isinstance(data, dict)
    messages = set()
    for form in (data, msgspec.json.encode(data)):
        with pytest.raises(InvalidObject) as caught:
            decode(form)
        messages.add(str(caught.value))
    assert len(messages) == 1
    return messages.pop()


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_pod_is_read_in_full() -> None:
    """Every field that scheduling reads is decoded, and the rest is skipped."""
    pod = decode(POD)
    assert isinstance(pod, Pod)
    assert pod == decode(msgspec.json.encode(POD))
    assert pod.key == "shop/web-0"
    assert (pod.name, pod.namespace, pod.uid) == ("web-0", "shop", "u-1")
    assert (pod.labels, pod.annotations) == ({"app": "web"}, {"note": "x"})
    assert pod.metadata.owner_references[0].controller is True
    container = pod.spec.containers[0]
    assert container.resources.requests == {"cpu": "500m", "memory": 1024, "example.com/gpu": 0.5}
    assert container.ports == (ContainerPort(80, 8080, "10.0.0.1", "TCP"),)
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert pod.spec.topology_spread_constraints[0].min_domains == 2
    assert pod.spec.host_network is True


def test_volume_sources_keep_upstreams_spelling() -> None:
    """Field names with initials in them, such as volumeID, are read by their JSON names."""
    pod = decode(POD)
    assert isinstance(pod, Pod)
    data, disk, gce, scratch, config = pod.spec.volumes
    assert data.persistent_volume_claim is not None
    assert data.persistent_volume_claim.claim_name == "data-0"
    assert disk.aws_elastic_block_store is not None
    assert disk.aws_elastic_block_store.volume_id == "vol-1"
    assert gce.gce_persistent_disk is not None
    assert gce.gce_persistent_disk.pd_name == "pd-1"
    assert scratch.ephemeral is not None
    assert scratch.ephemeral.volume_claim_template is not None
    assert scratch.ephemeral.volume_claim_template.spec.storage_class_name == "fast"
    assert config == replace(data, name="config", persistent_volume_claim=None)


def test_what_a_pod_says_about_itself() -> None:
    """The properties of a pod read its spec and status."""
    pod = decode(POD)
    assert isinstance(pod, Pod)
    assert (pod.scheduler_name, pod.priority, pod.nominated_node_name, pod.node_name) == ("special", 7, "n1", "")
    assert not pod.is_terminating
    assert not pod.is_terminal


def test_what_an_empty_pod_says_about_itself() -> None:
    """A pod without these fields belongs to the default scheduler, at priority 0."""
    pod = Pod()
    assert (pod.scheduler_name, pod.priority, pod.key) == ("default-scheduler", 0, "")


@pytest.mark.parametrize(
    ("phase", "terminal"), [("Pending", False), ("Running", False), ("Succeeded", True), ("Failed", True), ("", False)]
)
def test_terminal_phases(phase: str, terminal: bool) -> None:
    """A pod that has succeeded or failed holds nothing any more."""
    assert Pod(status=PodStatus(phase=phase)).is_terminal is terminal


def test_deletion_makes_a_pod_terminating() -> None:
    """A pod whose deletion was requested is terminating."""
    assert decode_as(Pod, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}).is_terminating


def test_cluster_scoped_objects_have_no_namespace_in_their_key() -> None:
    """A node's key is its name."""
    assert decode({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}).key == "n1"


def test_storage_objects() -> None:
    """Claims, volumes, classes and CSI objects carry what the volume plugins read."""
    claim = decode_as(
        PersistentVolumeClaim,
        {"spec": {"storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Block"}},
    )
    assert claim.spec.storage_class_name == ""
    assert claim.spec.resources.requests == {"storage": "1Gi"}
    volume = decode_as(
        PersistentVolume,
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "claimRef": {"namespace": "shop", "name": "data"},
                "csi": {"driver": "d", "volumeHandle": "h"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z"}]}]}},
            },
            "status": {"phase": "Available"},
        },
    )
    assert volume.spec.csi is not None
    assert volume.spec.csi.volume_handle == "h"
    assert volume.spec.node_affinity is not None
    assert volume.spec.node_affinity.required is not None
    terms = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    storage = decode_as(StorageClass, {"volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": terms})
    assert storage.allowed_topologies[0].match_label_expressions[0].values == ("a",)
    drivers = [{"name": "d", "nodeID": "i-1", "topologyKeys": ["zone"], "allocatable": {"count": 3}}]
    csi_node = decode_as(CSINode, {"spec": {"drivers": drivers}})
    assert csi_node.spec.drivers[0].node_id == "i-1"
    assert csi_node.spec.drivers[0].allocatable is not None
    assert csi_node.spec.drivers[0].allocatable.count == 3
    capacity = decode_as(CSIStorageCapacity, {"storageClassName": "fast", "capacity": "5Gi"})
    assert (capacity.capacity, capacity.maximum_volume_size) == ("5Gi", None)


def test_disruption_budgets() -> None:
    """A budget has its selector and what its status allows and has counted."""
    budget = decode_as(
        PodDisruptionBudget,
        {
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 1, "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}},
        },
    )
    assert budget.spec.selector is not None
    assert budget.status.disruptions_allowed == 1
    assert "web-1" in budget.status.disrupted_pods


@pytest.mark.parametrize("cls", KINDS.values(), ids=lambda cls: cls.kind)
def test_every_kind_is_found_by_its_name(cls: type[Object]) -> None:
    """Each kind decodes to its own class, from its apiVersion and kind alone."""
    decoded = decode({"apiVersion": cls.api_version, "kind": cls.kind, "metadata": {"name": "x"}})
    assert type(decoded) is cls
    assert decoded.name == "x"


# --- the structs themselves -------------------------------------------------------------------------------------------


def structs(root: type[msgspec.Struct], seen: set[type[msgspec.Struct]]) -> Iterator[type[msgspec.Struct]]:
    """A struct type and every struct type inside it."""
    if root in seen:
        return
    seen.add(root)
    yield root
    for item in fields(root):
        for inner in _types_in(item.type):
            yield from structs(inner, seen)


def _types_in(annotation: object) -> Iterator[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for argument in get_args(annotation):
        yield from _types_in(argument)


@pytest.mark.parametrize("cls", KINDS.values(), ids=lambda cls: cls.kind)
def test_every_struct_is_frozen_and_complete_without_arguments(cls: type[Object]) -> None:
    """Objects can be shared because nothing changes them, and no field of theirs is ever missing."""
    for struct in structs(cls, set()):
        assert struct.__struct_config__.frozen, struct
        assert not struct.__struct_config__.gc, struct
        assert struct() == struct()


def test_a_changed_copy_leaves_the_original() -> None:
    """An object is changed by making another one."""
    pod = decode(POD)
    assert isinstance(pod, Pod)
    bound = replace(pod, spec=replace(pod.spec, node_name="n1"))
    assert (bound.node_name, pod.node_name) == ("n1", "")
    assert bound.metadata is pod.metadata


def test_default_maps_are_not_shared() -> None:
    """Two objects without labels do not share one dictionary."""
    assert Pod().spec.node_selector is not decode_as(Pod, {"spec": {}}).spec.node_selector


# --- nulls ------------------------------------------------------------------------------------------------------------


def test_nulls_are_absent_fields() -> None:
    """An explicit null anywhere reads as if the field were not there."""
    with_nulls = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": None, "creationTimestamp": None, "annotations": {"x": None}},
        "spec": {"containers": [{"name": "c", "resources": None, "ports": None}, None], "affinity": None},
        "status": None,
    }
    expected = Pod(metadata=replace(Pod().metadata, name="a"))
    for form in (with_nulls, msgspec.json.encode(with_nulls)):
        pod = decode(form)
        assert isinstance(pod, Pod)
        assert replace(pod, spec=replace(pod.spec, containers=())) == expected
        assert [container.name for container in pod.spec.containers] == ["c"]


names = st.sampled_from(
    ["name", "labels", "containers", "resources", "requests", "overhead", "nodeSelector", "conditions"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "1Gi"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), json_values))
def test_whatever_comes_is_read_or_refused(data: dict[str, object]) -> None:
    """Any JSON object becomes a pod or an InvalidObject, never another error."""
    for form in (data, msgspec.json.encode(data)):
        try:
            decode_as(Pod, form)
        except InvalidObject as error:
            message = str(error)
        else:
            continue
        assert message.startswith("Pod")


@given(st.data())
def test_a_null_in_place_of_any_field_is_accepted(data: st.DataObject) -> None:
    """Whichever field of a pod is null, the pod is read."""
    document = msgspec.json.decode(msgspec.json.encode(POD))
    place = document
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    if place is document and key in ("apiVersion", "kind"):
        return
    place[key] = None
    assert isinstance(decode(document), Pod)


def test_dates_from_yaml_are_strings_again() -> None:
    """A YAML reader turns timestamps into dates; they are put back in Kubernetes' form."""
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for date in (moment, moment.replace(tzinfo=None)):
        pod = decode_as(Pod, {"metadata": {"name": "a", "creationTimestamp": date}})
        assert pod.metadata.creation_timestamp == "2026-01-02T03:04:05Z"


def test_keys_from_yaml_are_strings_again() -> None:
    """A YAML reader turns some keys into numbers and truth values; Kubernetes has strings."""
    node = decode_as(Node, {"metadata": {"name": "a", "labels": {1: "x", False: "y"}}})
    assert node.labels == {"1": "x", "false": "y"}


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "worker-1", "labels": None},
                "status": {"allocatable": {"memory": "1Gi", "cpu": "12x", "pods": "110"}},
            },
            'Node worker-1: status.allocatable["cpu"]: quantity "12x" is malformed; '
            "use a number with an optional suffix such as 500m or 1Gi",
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "namespace": "shop"},
                "spec": {"containers": [{}, {"resources": {"requests": {"cpu": "1", "memory": ""}}}]},
            },
            'Pod shop/a: spec.containers[1].resources.requests["memory"]: quantity "" is malformed; '
            "use a number with an optional suffix such as 500m or 1Gi",
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop", "labels": {"x/y": 3}}},
            'Pod shop/a: metadata.labels["x/y"]: expected str, got int (3)',
        ),
        (
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": "a"},
                "spec": {
                    "devices": [{"capacity": {"memory": {"value": "1Gi"}, "bandwidth": {"requestPolicy": "x"}}}],
                    "sharedCounters": True,
                },
            },
            'ResourceSlice a: spec.devices[0].capacity["bandwidth"].requestPolicy: expected object | null, '
            'got str ("x")',
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"overhead": {"cpu": True}}},
            'Pod a: spec.overhead["cpu"]: expected int | float | str, got bool (true)',
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"ports": [{}, {"hostPort": "x"}]}]}},
            'Pod: spec.containers[0].ports[1].hostPort: expected int, got str ("x")',
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": "x"},
            'Pod: metadata: expected object, got str ("x")',
        ),
        (
            {"apiVersion": "v1", "kind": "ReplicaSet"},
            "ReplicaSet: kind: apiVersion 'v1' is not known; use 'apps/v1'",
        ),
        (
            {"apiVersion": "v1", "kind": "ConfigMap"},
            "ConfigMap: kind: kind 'ConfigMap' (apiVersion 'v1') is none that scheduling reads",
        ),
        ({}, "object: kind: kind '' (apiVersion '') is none that scheduling reads"),
        ({"kind": 3}, "object: kind: expected str | null, got int"),
    ],
)
def test_a_refusal_names_object_field_and_value(data: dict[str, object], message: str) -> None:
    """The message names the object, the field and the value."""
    assert refusal(data) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "object: not valid JSON: Input data was truncated"),
        (b"[]", "object: expected object, got array"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes, message: str) -> None:
    """Broken JSON and JSON that is no object are refused like any other bad input."""
    with pytest.raises(InvalidObject) as caught:
        decode(data)
    assert str(caught.value) == message


def test_broken_json_for_a_known_kind() -> None:
    """A caller that knows the kind in advance gets it into the message."""
    with pytest.raises(InvalidObject, match=r"^Node: not valid JSON: "):
        decode_as(Node, b'{"metadata": ')
    with pytest.raises(InvalidObject, match=r"^Node: expected object, got array"):
        decode_as(Node, b"[]")


def test_a_refusal_can_be_taken_apart() -> None:
    """Callers get object, field and problem separately, and can send the error to another process."""
    error = InvalidObject("Node", "n1", "spec.x", "is wrong")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.kind, copy.key, copy.field, copy.problem) == ("Node", "n1", "spec.x", "is wrong")
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("body", "problem"),
    [(b'{"x":%b}' % (b"[" * 5000 + b"]" * 5000), "nested too deep"), (b'{"kind":"\xff"}', "not valid UTF-8")],
)
def test_unreadable_json_is_an_invalid_object(body: bytes, problem: str) -> None:
    """Nesting beyond Python's limit and invalid UTF-8 are refused like any other malformed object."""
    with pytest.raises(InvalidObject, match=problem):
        decode(body)


@pytest.mark.parametrize(
    ("field", "value", "spec"),
    [
        ("maxSkew", 2**31, {"topologySpreadConstraints": [{"maxSkew": 2**31}]}),
        ("priority", -(2**31) - 1, {"priority": -(2**31) - 1}),
        ("tolerationSeconds", 2**63, {"tolerations": [{"tolerationSeconds": 2**63}]}),
        (
            "weight",
            2**63,
            {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2**63}]}}},
        ),
    ],
)
def test_a_number_that_an_api_server_cannot_have_is_refused(field: str, value: int, spec: dict[str, object]) -> None:
    """A number beyond the type of its field is refused: on a node, its pod could stop others from being scheduled."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    with pytest.raises(InvalidObject, match=rf"{field}.*\({value}\)"):
        decode(pod)
