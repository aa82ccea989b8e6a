"""Validation: tables of mistakes and the messages about them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.apiserver.support import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, config_map, deployment, node, pod, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON

CONTAINER = {"name": "c", "image": "nginx"}


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}}


def _container(**fields: Any) -> JSON:
    return {"containers": [{**CONTAINER, **fields}]}


def _node_affinity(terms: Any) -> JSON:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _spread(**fields: Any) -> JSON:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
    return {"topologySpreadConstraints": [constraint]}


PROBLEMS: list[tuple[JSON, str]] = [
    ({"containers": []}, "spec.containers: Required value"),
    ({"containers": [CONTAINER, CONTAINER]}, 'spec.containers[1].name: Duplicate value: "c"'),
    (_container(name="C_1"), "spec.containers[0].name: Invalid value"),
    (_container(image=""), "spec.containers[0].image: Required value"),
    (_container(image=" x"), "must not have leading or trailing whitespace"),
    (_container(imagePullPolicy="Maybe"), 'supported values: "Always", "IfNotPresent", "Never"'),
    (_container(ports=[{"containerPort": 70000}]), "must be between 1 and 65535, inclusive"),
    (_container(ports=[{"containerPort": 80, "protocol": "X"}]), 'supported values: "SCTP", "TCP", "UDP"'),
    (_container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), 'volumeMounts[0].name: Not found: "v"'),
    (_container(resources={"requests": {"cpu": "-1"}}), "must be greater than or equal to 0"),
    (
        _container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        "must be less than or equal to cpu limit of 1",
    ),
    (
        {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
        "may not specify more than 1 volume type",
    ),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, "persistentVolumeClaim.claimName: Required value"),
    ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector: Invalid value"),
    ({"tolerations": [{"key": "a", "operator": "Foo"}]}, "spec.tolerations[0].operator: Unsupported value"),
    ({"tolerations": [{"key": "a", "effect": "Foo"}]}, "spec.tolerations[0].effect: Unsupported value"),
    ({"tolerations": [{"operator": "Equal"}]}, "operator must be Exists when `key` is empty"),
    (
        {"tolerations": [{"key": "a", "tolerationSeconds": 5}]},
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    (_node_affinity([]), "must have at least one node selector term"),
    (_node_affinity([{"matchExpressions": [{"key": "a", "operator": "In"}]}]), "values: Required value"),
    (_node_affinity([{"matchExpressions": [{"key": "a", "operator": "X"}]}]), "not a valid selector operator"),
    (_spread(maxSkew=0), "maxSkew: Invalid value: 0: must be greater than zero"),
    (_spread(topologyKey=""), "topologyKey: Required value: can not be empty"),
    (_spread(whenUnsatisfiable="X"), 'supported values: "DoNotSchedule", "ScheduleAnyway"'),
    (_spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2), "can only use minDomains if"),
    ({"schedulingGates": [{"name": "g"}, {"name": "g"}]}, "Duplicate value"),
    ({"schedulingGates": [{"name": "g"}], "nodeName": "n"}, "until all schedulingGates have been cleared"),
]


@pytest.mark.parametrize(("spec", "text"), PROBLEMS)
async def test_pods_that_break_a_rule(client: LocalClient, spec: JSON, text: str) -> None:
    """Each broken rule is 422 with upstream's words."""
    error = await refusal(client.create(PODS, pod("a", **spec)))
    assert (error.code, error.reason) == (422, "Invalid")
    assert text in error.message


async def test_every_problem_at_once(client: LocalClient) -> None:
    """Several problems are all reported, each as a cause with its field."""
    error = await refusal(client.create(PODS, pod("Bad", restartPolicy="X", containers=[{"name": "c"}])))
    assert [cause.field for cause in error.causes] == [
        "metadata.name",
        "spec.containers[0].image",
        "spec.restartPolicy",
    ]
    assert error.message.startswith('Pod "Bad" is invalid: [metadata.name: Invalid value: "Bad": a lowercase RFC 1123')


