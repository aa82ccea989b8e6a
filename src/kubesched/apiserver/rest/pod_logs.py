"""Logs of pods. Nothing runs in simulated containers, so the log says that, and what has happened to the container."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubesched.apiserver.wire.request import ApiRequest
from kubesched.apiserver.wire.status import Cause, bad_request, invalid
from kubesched.base.types import JSON

LogSource = Callable[[JSON, str, str], bytes | None]
"""Returns what a run of a container has printed, by pod, container name and container ID; None if nothing runs."""
_WAITING = {"ErrImagePull": "image can't be pulled", "ImagePullBackOff": "trying and failing to pull image"}
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def no_output(_pod: JSON, _container: str, _container_id: str) -> bytes | None:
    """Nothing runs in any container."""
    return None


def check_options(request: ApiRequest, pod: str) -> None:
    """Refuse options that make no sense, as the API server does before it looks for the pod."""
    lines, most, since = map(request.number, ("tailLines", "limitBytes", "sinceSeconds"))
    problems = []
    if lines is not None and lines < 0:
        problems.append(_wrong("tailLines", lines, "must be greater than or equal to 0"))
    if most is not None and most < 1:
        problems.append(_wrong("limitBytes", most, "must be greater than 0"))
    if since is not None and request.query.get("sinceTime"):
        why = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(Cause("FieldValueForbidden", f"Forbidden: {why}"))
    elif since is not None and since < 1:
        problems.append(_wrong("sinceSeconds", since, "must be greater than 0"))
    if problems:
        raise invalid("PodLogOptions", "", pod, problems)


def _wrong(field: str, value: int, rule: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {value}: {rule}", field)


def container_of(pod: JSON, name: str) -> str:
    """The container that a request is about: the one it names, or the pod's only one."""
    pod_name, spec = pod["metadata"]["name"], pod["spec"]
    mains = [each["name"] for each in spec["containers"]]
    if not name and len(mains) == 1:
        return str(mains[0])
    known = [
        *(each["name"] for each in spec.get("initContainers") or ()),
        *mains,
        *(each["name"] for each in spec.get("ephemeralContainers") or ()),
    ]
    if not name:
        raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{' '.join(known)}]")
    if name not in known:
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    return name


def pod_log(pod: JSON, container: str, source: LogSource, *, previous: bool = False) -> bytes:
    """The log of a container on a node. One that waits for a restart shows how it ended."""
    state, container_id = _run(pod, container, previous)
    printed = source(pod, container, container_id)
    return "".join(_honest(container, state)).encode() if printed is None else printed


def _run(pod: JSON, container: str, previous: bool) -> tuple[JSON, str]:
    """The run that a log is about, as its state and container ID, chosen as a kubelet does it. Raises if none."""
    what = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    statuses = (each for field in _STATUSES for each in pod["status"].get(field) or ())
    status: JSON | None = next((each for each in statuses if each["name"] == container), None)
    if status is None:
        raise bad_request(f"{what} is not available")
    now: JSON = status.get("state") or {}
    last: JSON = status.get("lastState") or {}
    last_id = (last.get("terminated") or {}).get("containerID", "")
    if previous:
        if not last_id:
            raise bad_request(f"previous terminated {what} not found")
        return last, last_id
    if "running" in now:
        return now, status.get("containerID", "")
    if container_id := (now.get("terminated") or {}).get("containerID", ""):
        return now, container_id
    if last_id:
        return last, last_id
    if "terminated" in now or "terminated" in last:
        raise bad_request(f"{what} is terminated")
    if "waiting" not in now:
        raise bad_request(f"{what} is waiting to start - no logs yet")
    why = now["waiting"].get("reason", "")
    raise bad_request(f"{what} is waiting to start: {_WAITING.get(why, why)}")


def _honest(container: str, state: JSON) -> Iterator[str]:
    running, ended = state.get("running") or {}, state.get("terminated") or {}
    yield f"{(running or ended).get('startedAt', '')} container {container} started\n"
    yield "kubesched up simulates this container: no program runs in it, so it prints nothing\n"
    if ended:
        yield f"{ended.get('finishedAt', '')} container {container} ended with exit code {ended.get('exitCode', 0)}\n"


def shortened(text: bytes, request: ApiRequest) -> bytes:
    """The part of a log that a request asks for."""
    lines = request.number("tailLines")
    if lines is not None:
        text = b"".join(text.splitlines(keepends=True)[-lines:] if lines else [])
    most = request.number("limitBytes")
    return text if most is None else text[:most]
