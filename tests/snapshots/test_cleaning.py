"""Secrets and environments never reach a snapshot, and anonymised names keep all relations."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.devices import ResourceClaim
from kubesched.snapshots.anonymise import Anonymiser
from kubesched.snapshots.cleaning import REMOVED, Cleaner
from kubesched.snapshots.journal_file import encoded

SECRET = "hunter2"


def workload(value: str) -> dict[str, Any]:
    """A Deployment with the value in every place where people put secrets."""
    container = {
        "name": "main",
        "image": "nginx",
        "env": [{"name": "PASSWORD", "value": value}],
        "envFrom": [{"secretRef": {"name": value}}],
        "command": ["run", value],
        "args": [value],
        "livenessProbe": {"exec": {"command": [value]}},
        "lifecycle": {"preStop": {"exec": {"command": [value]}}},
        "resources": {"requests": {"cpu": "1"}},
    }
    volume = {"name": "v", "flexVolume": {"driver": "d", "options": {"password": value}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], "volumes": [volume]}}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": value}), "team": "a"}
    metadata = {"name": "web", "annotations": applied, "managedFields": [{"manager": value}]}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}}


def test_nothing_that_may_be_a_secret_is_left() -> None:
    """What scheduling reads stays; everything else that commonly has secrets goes."""
    clean = Cleaner()(workload(SECRET))
    assert SECRET not in json.dumps(clean)
    (container,) = clean["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}
    assert clean["metadata"]["annotations"] == {"team": "a"}


def test_parameters_for_the_drivers_of_devices_are_removed() -> None:
    """They are written to claims, templates and classes, and only drivers read them; a scheduler's recording too."""
    opaque = {"driver": "gpu.example.com", "parameters": {"password": SECRET}}
    spec = {"devices": {"config": [{"opaque": opaque}], "requests": [{"name": "r"}]}}
    metadata = {"name": "c", "namespace": "default"}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    (config,) = Cleaner()(body)["spec"]["devices"]["config"]
    assert config == {"opaque": {"driver": "gpu.example.com", "parameters": {}}}
    recorded = encoded(msgspec.convert(body, ResourceClaim))
    assert SECRET.encode() not in recorded
    assert msgspec.json.decode(recorded)["spec"]["devices"]["config"] == [config]


def test_templates_that_differ_in_their_environment_stay_different() -> None:
    """Otherwise a Deployment would take an old ReplicaSet for the current one. The mark does not tell what differed."""
    clean = Cleaner()
    marks = [
        clean(workload(each))["spec"]["template"]["metadata"]["annotations"][REMOVED] for each in ("one", "two", "one")
    ]
    assert marks[0] == marks[2] != marks[1]
    other = Cleaner()(workload("one"))["spec"]["template"]["metadata"]["annotations"][REMOVED]
    assert other != marks[0]


def test_names_are_replaced_everywhere_alike() -> None:
    """Nodes, labels, selectors, owners and claims still fit; what is Kubernetes' own stays readable."""
    rename = Anonymiser("key")
    node = {
        "kind": "Node",
        "metadata": {
            "name": "gpu-7.corp.example",
            "labels": {"kubernetes.io/hostname": "gpu-7.corp.example", "team": "red", "generation": "5"},
            "annotations": {"owner": "me@corp.example", "kubesched.io/kubelet": "stopped"},
        },
        "spec": {"taints": [{"key": "team", "value": "red", "effect": "NoSchedule"}], "providerID": "aws://secret"},
        "status": {"allocatable": {"corp.example/gpu": "4"}, "addresses": [{"address": "10.0.0.1"}]},
    }
    term = {"key": "team", "operator": "In", "values": ["red"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-7.corp.example"]}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "db-0", "namespace": "corp", "ownerReferences": [{"kind": "StatefulSet", "name": "db"}]},
        "spec": {
            "nodeName": "gpu-7.corp.example",
            "schedulerName": "mine",
            "restartPolicy": "Always",
            "tolerations": [{"key": "team", "operator": "Equal", "value": "red"}],
            "affinity": {"nodeAffinity": {"terms": [{"matchExpressions": [term], "matchFields": [field]}]}},
            "containers": [{"name": "c", "image": "corp.example/db:1", "resources": {"requests": {"cpu": "500m"}}}],
        },
    }
    machine, made = rename(node), rename(pod)
    text = json.dumps([machine, made])
    for word in ("corp", "red", "gpu-7", "10.0.0.1", "secret", "me@"):
        assert word not in text.replace("corp.example/gpu", "")
    name = machine["metadata"]["name"]
    assert machine["metadata"]["labels"]["kubernetes.io/hostname"] == made["spec"]["nodeName"] == name
    assert machine["metadata"]["annotations"] == {"kubesched.io/kubelet": "stopped"}
    assert machine["status"]["allocatable"] == {"corp.example/gpu": "4"}
    (taint,), (tolerated,) = machine["spec"]["taints"], made["spec"]["tolerations"]
    assert (taint["key"], taint["value"]) == (tolerated["key"], tolerated["value"])
    wanted = made["spec"]["affinity"]["nodeAffinity"]["terms"][0]
    assert (
        machine["metadata"]["labels"][wanted["matchExpressions"][0]["key"]]
        == wanted["matchExpressions"][0]["values"][0]
    )
    assert wanted["matchFields"][0] == {"key": "metadata.name", "operator": "In", "values": [name]}
    assert made["metadata"]["name"] == made["metadata"]["ownerReferences"][0]["name"] + "-0"
    assert (made["spec"]["schedulerName"], made["spec"]["restartPolicy"]) == ("mine", "Always")
    assert Anonymiser("key")(node) == machine
    assert Anonymiser()(node) != machine


@given(st.text(st.sampled_from("abz019-."), min_size=1, max_size=63))
def test_new_names_are_valid_and_not_longer_than_a_label(name: str) -> None:
    """A label's value has at most 63 characters, and separators stay where they were."""
    new = Anonymiser("key").name(name)
    assert len(new) <= 63
    assert set(new) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
