"""What `kubectl get` prints: one table of objects and the cells they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.support import CREATED_AT, NODES, PODS, TABLE, FixedClock, node, pod, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.apiserver.printing.columns_admission import COLUMNS as ADMISSION
from kubesched.apiserver.printing.columns_core import COLUMNS as CORE
from kubesched.apiserver.printing.columns_pods import COLUMNS as PODS_COLUMNS
from kubesched.apiserver.printing.table import human_duration, labels_text, selector_text
from kubesched.apiserver.storage.store import decode
from kubesched.base.types import JSON

META = {"name": "x", "namespace": "default", "creationTimestamp": "2023-11-14T22:13:20Z"}
NOW = CREATED_AT + 90


def _cells(resource: str, body: JSON, **meta: Any) -> list[Any]:
    columns = {**CORE, **PODS_COLUMNS, **ADMISSION}[resource]
    return columns.cells({"metadata": {**META, **meta}, **body}, NOW)


def _pod(status: JSON, containers: int = 1, **meta: Any) -> list[Any]:
    spec = {"containers": [{"name": f"c{n}"} for n in range(containers)], "nodeName": "n1"}
    return _cells("/pods", {"spec": spec, "status": status}, **meta)


def _state(**state: Any) -> JSON:
    return {"name": "c", "restartCount": 0, "ready": "running" in state, "state": state}


POD_STATES: list[tuple[JSON, dict[str, Any], str, str]] = [
    ({"phase": "Pending"}, {}, "0/1", "Pending"),
    ({"phase": "Running", "containerStatuses": [_state(running={})]}, {}, "1/1", "Running"),
    (
        {"phase": "Running", "containerStatuses": [_state(waiting={"reason": "CrashLoopBackOff"})]},
        {},
        "0/1",
        "CrashLoopBackOff",
    ),
    ({"phase": "Succeeded", "containerStatuses": [_state(terminated={"reason": "Completed"})]}, {}, "0/1", "Completed"),
    ({"phase": "Failed", "containerStatuses": [_state(terminated={"exitCode": 3})]}, {}, "0/1", "ExitCode:3"),
    ({"phase": "Failed", "containerStatuses": [_state(terminated={"signal": 9})]}, {}, "0/1", "Signal:9"),
    ({"phase": "Failed", "reason": "Evicted"}, {}, "0/1", "Evicted"),
    ({"phase": "Running"}, {"deletionTimestamp": "2023-11-14T22:13:50Z"}, "0/1", "Terminating"),
    ({"phase": "Succeeded"}, {"deletionTimestamp": "2023-11-14T22:13:50Z"}, "0/1", "Succeeded"),
    ({"phase": "Running", "reason": "NodeLost"}, {"deletionTimestamp": "2023-11-14T22:13:50Z"}, "0/1", "Unknown"),
    (
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
        {},
        "0/1",
        "SchedulingGated",
    ),
]


@pytest.mark.parametrize(("status", "meta", "ready", "state"), POD_STATES)
def test_pod_states(status: JSON, meta: dict[str, Any], ready: str, state: str) -> None:
    """A pod's state is the word that says most about it."""
    assert _pod(status, **meta)[1:3] == [ready, state]


def test_init_containers_show_progress() -> None:
    """A pod that is still starting says how far it is, or what holds it."""
    spec = {"initContainers": [{"name": "i"}, {"name": "j"}], "containers": [{"name": "c"}]}
    done, busy = _state(terminated={"exitCode": 0}), _state(waiting={"reason": "PodInitializing"})
    failed = _state(terminated={"exitCode": 1, "reason": "Error"})
    for statuses, word in (([done, busy], "Init:1/2"), ([failed, busy], "Init:Error")):
        cells = _cells("/pods", {"spec": spec, "status": {"phase": "Pending", "initContainerStatuses": statuses}})
        assert cells[2] == word


def test_restarts_say_when() -> None:
    """A container that was restarted says how often and how long ago."""
    last = {"terminated": {"finishedAt": "2023-11-14T22:13:50Z"}}
    status = {"phase": "Running", "containerStatuses": [{**_state(running={}), "restartCount": 2, "lastState": last}]}
    assert _pod(status)[3] == "2 (60s ago)"


def test_wide_pods() -> None:
    """Wide output has the address, the node, the nomination and the readiness gates."""
    status = {"phase": "Pending", "podIPs": [{"ip": "10.0.0.7"}], "nominatedNodeName": "n2"}
    assert _pod(status)[4:] == ["90s", "10.0.0.7", "n1", "n2", "<none>"]


