"""kube-scheduler-simulator's HTTP interface on `kubesched up`, used as its clients use it."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

PATIENCE = 180.0
PAGE = "http://localhost:3000"


class Up:
    """A running `kubesched up` with the simulator's port."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        kubeconfig, self._out = folder / "kubeconfig", folder / "out"
        command = [sys.executable, "-c", "from kubesched.cli.main import main; main()", "up", "--port=0"]
        command += ["--secure-port=0", f"--write-kubeconfig={kubeconfig}", "--nodes=2", "--pod-start-delay=20ms"]
        command += [f"--simulator-port={self.port}", f"--simulator-origins={PAGE}"]
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        eventually(lambda: "Ctrl-C stops it." in self.log or self.process.poll() is not None)
        assert self.process.poll() is None, self.log
        config = yaml.safe_load(kubeconfig.read_text("utf-8"))
        self.url = config["clusters"][0]["cluster"]["server"]
        self.token = config["users"][0]["user"]["token"]

    @property
    def log(self) -> str:
        return self._out.read_text("utf-8")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """A request at the open port: status, body, headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data, {"Content-Type": "application/json", **given})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        is_json = text[:1] == b"{"
        return answer.status, json.loads(text) if is_json else text, dict(answer.getheaders())

    def get(self, path: str) -> Any:
        status, body, _ = self.ask("GET", path)
        assert status == 200, body
        return body

    def create_pod(self, name: str, namespace: str = "default", **spec: Any) -> None:
        pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "nginx"}], **spec}}
        assert self.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod)[0] == 201

    def pods(self) -> dict[str, str]:
        """Pods and the nodes they are on."""
        items = self.get("/api/v1/export")["pods"]
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in items}


def eventually(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    cluster = Up(tmp_path_factory.mktemp("up"))
    yield cluster
    cluster.process.terminate()
    cluster.process.wait(PATIENCE)
    assert "Traceback" not in cluster.log, cluster.log


@pytest.fixture
def up(running: Up) -> Up:
    """The cluster as it was at the start."""
    assert running.ask("PUT", "/api/v1/reset")[0] == 202
    return running


def test_an_export_has_the_shape_of_the_simulators(up: Up) -> None:
    """Its eight fields in order, objects as Go's typed clients encode them, and nothing that every cluster has."""
    status, body, headers = up.ask("GET", "/api/v1/export")
    assert (status, headers["Content-Type"]) == (200, "application/json; charset=UTF-8")
    names = ["pods", "nodes", "pvs", "pvcs", "storageClasses", "priorityClasses", "schedulerConfig", "namespaces"]
    assert list(body) == names
    assert [each["metadata"]["name"] for each in body["nodes"]] == ["node-1", "node-2"]
    assert "kind" not in body["nodes"][0]
    assert body["priorityClasses"] == body["namespaces"] == []
    assert body["schedulerConfig"]["kind"] == "KubeSchedulerConfiguration"


def test_what_was_exported_can_be_imported(up: Up) -> None:
    """Import replaces the cluster: pods stay on their nodes, volumes stay bound, what was there before is gone."""
    assert up.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})[0] == 201
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}}
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    assert up.ask("POST", "/api/v1/persistentvolumes", {"metadata": {"name": "disk"}, "spec": volume})[0] == 201
    claims = "/api/v1/namespaces/team/persistentvolumeclaims"
    assert up.ask("POST", claims, {"metadata": {"name": "data"}, "spec": claim})[0] == 201
    eventually(lambda: up.get(f"{claims}/data")["status"]["phase"] == "Bound")
    eventually(lambda: up.ask("GET", "/api/v1/namespaces/team/serviceaccounts/default")[0] == 200)
    up.create_pod("web", "team", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    eventually(lambda: up.pods().get("web"))
    taken = up.get("/api/v1/export")

    assert up.ask("PUT", "/api/v1/reset")[0] == 202
    assert not up.pods()
    deployment = {
        "metadata": {"name": "other"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "other"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    assert up.ask("POST", "/apis/apps/v1/namespaces/default/deployments", deployment)[0] == 201
    eventually(lambda: len(up.pods()) == 2)

    status, body, _ = up.ask("POST", "/api/v1/import", taken)
    assert (status, body) == (200, b"")
    again = up.get("/api/v1/export")
    assert up.pods() == {"web": taken["pods"][0]["spec"]["nodeName"]}
    assert [each["metadata"]["name"] for each in again["namespaces"]] == ["team"]
    assert again["schedulerConfig"] == taken["schedulerConfig"]
    eventually(lambda: up.get("/api/v1/namespaces/team/pods/web")["status"]["phase"] == "Running")
    eventually(lambda: up.get(f"{claims}/data")["status"].get("phase") == "Bound")
    assert up.get("/api/v1/persistentvolumes/disk")["status"]["phase"] == "Bound"
    assert up.get("/apis/apps/v1/deployments")["items"] == []


def test_an_import_that_fails_changes_nothing(up: Up) -> None:
    """The message names the object and what is wrong with it."""
    up.create_pod("here")
    before = up.get("/api/v1/export")["nodes"]
    bad = {"nodes": [{"metadata": {"name": "n"}}], "pods": [{"metadata": {"name": "p"}, "spec": {"containers": []}}]}
    status, body, _ = up.ask("POST", "/api/v1/import", bad)
    assert status == 422
    assert body["message"].startswith('pods: default/p: Pod "p" is invalid: spec.containers: Required value')
    names = [each["metadata"]["name"] for each in up.get("/api/v1/export")["nodes"]]
    assert names == [each["metadata"]["name"] for each in before]
    assert list(up.pods()) == ["here"]
    for body, wrong in (
        (b"[", "not JSON"),
        ({"pods": {}}, "pods: expected a list"),
        ({"pods": [{}]}, "pods[0]"),
        ({"schedulerConfig": 5}, "schedulerConfig: expected an object"),
        ({"schedulerConfig": {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "No"}]}}}]}}, "No"),
    ):
        status, said, _ = up.ask("POST", "/api/v1/import", body)
        assert status == 400
        assert wrong in said["message"]
    assert list(up.pods()) == ["here"]