OTHERS: list[tuple[str, JSON, str]] = [
    (
        NODES,
        {**node("n"), "spec": {"taints": [{"key": "a", "effect": "X"}]}},
        'metadata.taints[0].effect: Unsupported value: "X"',
    ),
    ("/api/v1/namespaces", {"metadata": {"name": "a_b"}}, "a lowercase RFC 1123 label"),
    ("/api/v1/namespaces", {"metadata": {"name": "a.b"}}, "must not contain dots"),
    ("/api/v1/namespaces/default/services", {"metadata": {"name": "s"}, "spec": {}}, "spec.ports: Required value"),
    ("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": {}}, "must specify a volume type"),
    ("/api/v1/namespaces/default/persistentvolumeclaims", {"metadata": {"name": "v"}}, "at least 1 access mode"),
    ("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "s"}}, "provisioner: Required value"),
    (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "s"}, "value": 2 * 10**9},
        "maximum allowed value",
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        {"metadata": {"name": "r"}, "rules": [{"resources": ["pods"]}]},
        "rules[0].verbs: Required value: verbs must contain at least one value",
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "r"},
            "roleRef": {"kind": "ClusterRole", "name": "x"},
            "subjects": [{"kind": "X", "name": "y"}],
        },
        "subjects[0].kind: Unsupported value",
    ),
    (
        DEPLOYMENTS,
        {**deployment("d"), "spec": {**deployment("d")["spec"], "selector": {"matchLabels": {"other": "x"}}}},
        "`selector` does not match template `labels`",
    ),
    (
        CONFIG_MAPS,
        config_map("c", {"a/b/c": "x"}),
        "metadata.labels: Invalid value",
    ),
    (
        CONFIG_MAPS,
        {"metadata": {"name": "c", "ownerReferences": [{"kind": "Pod"}]}},
        "metadata.ownerReferences.apiVersion: Invalid value",
    ),
]


@pytest.mark.parametrize(("path", "body", "text"), OTHERS)
async def test_other_kinds(client: LocalClient, path: str, body: JSON, text: str) -> None:
    """Other kinds have rules of their own."""
    error = await refusal(client.create(path, body))
    assert error.code == 422
    assert text in error.message


async def test_what_of_a_pod_may_change(client: LocalClient) -> None:
    """Images and more tolerations may; placement and fewer tolerations may not."""
    await client.create(PODS, pod("a", tolerations=[{"key": "x", "operator": "Exists"}]))
    path = f"{PODS}/a"
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "nginx:9"}]
    await client.patch(path, image, "application/json-patch+json")
    refused: list[JSON] = [{"nodeSelector": {"a": "b"}}, {"tolerations": []}, {"nodeName": "n"}]
    for spec in refused:
        error = await refusal(client.patch(path, {"spec": spec}))
        assert error.code == 422