TABLES: list[tuple[str, JSON, list[Any]]] = [
    (
        "apps/deployments",
        {
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"readyReplicas": 2, "updatedReplicas": 3},
        },
        ["x", "2/3", 3, 0, "90s", "", "", "a=b"],
    ),
    ("apps/replicasets", {"spec": {"replicas": 2}, "status": {"replicas": 1}}, ["x", 2, 1, 0, "90s", "", "", "<none>"]),
    ("apps/statefulsets", {"spec": {"replicas": 2}}, ["x", "0/2", "90s", "", ""]),
    (
        "batch/jobs",
        {"spec": {"completions": 2}, "status": {"succeeded": 1, "startTime": "2023-11-14T22:14:20Z"}},
        ["x", "Running", "1/2", "30s", "90s", "", "", "<none>"],
    ),
    (
        "policy/poddisruptionbudgets",
        {"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}},
        ["x", "50%", "N/A", 1, "90s"],
    ),
    (
        "/services",
        {"spec": {"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30001}]}},
        ["x", "NodePort", "10.96.0.9", "<none>", "80:30001/TCP", "90s", "<none>"],
    ),
    (
        "/persistentvolumes",
        {
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
            "status": {"phase": "Available"},
        },
        ["x", "1Gi", "RWO,RWX", "", "Available", "", "", "<unset>", "", "90s", "<unset>"],
    ),
    (
        "/persistentvolumeclaims",
        {"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}},
        ["x", "Pending", "", "", "", "fast", "<unset>", "90s", "<unset>"],
    ),
    ("/configmaps", {"data": {"a": "1"}, "binaryData": {"b": "2"}}, ["x", 2, "90s"]),
    ("coordination.k8s.io/leases", {"spec": {"holderIdentity": "me"}}, ["x", "me", "90s"]),
    (
        "/events",
        {
            "involvedObject": {"kind": "Pod", "name": "p"},
            "reason": "Scheduled",
            "type": "Normal",
            "message": "hello\n",
            "series": {"count": 4, "lastObservedTime": "2023-11-14T22:14:40.000000Z"},
            "eventTime": "2023-11-14T22:13:20.000000Z",
            "reportingComponent": "default-scheduler",
        },
        ["10s", "Normal", "Scheduled", "pod/p", "", "default-scheduler", "hello", "90s", 4, "x"],
    ),
    (
        "rbac.authorization.k8s.io/rolebindings",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}],
        },
        ["x", "Role/r", "90s", "u", "", "n/s"],
    ),
    ("scheduling.k8s.io/priorityclasses", {"value": 5}, ["x", 5, False, "90s", "PreemptLowerPriority"]),
    (
        "scheduling.k8s.io/podgroups",
        {
            "spec": {"schedulingPolicy": {"basic": {}}, "podGroupTemplateRef": {"workload": {"workloadName": "w"}}},
            "status": {"conditions": [{"type": "PodGroupScheduled", "status": "False"}]},
        },
        ["x", "Basic", "w", "Unschedulable", "90s"],
    ),
]


@pytest.mark.parametrize(("resource", "body", "cells"), TABLES, ids=[row[0] for row in TABLES])
def test_cells(resource: str, body: JSON, cells: list[Any]) -> None:
    """Each kind has its usual cells."""
    assert _cells(resource, body) == cells


def test_every_row_fits_its_columns() -> None:
    """Even an empty object fills every column of its kind."""
    for resource, columns in {**CORE, **PODS_COLUMNS}.items():
        assert len(_cells(resource, {})) == len(columns.shown), resource


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (3 * 3600, "3h"), (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"), (49 * 3600, "2d1h"), (10 * 86400, "10d"), (800 * 86400, "2y70d"), (3000 * 86400, "8y"),
        (-5, "<invalid>"),
    ],
)  # fmt: skip
def test_ages(seconds: float, text: str) -> None:
    """An age is shown in the units that matter."""
    assert human_duration(seconds) == text


def test_selectors_as_text() -> None:
    """Selectors are shown in the grammar of queries."""
    expressions = [
        {"key": "k", "operator": "In", "values": ["b", "a"]},
        {"key": "l", "operator": "DoesNotExist"},
        {"key": "m", "operator": "Exists"},
    ]
    assert selector_text({"matchLabels": {"x": "y"}, "matchExpressions": expressions}) == "x=y,k in (a,b),!l,m"
    assert labels_text({}) == "<none>"


