"""Logs of pods: what upstream's API server and kubelets answer, and the lines of simulated containers."""

from __future__ import annotations

import pytest
from tests.apiserver.support import NODES, PODS, node, pod, refusal

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest.pod_logs import container_of, no_output, pod_log, shortened
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON

ENDED = {"terminated": {"exitCode": 3, "containerID": "containerd://1"}}


async def test_a_pod_without_a_node_has_no_content(client: LocalClient) -> None:
    """kubectl logs prints nothing for a pod that is not scheduled; a container that it lacks is refused first."""
    await client.create(PODS, pod("p"))
    response = await client.send("GET", f"{PODS}/p/log")
    assert (response.status, response.body) == (204, b"")
    error = await refusal(client.get(f"{PODS}/p/log?container=none"))
    assert (error.code, error.message) == (400, "container none is not valid for pod p")


async def test_a_pod_whose_kubelet_is_silent(client: LocalClient) -> None:
    """A pod on a node without any status has no container yet. A node that is gone is named."""
    await client.create(PODS, pod("p", nodeName="n"))
    error = await refusal(client.get(f"{PODS}/p/log"))
    assert (error.code, error.message) == (404, 'nodes "n" not found')
    await client.create(NODES, node("n"))
    error = await refusal(client.get(f"{PODS}/p/log"))
    assert (error.code, error.message) == (400, 'container "c" in pod "p" is not available')


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
            ": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
    ],
)
async def test_options_that_make_no_sense(client: LocalClient, options: str, problem: str) -> None:
    """They are refused in upstream's words, before the pod is looked for."""
    error = await refusal(client.get(f"{PODS}/none/log?{options}"))
    assert (error.code, error.message) == (422, f'PodLogOptions "none" is invalid: {problem}')


def test_the_container_of_a_request() -> None:
    """Init containers do not make the choice ambiguous; several main containers do."""
    spec: JSON = {"initContainers": [{"name": "init"}], "containers": [{"name": "main"}]}
    two = {"metadata": {"name": "p"}, "spec": spec}
    assert container_of(two, "") == "main"
    assert container_of(two, "init") == "init"
    spec["containers"].append({"name": "more"})
    with pytest.raises(StatusError, match="a container name must be specified for pod p, choose one of: "):
        container_of(two, "")


@pytest.mark.parametrize(
    ("state", "last", "previous", "words"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, ENDED, False, "ended with exit code 3"),
        ({"running": {}}, ENDED, True, "ended with exit code 3"),
        ({"running": {}}, {}, True, 'previous terminated container "main" in pod "p" not found'),
        (ENDED, {}, False, "ended with exit code 3"),
        ({"terminated": {"exitCode": 1}}, ENDED, False, "ended with exit code 3"),
        ({"terminated": {"exitCode": 1}}, {}, False, 'container "main" in pod "p" is terminated'),
        ({}, {}, False, 'container "main" in pod "p" is waiting to start - no logs yet'),
        (
            {"waiting": {"reason": "ContainerCreating"}},
            {},
            False,
            'container "main" in pod "p" is waiting to start: ContainerCreating',
        ),
        (
            {"waiting": {"reason": "ErrImagePull"}},
            {},
            False,
            'container "main" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            {"waiting": {"reason": "ImagePullBackOff"}},
            {},
            False,
            'container "main" in pod "p" is waiting to start: trying and failing to pull image',
        ),
    ],
)
def test_which_run_has_the_log(state: JSON, last: JSON, previous: bool, words: str) -> None:
    """A container that waits for a restart shows its last run, as on a real node; others say what they wait for."""
    status = {"containerStatuses": [{"name": "main", "state": state, "lastState": last}]}
    crashed = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main"}]}, "status": status}
    try:
        text = pod_log(crashed, "main", no_output, previous=previous).decode()
    except StatusError as error:
        text = error.message
    assert text.strip().endswith(words)


def test_the_output_of_a_run_is_chosen_by_its_container() -> None:
    """The current run by the container's ID, the previous one by the ID that it had."""
    status = {"name": "main", "containerID": "new", "state": {"running": {}}, "lastState": ENDED}
    restarted = {"metadata": {"name": "p"}, "spec": {}, "status": {"containerStatuses": [status]}}

    def source(_pod: JSON, container: str, container_id: str) -> bytes:
        return f"{container} {container_id}".encode()

    assert pod_log(restarted, "main", source) == b"main new"
    assert pod_log(restarted, "main", source, previous=True) == b"main containerd://1"


def test_the_lines_of_a_log() -> None:
    """A container that has ended has its start, the explanation, and its end with the exit code."""
    times = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:09Z"}
    ended = {**ENDED["terminated"], **times}
    status = {"containerStatuses": [{"name": "main", "state": {"terminated": ended}}]}
    text = pod_log({"metadata": {"name": "p"}, "spec": {}, "status": status}, "main", no_output)
    assert text.decode().splitlines() == [
        "2026-01-01T00:00:00Z container main started",
        "kubesched up simulates this container: no program runs in it, so it prints nothing",
        "2026-01-01T00:00:09Z container main ended with exit code 3",
    ]
    assert shortened(text, ApiRequest("GET", "", {"tailLines": "1"})) == text.splitlines(keepends=True)[-1]
    assert shortened(text, ApiRequest("GET", "", {"tailLines": "0"})) == b""
    assert shortened(text, ApiRequest("GET", "", {"limitBytes": "4"})) == b"2026"