def test_a_posted_configuration_takes_effect(up: Up) -> None:
    """Profiles and extenders are taken, the scheduler restarts, and a reset brings the first ones back."""
    config = up.get("/api/v1/schedulerconfiguration")
    assert up.ask("POST", "/api/v1/schedulerconfiguration", config)[0] == 202
    assert up.get("/api/v1/schedulerconfiguration") == config
    up.create_pod("early", schedulerName="mine")
    status, body, _ = up.ask("POST", "/api/v1/schedulerconfiguration", {"profiles": [{"schedulerName": "mine"}]})
    assert (status, body) == (202, b"")
    eventually(lambda: up.pods()["early"])
    assert [each["schedulerName"] for each in up.get("/api/v1/schedulerconfiguration")["profiles"]] == ["mine"]
    wrong = {"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeResourceFit"}]}}}]}
    status, body, _ = up.ask("POST", "/api/v1/schedulerconfiguration", wrong)
    assert status == 400
    assert "did you mean NodeResourcesFit" in body["message"]
    assert up.ask("PUT", "/api/v1/reset")[0] == 202
    assert up.get("/api/v1/schedulerconfiguration") == config


def test_a_reset_restores_the_cluster(up: Up) -> None:
    """Objects that came go, objects that went come back, objects that changed are as they were."""
    up.create_pod("extra")
    assert up.ask("DELETE", "/api/v1/nodes/node-1")[0] == 200
    cordon = {"spec": {"unschedulable": True}}
    patched = up.ask("PATCH", "/api/v1/nodes/node-2", cordon, Content_Type="application/merge-patch+json")
    assert patched[0] == 200
    assert up.ask("PUT", "/api/v1/reset")[:2] == (202, b"")
    nodes = up.get("/api/v1/nodes")["items"]
    assert [(each["metadata"]["name"], each["spec"].get("unschedulable")) for each in nodes] == [
        ("node-1", None),
        ("node-2", None),
    ]
    assert not up.pods()
    up.create_pod("after")
    eventually(lambda: up.get("/api/v1/namespaces/default/pods/after")["status"]["phase"] == "Running")


def test_resources_can_be_watched(up: Up) -> None:
    """Without versions everything comes first as ADDED; from a version on only what is new; one object per line."""
    up.create_pod("one")
    version = up.get("/api/v1/pods")["metadata"]["resourceVersion"]

    def lines(query: str, until: str) -> list[dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", up.port, timeout=PATIENCE)
        connection.request("GET", f"/api/v1/listwatchresources?{query}")
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "application/json"
        found: list[dict[str, Any]] = []
        while not found or found[-1]["Obj"]["metadata"]["name"] != until:
            found.append(json.loads(answer.readline()))
        connection.close()
        return found

    first = lines("", "kube-system")
    assert {tuple(each) for each in first} == {("Kind", "EventType", "Obj")}
    assert {each["EventType"] for each in first if each["Kind"] == "nodes"} == {"ADDED"}
    up.create_pod("two")
    names = ("pods", "nodes", "pvs", "pvcs", "scs", "pcs", "namespace")
    later = lines("&".join(f"{name}LastResourceVersion={version}" for name in names), "two")
    assert (later[-1]["Kind"], later[-1]["EventType"]) == ("pods", "ADDED")
    assert "kind" not in later[-1]["Obj"]
    assert lines(f"podslastResourceVersion={version}", "two")


def test_web_pages_are_kept_out_unless_they_are_allowed(up: Up) -> None:
    """Foreign origins and host names get nothing; the allowed page gets CORS headers."""
    assert up.ask("GET", "/api/v1/export", Origin="http://evil.example")[0] == 403
    assert up.ask("GET", "/api/v1/export", Host="evil.example")[0] == 403
    status, _, headers = up.ask("OPTIONS", "/api/v1/import", Origin=PAGE, Access_Control_Request_Headers="content-type")
    assert (status, headers["Access-Control-Allow-Headers"]) == (204, "content-type")
    status, _, headers = up.ask("GET", "/api/v1/export", Origin=PAGE)
    assert (status, headers["Access-Control-Allow-Origin"]) == (200, PAGE)


def test_beside_the_kubernetes_api_it_needs_credentials(up: Up) -> None:
    """At the API server's own port the administrator may, others may not."""
    address = urlsplit(up.url)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for token, wanted in ((up.token, 200), ("wrong", 401)):
        assert address.hostname
        connection = http.client.HTTPSConnection(address.hostname, address.port, context=context, timeout=PATIENCE)
        connection.request("GET", "/api/v1/export", headers={"Authorization": f"Bearer {token}"})
        assert connection.getresponse().status == wanted
        connection.close()
