"""Defaults, admission and service addresses."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.apiserver.answers import Answer, recorded
from tests.apiserver.support import DEPLOYMENTS, NODES, PODS, as_user, deployment, node, pod, refusal

from kubesched.apiserver.admission.admission import AdmissionSettings
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.base.types import JSON

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SERVICES = "/api/v1/namespaces/default/services"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def test_pod_defaults(client: LocalClient) -> None:
    """A bare pod is completed as upstream completes it."""
    spec = (await client.create(PODS, pod("a")))["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["serviceAccountName"] == "default"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    container = spec["containers"][0]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["resources"] == {}
    assert container["volumeMounts"][0]["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert [toleration["tolerationSeconds"] for toleration in spec["tolerations"]] == [300, 300]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
async def test_pull_policy(client: LocalClient, image: str, policy: str) -> None:
    """An image without a fixed tag is pulled every time."""
    made = await client.create(PODS, pod("a", containers=[{"name": "c", "image": image}]))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resources", "requests", "quality"),
    [
        ({}, None, "BestEffort"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
        ({"requests": {"cpu": "1"}}, {"cpu": "1"}, "Burstable"),
        ({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}, {"cpu": "500m"}, "Burstable"),
    ],
)
async def test_requests_and_quality(client: LocalClient, resources: JSON, requests: Any, quality: str) -> None:
    """Limits imply requests, and both decide the quality of service."""
    made = await client.create(PODS, pod("a", containers=[{"name": "c", "image": "x", "resources": resources}]))
    assert made["spec"]["containers"][0]["resources"].get("requests") == requests
    assert made["status"]["qosClass"] == quality


async def test_deployment_defaults(client: LocalClient) -> None:
    """A Deployment gets its strategy, its limits and a completed template."""
    spec = (await client.create(DEPLOYMENTS, deployment("d")))["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    rolling = {"maxUnavailable": "25%", "maxSurge": "25%"}
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert spec["template"]["spec"]["dnsPolicy"] == "ClusterFirst"


async def test_a_template_has_no_host_ports_of_its_own(client: LocalClient) -> None:
    """Pods of the host network get host ports for their ports; their templates stay as written."""
    ports = [{"containerPort": 9100}]
    spec = {"hostNetwork": True, "containers": [{"name": "c", "image": "i", "ports": ports}]}
    body = deployment("d")
    body["spec"]["template"]["spec"] = spec
    template = (await client.create(DEPLOYMENTS, body))["spec"]["template"]
    assert template["spec"]["containers"][0]["ports"] == [{"containerPort": 9100, "protocol": "TCP"}]
    made = await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert made["spec"]["containers"][0]["ports"][0]["hostPort"] == 9100


async def test_a_limit_for_each_index_lifts_that_of_the_job(client: LocalClient) -> None:
    """A Job whose indexes have limits of their own does not fail after six failures of all together."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    spec = {"completionMode": "Indexed", "completions": 9, "backoffLimitPerIndex": 1, "template": template}
    made = await client.create("/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "j"}, "spec": spec})
    assert made["spec"]["backoffLimit"] == 2**31 - 1


async def test_a_template_s_limits_are_no_requests(client: LocalClient) -> None:
    """They become requests in the pods; the template stays as written, so that kubectl diff shows nothing."""
    body = deployment("d")
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    template = (await client.create(DEPLOYMENTS, body))["spec"]["template"]
    assert template["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}


async def test_defaults_of_other_kinds(client: LocalClient) -> None:
    """Nodes, limit ranges and volumes get the defaults that describe shows."""
    made = await client.create(NODES, {**node("n"), "spec": {"podCIDR": "10.1.0.0/24"}})
    assert made["spec"]["podCIDRs"] == ["10.1.0.0/24"]
    limits = {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": limits}
    (limit,) = (await client.create("/api/v1/namespaces/default/limitranges", body))["spec"]["limits"]
    assert limit["defaultRequest"] == {"cpu": "1"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    (volume, _) = (await client.create(PODS, pod("p", volumes=volumes)))["spec"]["volumes"]
    assert volume["ephemeral"]["volumeClaimTemplate"]["spec"]["volumeMode"] == "Filesystem"


async def test_pods_carry_the_zone_of_their_node(client: LocalClient) -> None:
    """Bound, or made with a node, a pod gets the node's zone and region as labels."""
    zone = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}
    await client.create(NODES, {**node("n"), "metadata": {"name": "n", "labels": {**zone, "disk": "ssd"}}})
    made = await client.create(PODS, pod("there", nodeName="n"))
    assert made["metadata"]["labels"] == zone
    await client.create(PODS, pod("p"))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}
    await client.create(f"{PODS}/p/binding", binding)
    assert (await client.get(f"{PODS}/p"))["metadata"]["labels"] == zone


async def test_jobs_select_their_own_pods(client: LocalClient) -> None:
    """A Job's selector and labels are made from its UID."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
    job = {"metadata": {"name": "j"}, "spec": {"template": template}}
    made = await client.create("/apis/batch/v1/namespaces/default/jobs", job)
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"


async def test_priority_classes(client: LocalClient) -> None:
    """A pod gets the value of its class, or of the default one; a class that is not there is refused."""
    await client.create(CLASSES, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    made = await client.create(PODS, pod("a", priorityClassName="high"))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1000, "Never")
    missing = await refusal(client.create(PODS, pod("b", priorityClassName="none")))
    assert missing.message == 'pods "b" is forbidden: no PriorityClass with name none was found'
    given = await refusal(client.create(PODS, pod("b", priority=5)))
    assert "the integer value of priority (5) must not be provided in pod spec" in given.message
    await client.create(CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    usual = (await client.create(PODS, pod("c")))["spec"]
    assert (usual["priority"], usual["priorityClassName"]) == (7, "usual")


async def test_there_is_one_default_priority_class(client: LocalClient) -> None:
    """A second default is refused, whether it is created or an existing class becomes it."""
    for name in ("a", "b"):
        await client.create(CLASSES, {"metadata": {"name": name}, "value": 1, "globalDefault": name == "a"})
    why = "PriorityClass a is already marked as default. Only one default can exist"
    second = {"metadata": {"name": "c"}, "value": 1, "globalDefault": True}
    for change in (client.create(CLASSES, second), client.patch(f"{CLASSES}/b", {"globalDefault": True})):
        error = await refusal(change)
        assert (error.code, why in error.message) == (403, True)
    await client.patch(f"{CLASSES}/a", {"description": "still the default"})


async def test_ingresses_get_the_default_class(client: LocalClient) -> None:
    """An ingress that names no class, in its spec or the old annotation, gets the default one."""
    ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
    mark = {"ingressclass.kubernetes.io/is-default-class": "true"}
    nginx = {"metadata": {"name": "nginx", "annotations": mark}, "spec": {"controller": "k8s.io/ingress-nginx"}}
    await client.create("/apis/networking.k8s.io/v1/ingressclasses", nginx)
    spec: JSON = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    made = await client.create(ingresses, {"metadata": {"name": "a"}, "spec": spec})
    assert made["spec"]["ingressClassName"] == "nginx"
    old = {"name": "b", "annotations": {"kubernetes.io/ingress.class": "other"}}
    assert "ingressClassName" not in (await client.create(ingresses, {"metadata": old, "spec": spec}))["spec"]


async def test_own_tolerations_win(client: LocalClient) -> None:
    """A pod's own tolerations for lost nodes are kept."""
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    tolerations = (await client.create(PODS, pod("a", tolerations=[own])))["spec"]["tolerations"]
    assert [(t["key"].rpartition("/")[2], t["tolerationSeconds"]) for t in tolerations] == [
        ("not-ready", 5),
        ("unreachable", 300),
    ]
    everything = (await client.create(PODS, pod("b", tolerations=[{"operator": "Exists"}])))["spec"]["tolerations"]
    assert everything == [{"operator": "Exists"}]


async def test_a_toleration_is_added_to_the_default_ones(client: LocalClient) -> None:
    """A patched list of tolerations replaces the old one, and the defaults are added again."""
    await client.create(PODS, pod("a"))
    patched = await client.patch(f"{PODS}/a", {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}})
    assert [each["key"].rpartition("/")[2] for each in patched["spec"]["tolerations"]] == [
        "x",
        "not-ready",
        "unreachable",
    ]


async def test_system_classes_stay(client: LocalClient) -> None:
    """The two system priority classes cannot be deleted."""
    error = await refusal(client.delete(f"{CLASSES}/system-node-critical"))
    assert "this is a system priority class and cannot be deleted" in error.message


async def test_services_get_addresses(client: LocalClient) -> None:
    """Every service has an address of its own and keeps it; node ports too; headless ones have none."""
    body: JSON = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "type": "NodePort"}}
    made = await client.create(SERVICES, body)
    spec = made["spec"]
    assert spec["clusterIP"].startswith("10.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert 30000 <= spec["ports"][0]["nodePort"] < 32768
    assert (spec["ports"][0]["targetPort"], spec["ports"][0]["protocol"]) == (80, "TCP")
    again = await client.replace(f"{SERVICES}/a", {**body, "metadata": {"name": "a", "labels": {"x": "y"}}})
    assert (again["spec"]["clusterIP"], again["spec"]["ports"]) == (spec["clusterIP"], spec["ports"])
    headless = {"metadata": {"name": "h"}, "spec": {"clusterIP": "None"}}
    assert (await client.create(SERVICES, headless))["spec"]["clusterIP"] == "None"
    taken = {"metadata": {"name": "t"}, "spec": {"clusterIP": spec["clusterIP"], "ports": [{"port": 1}]}}
    assert "provided IP is already allocated" in (await refusal(client.create(SERVICES, taken))).message


async def test_a_service_that_changes_its_type(client: LocalClient) -> None:
    """What only the old type needed goes with it: node ports, the address, policies of traffic."""
    await client.create(
        SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "type": "LoadBalancer"}}
    )
    port = {"port": 80, "protocol": "TCP", "targetPort": 80}
    inside = (await client.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}))["spec"]
    assert inside["ports"] == [port]
    assert not {"allocateLoadBalancerNodePorts", "externalTrafficPolicy"} & inside.keys()
    outside = (await client.patch(f"{SERVICES}/a", {"spec": {"type": "ExternalName", "externalName": "a.b"}}))["spec"]
    assert outside == {"type": "ExternalName", "externalName": "a.b", "ports": [port], "sessionAffinity": "None"}
    back = (await client.patch(f"{SERVICES}/a", {"spec": {"type": "NodePort", "externalName": None}}))["spec"]
    assert back["clusterIP"]
    assert back["ports"][0]["nodePort"]