async def test_table_over_rest(client: LocalClient, clock: FixedClock) -> None:
    """A client that asks for a Table gets one, with as much of the objects as it wants."""
    await client.create(NODES, node("a"))
    clock.time += 60
    table = await client.get(NODES, headers=TABLE)
    assert table["kind"] == "Table"
    assert table["rows"][0]["cells"][:4] == ["a", "Unknown", "<none>", "60s"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = await client.get(f"{NODES}/a?includeObject=Object", headers=TABLE)
    assert whole["rows"][0]["object"]["status"]["capacity"]["cpu"] == "4"
    none = await client.get(f"{NODES}?includeObject=None", headers=TABLE)
    assert "object" not in none["rows"][0]
    assert (await refusal(client.get(f"{NODES}?includeObject=All", headers=TABLE))).code == 400


async def test_flow_schemas_are_in_the_order_of_precedence(client: LocalClient) -> None:
    """kubectl get flowschemas lists them in the order in which they are tried, not by name."""
    path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    for name, precedence in (("a", 900), ("b", 100), ("c", 100)):
        spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": "x"}}
        await client.create(path, {"metadata": {"name": name}, "spec": spec})
    table = await client.get(path, headers=TABLE)
    assert [row["cells"][0] for row in table["rows"]] == ["b", "c", "a"]


async def test_metadata_alone(client: LocalClient) -> None:
    """A client may ask for metadata alone, of one object or of a list."""
    await client.create(PODS, pod("a"))
    headers = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    found = await client.get(PODS, headers=headers)
    assert (found["kind"], found["items"][0]["metadata"]["name"]) == ("PartialObjectMetadataList", "a")
    assert "spec" not in found["items"][0]


async def test_what_cannot_be_answered_is_406(client: LocalClient) -> None:
    """A client that accepts only protobuf gets 406; one that also accepts JSON gets JSON."""
    only = {"accept": "application/vnd.kubernetes.protobuf"}
    assert (await refusal(client.get(PODS, headers=only))).code == 406
    both = {"accept": "application/vnd.kubernetes.protobuf,application/json"}
    assert (await client.get(PODS, headers=both))["kind"] == "PodList"


RECORDED = dict(
    line.split(": ", 1) for line in (Path(__file__).parent / "columns.txt").read_text(encoding="utf-8").splitlines()
)
"""The columns of every built-in kind, as kube-apiserver shows them: ``+`` before a wide one, type and format after."""


def _described(column: JSON) -> str:
    kind = "/".join(filter(None, (column["type"], column["format"])))
    return f"{'+' if column['priority'] else ''}{column['name']}{f':{kind}' if kind != 'string' else ''}"


async def test_every_kind_has_kube_apiservers_columns(client: LocalClient) -> None:
    """The names, types, formats and order of the columns that `kubectl get` and `-o wide` print."""
    found = {}
    for resource in BUILT_IN:
        if resource.is_stored:
            path = f"/apis/{resource.group_version}" if resource.group else "/api/v1"
            table = decode((await client.send("GET", f"{path}/{resource.plural}", headers=TABLE)).body)
            shown = ", ".join(_described(column) for column in table["columnDefinitions"])
            found[f"{resource.group_version}/{resource.plural}"] = shown
    assert found == RECORDED


LEVEL = {"type": "Limited", "limited": {"nominalConcurrencyShares": 3, "limitResponse": {"type": "Reject"}}}
TAINT = {"key": "example.com/k", "value": "v", "effect": "NoSchedule", "timeAdded": "2023-11-14T22:13:20Z"}


@pytest.mark.parametrize(
    ("resource", "body", "cells"),
    [
        ("admissionregistration.k8s.io/mutatingwebhookconfigurations", {"webhooks": [{}]}, ["x", 1, "90s"]),
        (
            "admissionregistration.k8s.io/validatingadmissionpolicies",
            {"spec": {"validations": [{}], "paramKind": {"apiVersion": "a/v1", "kind": "K"}}},
            ["x", 1, "a/v1/K", "90s"],
        ),
        ("admissionregistration.k8s.io/mutatingadmissionpolicies", {"spec": {}}, ["x", 0, "<unset>", "90s"]),
        (
            "admissionregistration.k8s.io/validatingadmissionpolicybindings",
            {"spec": {"policyName": "p", "paramRef": {"name": "q"}}},
            ["x", "p", "*/q", "90s"],
        ),
        (
            "flowcontrol.apiserver.k8s.io/flowschemas",
            {
                "spec": {"priorityLevelConfiguration": {"name": "l"}, "matchingPrecedence": 9},
                "status": {"conditions": [{"type": "Dangling", "status": "True"}]},
            },
            ["x", "l", 9, "<none>", "90s", "True"],
        ),
        (
            "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
            {"spec": LEVEL},
            ["x", "Limited", 3, "<none>", "<none>", "<none>", "90s"],
        ),
        ("apiregistration.k8s.io/apiservices", {"spec": {}}, ["x", "Local", "Unknown", "90s"]),
        (
            "networking.k8s.io/servicecidrs",
            {"spec": {"cidrs": ["10.0.0.0/8", "fd00::/8"]}},
            ["x", "10.0.0.0/8,fd00::/8", "90s"],
        ),
        (
            "networking.k8s.io/ipaddresses",
            {"spec": {"parentRef": {"resource": "services", "namespace": "ns", "name": "s"}}},
            ["x", "services/ns/s", "90s"],
        ),
        (
            "resource.k8s.io/devicetaintrules",
            {"spec": {"taint": TAINT}},
            ["x", "example.com/k", "v", "NoSchedule", "90s", "90s"],
        ),
        ("discovery.k8s.io/endpointslices", {"addressType": "IPv4"}, ["x", "IPv4", "<unset>", "<unset>", "90s"]),
    ],
)
def test_rows_of_kinds_around_the_workloads(resource: str, body: JSON, cells: list[Any]) -> None:
    """Each row has the cells that kube-apiserver makes of the same object."""
    assert _cells(resource, body) == cells
