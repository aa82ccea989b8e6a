"""Logs of pods. Nothing runs in simulated containers, so the log says that, and what has happened to the container."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubesched.apiserver.wire.request import ApiRequest
from kubesched.apiserver.wire.status import bad_request
from kubesched.base.types import JSON

LogSource = Callable[[JSON, str], bytes | None]
_WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def no_output(_pod: JSON, _container: str) -> bytes | None:
    """Nothing runs in any container."""
    return None


def pod_log(pod: JSON, container: str, source: LogSource, *, previous: bool = False) -> bytes:
    """The log of a container; of the only one if none is named. One that waits for a restart shows how it ended."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [each["name"] for each in (*(spec.get("initContainers") or ()), *spec["containers"])]
    names += [each["name"] for each in spec.get("ephemeralContainers") or ()]
    if not container:
        if len(names) > 1:
            raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
        container = names[0]
    if container not in names:
        raise bad_request(f"container {container} is not valid for pod {name}")
    state = _state(pod, container, previous)
    printed = source(pod, container)
    return "".join(_honest(container, state)).encode() if printed is None else printed


def _state(pod: JSON, container: str, previous: bool) -> JSON:
    """The state that a log is about, chosen as a kubelet does it. Raises if there is none."""
    statuses = (each for field in _STATUSES for each in pod["status"].get(field) or ())
    status: JSON = next((each for each in statuses if each["name"] == container), {})
    now: JSON = status.get("state") or {}
    last: JSON = status.get("lastState") or {}
    start = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    if previous and "terminated" not in last:
        raise bad_request(f"previous terminated {start} not found")
    if not previous and ("running" in now or "terminated" in now):
        return now
    if "terminated" in last:
        return last
    why = (now.get("waiting") or {}).get("reason", "ContainerCreating")
    raise bad_request(f"{start} is waiting to start: {_WAITING.get(why, why)}")


def _honest(container: str, state: JSON) -> Iterator[str]:
    running, ended = state.get("running") or {}, state.get("terminated") or {}
    yield f"{(running or ended).get('startedAt', '')} container {container} started\n"
    yield "kubesched up simulates this container: no program runs in it, so it prints nothing\n"
    if ended:
        yield f"{ended.get('finishedAt', '')} container {container} ended with exit code {ended.get('exitCode', 0)}\n"


def shortened(text: bytes, request: ApiRequest) -> bytes:
    """The part of a log that a request asks for."""
    lines = request.number("tailLines")
    if lines is not None and lines >= 0:
        text = b"".join(text.splitlines(keepends=True)[-lines:] if lines else [])
    most = request.number("limitBytes")
    return text[:most] if most else text