async def test_gates_come_off_one_by_one(client: LocalClient) -> None:
    """Gates can be removed and not added; while gated, node selection may be narrowed."""
    await client.create(PODS, pod("a", schedulingGates=[{"name": "g"}, {"name": "h"}]))
    path = f"{PODS}/a"
    await client.patch(path, {"spec": {"nodeSelector": {"a": "b"}}})
    more = {"spec": {"schedulingGates": [{"name": "g"}, {"name": "h"}, {"name": "i"}]}}
    assert (
        "only deletion is allowed, but found new scheduling gate 'i'"
        in (await refusal(client.patch(path, more))).message
    )
    opened = await client.patch(path, {"spec": {"schedulingGates": None}})
    assert "schedulingGates" not in opened["spec"]


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("99 * * * *", "end of range (99) above maximum (59): 99"),
        ("* * * * mon-foo", "failed to parse int from foo: mon-foo"),
        ("@noon", "unrecognized descriptor: @noon"),
        ("TZ=UTC 0 * * * *", "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        (f"{'9' * 5000} * * * *", ""),
    ],
)
async def test_schedules_of_cron_jobs(client: LocalClient, schedule: str, why: str) -> None:
    """They are parsed when they are written, and refused in the words of upstream's parser."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    error = await refusal(
        client.create("/apis/batch/v1/namespaces/default/cronjobs", {"metadata": {"name": "c"}, "spec": spec})
    )
    assert error.code == 422
    assert error.message.endswith(why)


@pytest.mark.parametrize(
    ("path", "body", "patch", "text"),
    [
        (DEPLOYMENTS, deployment("x"), {"spec": {"selector": {"matchLabels": {"a": "b"}}}}, "field is immutable"),
        (CONFIG_MAPS, {**config_map("x", a="1"), "immutable": True}, {"data": {"a": "2"}}, "when `immutable` is set"),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            {"metadata": {"name": "x"}, "provisioner": "p"},
            {"provisioner": "q"},
            'provisioner: Invalid value: "q": field is immutable',
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "x"}, "value": 1},
            {"value": 2},
            "value: Forbidden: may not be changed in an update.",
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            {"metadata": {"name": "x"}, "spec": {"template": {"spec": {**_container(), "restartPolicy": "Never"}}}},
            {"spec": {"completions": 3}},
            "spec.completions: Invalid value: 3: field is immutable",
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            {"metadata": {"name": "x"}, "spec": CLAIM},
            {"spec": {"resources": {"requests": {"storage": "2Gi"}}}},
            "spec: Forbidden: spec is immutable after creation except resources.requests",
        ),
        (
            "/api/v1/persistentvolumes",
            {"metadata": {"name": "x"}, "spec": VOLUME},
            {"spec": {"hostPath": {"path": "/y"}}},
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
        ),
        (PODS, pod("x", activeDeadlineSeconds=5), {"spec": {"activeDeadlineSeconds": 6}}, "or equal to previous value"),
        (PODS, pod("x", activeDeadlineSeconds=5), {"spec": {"activeDeadlineSeconds": None}}, "integer to nil value"),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {"metadata": {"name": "x"}, "roleRef": {"kind": "ClusterRole", "name": "a"}},
            {"roleRef": {"name": "b"}},
            "cannot change roleRef",
        ),
    ],
)
async def test_what_is_fixed(client: LocalClient, path: str, body: JSON, patch: JSON, text: str) -> None:
    """Immutable fields cannot be changed."""
    await client.create(path, body)
    error = await refusal(client.patch(f"{path}/x", patch))
    assert error.code == 422
    assert text in error.message


@pytest.mark.parametrize(
    ("mode", "rule", "why"),
    [
        ("NonIndexed", {"succeededCount": 1}, "requires indexed completion mode"),
        ("Indexed", {}, "at least one of succeededCount or succeededIndexes must be specified"),
        ("Indexed", {"succeededIndexes": "0-x"}, "error parsing succeededIndexes: cannot convert"),
        ("Indexed", {"succeededIndexes": "3,1"}, "error parsing succeededIndexes: non-increasing order"),
        ("Indexed", {"succeededIndexes": "0-999999999"}, "error parsing succeededIndexes: too large index"),
    ],
)
async def test_success_policies_of_jobs(client: LocalClient, mode: str, rule: JSON, why: str) -> None:
    """A success policy needs indexes, and rules that can be met."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    spec = {"template": template, "completions": 4, "completionMode": mode, "successPolicy": {"rules": [rule]}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    assert why in (await refusal(client.create("/apis/batch/v1/namespaces/default/jobs", body))).message


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        (
            "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups",
            {"metadata": {"name": "x"}},
            'PodGroup.scheduling.k8s.io "x" is invalid: spec.schedulingPolicy: Invalid value: "": must specify one of:'
            " `basic`, `gang`",
        ),
        (
            "/api/v1/namespaces",
            {"metadata": {"name": "a.b"}},
            'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots',
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
            'Pod in version "v1" cannot be handled as a Deployment: converting (v1.Pod) to (apps.Deployment): unknown'
            " conversion",
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            {"apiVersion": "apps/v1", "kind": "Thing", "metadata": {"name": "x"}},
            'Thing in version "v1" cannot be handled as a Deployment: no kind "Thing" is registered for version'
            ' "apps/v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
)
async def test_what_upstream_says_of_incomplete_and_misplaced_objects(
    client: LocalClient, path: str, body: JSON, says: str
) -> None:
    """An object without its spec, with a name that is no label, or of another kind than the path's."""
    assert (await refusal(client.create(path, body))).message == says


async def test_finalizers_of_leases_need_no_domain(client: LocalClient) -> None:
    """Upstream checks that finalizers are qualified for most kinds, but not for all."""
    body = {"metadata": {"name": "x", "finalizers": ["plain"]}}
    await client.create("/apis/coordination.k8s.io/v1/namespaces/default/leases", body)
    error = await refusal(client.create("/apis/apps/v1/namespaces/default/controllerrevisions", body))
    assert "name is neither a standard finalizer name nor is it fully qualified" in error.message