async def test_ports_of_two_protocols_share_a_node_port(client: LocalClient) -> None:
    """A port that is served by TCP and UDP has one node port; another service cannot have it."""
    ports: list[JSON] = [
        {"name": "tcp", "port": 53, "protocol": "TCP"},
        {"name": "udp", "port": 53, "protocol": "UDP", "nodePort": 30053},
        {"name": "other", "port": 80},
    ]
    spec = {"type": "NodePort", "ports": ports}
    made = await client.create(SERVICES, {"metadata": {"name": "dns"}, "spec": spec})
    first, second, third = (port["nodePort"] for port in made["spec"]["ports"])
    assert first == second == 30053 != third
    taken = {"metadata": {"name": "t"}, "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": 30053}]}}
    assert "provided port is already allocated" in (await refusal(client.create(SERVICES, taken))).message


async def test_a_balancer_may_go_without_node_ports(client: LocalClient) -> None:
    """A load balancer that asks for no node ports gets none."""
    spec = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": [{"port": 80}]}
    made = await client.create(SERVICES, {"metadata": {"name": "a"}, "spec": spec})
    assert "nodePort" not in made["spec"]["ports"][0]


async def test_services_have_one_address_family(client: LocalClient) -> None:
    """IPv6 is refused with upstream's words, except for headless services whose endpoints somebody else writes."""
    cases: tuple[tuple[JSON, str], ...] = (
        ({"clusterIP": "2001:db8::1"}, "spec.clusterIPs[0]: Invalid value: ["),
        ({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack services"),
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
        ({"clusterIP": "10.1.0.1"}, "the provided network does not match the current range"),
    )
    for spec, words in cases:
        body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], **spec}}
        assert words in (await refusal(client.create(SERVICES, body))).message
    headless = {"metadata": {"name": "h"}, "spec": {"clusterIP": "None"}}
    made = (await client.create(SERVICES, headless))["spec"]
    assert (made["ipFamilyPolicy"], made["ipFamilies"]) == ("RequireDualStack", ["IPv4", "IPv6"])


async def test_addresses_follow_from_the_seed() -> None:
    """Two servers with the same seed give services the same addresses, so simulations can be repeated."""
    spec = {"type": "NodePort", "ports": [{"port": 80}], "selector": {"app": "web"}}

    async def made(seed: int) -> tuple[str, int]:
        client = LocalClient(ApiServer(random=Random(seed)))
        service = await client.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec})
        return service["spec"]["clusterIP"], service["spec"]["ports"][0]["nodePort"]

    assert await made(1) == await made(1)
    assert await made(1) != await made(2)


async def test_claims_get_the_default_class(client: LocalClient) -> None:
    """A claim that names no class gets the default one; the empty name means none."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage = {"metadata": {"name": "fast", "annotations": default}, "provisioner": "x"}
    await client.create("/apis/storage.k8s.io/v1/storageclasses", storage)
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = await client.create(CLAIMS, {"metadata": {"name": "a"}, "spec": spec})
    assert (made["spec"]["storageClassName"], made["spec"]["volumeMode"]) == ("fast", "Filesystem")
    none = await client.create(CLAIMS, {"metadata": {"name": "b"}, "spec": {**spec, "storageClassName": ""}})
    assert none["spec"]["storageClassName"] == ""


async def test_strict_settings() -> None:
    """With controllers there, accounts must exist, nodes start tainted and storage is protected."""
    strict = AdmissionSettings(require_service_accounts=True, taint_new_nodes=True, protect_in_use=True)
    client = LocalClient(ApiServer(admission=strict))
    error = await refusal(client.create(PODS, pod("a", serviceAccountName="none")))
    assert 'error looking up service account default/none: serviceaccount "none" not found' in error.message
    made = await client.create(NODES, node("n"))
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = await client.create(CLAIMS, {"metadata": {"name": "a"}, "spec": spec})
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


async def test_secrets_are_encoded(client: LocalClient) -> None:
    """Plain text goes in, base64 is kept."""
    body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}}
    made = await client.create("/api/v1/namespaces/default/secrets", body)
    assert (made["data"], made["type"], "stringData" in made) == ({"a": "Yg=="}, "Opaque", False)


async def test_a_gated_pod_says_so(client: LocalClient) -> None:
    """kubectl get shows SchedulingGated, not Pending."""
    made = await client.create(PODS, pod("p", schedulingGates=[{"name": "g"}]))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
    assert condition["lastTransitionTime"] == made["metadata"]["creationTimestamp"]


async def test_keys_of_own_labels_become_requirements(client: LocalClient) -> None:
    """Affinity and spreading by matchLabelKeys reach the scheduler as selectors, as upstream makes them."""
    by_version = {
        "topologyKey": "zone",
        "matchLabelKeys": ["v", "absent"],
        "labelSelector": {"matchLabels": {"a": "b"}},
    }
    unlike = {"topologyKey": "zone", "mismatchLabelKeys": ["v"], "labelSelector": {}}
    body = pod(
        "p",
        affinity={
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [by_version]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": unlike}]
            },
        },
        topologySpreadConstraints=[{**by_version, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    )
    body["metadata"]["labels"] = {"v": "1"}
    spec = (await client.create(PODS, body))["spec"]
    same = {"key": "v", "operator": "In", "values": ["1"]}
    affinity = spec["affinity"]
    (required,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["labelSelector"] == {"matchLabels": {"a": "b"}, "matchExpressions": [same]}
    (preferred,) = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"]["labelSelector"]["matchExpressions"] == [{**same, "operator": "NotIn"}]
    assert spec["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] == [same]


async def test_a_node_port_is_given_once(client: LocalClient) -> None:
    """A second service cannot have it; the first keeps it through updates."""
    body: JSON = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    body["spec"] = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
    await client.create(SERVICES, body)
    error = await refusal(client.create(SERVICES, {**body, "metadata": {"name": "b"}}))
    assert "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated" in error.message
    body["spec"]["ports"] = [{"port": 80, "nodePort": 80}]
    error = await refusal(client.create(SERVICES, {**body, "metadata": {"name": "b"}}))
    assert "The range of valid ports is 30000-32767" in error.message
    patched = await client.patch(f"{SERVICES}/a", {"spec": {"selector": {"x": "y"}}})
    assert patched["spec"]["ports"][0]["nodePort"] == 30080


RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"


async def runtime_class(client: LocalClient, **fields: Any) -> None:
    """Create the runtime class slow."""
    meta = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "slow"}, "handler": "slow"}
    await client.create(RUNTIME_CLASSES, {**meta, **fields})


async def test_a_runtime_class_completes_its_pods(client: LocalClient) -> None:
    """A pod gets the overhead, the node selector and the tolerations of its runtime class."""
    toleration = {"key": "slow", "operator": "Exists"}
    scheduling = {"nodeSelector": {"speed": "slow"}, "tolerations": [toleration]}
    await runtime_class(client, overhead={"podFixed": {"cpu": "250m"}}, scheduling=scheduling)
    spec = (await client.create(PODS, pod(runtimeClassName="slow", nodeSelector={"a": "b"})))["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"a": "b", "speed": "slow"}
    assert toleration in spec["tolerations"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "slow", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"runtimeClassName": "slow", "nodeSelector": {"speed": "high"}},
            "conflict: runtimeClass.scheduling.nodeSelector[speed] = slow; pod.spec.nodeSelector[speed] = high",
        ),
    ],
)
async def test_pods_that_contradict_their_runtime_class(client: LocalClient, spec: JSON, why: str) -> None:
    """A pod whose runtime class does not exist or says otherwise is refused."""
    await runtime_class(client, overhead={"podFixed": {"cpu": "2"}}, scheduling={"nodeSelector": {"speed": "slow"}})
    error = await refusal(client.create(PODS, pod(**spec)))
    assert error.message == f'pods "p" is forbidden: {why}'


async def test_version_zero_updates_whatever_is_stored(client: LocalClient) -> None:
    """An update with the resource version 0 is unconditional, as one without a version."""
    await client.create(NODES, node())
    body = await client.get(f"{NODES}/n")
    body["metadata"]["resourceVersion"] = "0"
    body["status"]["capacity"]["example.com/x"] = "5"
    assert (await client.replace(f"{NODES}/n/status", body))["status"]["capacity"]["example.com/x"] == "5"


def _is_certificate_request(answer: Answer) -> bool:
    return answer.object["kind"] == "CertificateSigningRequest" and not answer.says


async def test_a_certificate_request_says_who_made_it(api: ApiServer) -> None:
    """The server fills in the user, whatever the client sent."""
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    request = next(each.object["spec"]["request"] for each in recorded() if _is_certificate_request(each))
    spec = {"request": request, "signerName": "example.com/s", "usages": ["any"], "username": "root", "uid": "0"}
    made = await as_user(api, "ann", "system:masters").create(path, {"metadata": {"name": "c"}, "spec": spec})
    assert (made["spec"]["username"], made["spec"]["groups"]) == ("ann", ["system:masters", "system:authenticated"])
    assert "uid" not in made["spec"]
