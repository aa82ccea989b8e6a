"""The defaults of pods and pod templates."""

from __future__ import annotations

from kubesched.apiserver.qos import qos_class
from kubesched.base.types import JSON

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_DEFAULT_MODE = 0o644
_TOKEN_SECONDS = 3600


def pod_spec(spec: JSON, *, is_template: bool = False) -> None:
    """Set the defaults of the spec of a pod or template, in place. Templates get no host ports."""
    for name, value in _SPEC.items():
        if spec.get(name) in (None, ""):
            spec[name] = value
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    _service_account(spec)
    host_network = bool(spec.get("hostNetwork")) and not is_template
    for kind in _CONTAINER_LISTS:
        for container in spec.get(kind) or ():
            if isinstance(container, dict):
                _container(container, host_network)
    for volume in spec.get("volumes") or ():
        if isinstance(volume, dict):
            _volume(volume)


_SPEC = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}


def _service_account(spec: JSON) -> None:
    """Keep the old and the new field for the service account equal."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _container(container: JSON, host_network: bool) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    if not isinstance(container.get("resources"), dict):
        container["resources"] = {}
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort")
    for probe in _PROBES:
        if isinstance(container.get(probe), dict):
            _probe(container[probe])
    for variable in container.get("env") or ():
        _field_reference(variable.get("valueFrom") or {})


def _field_reference(source: JSON) -> None:
    reference = source.get("fieldRef")
    if reference is not None and not reference.get("apiVersion"):
        reference["apiVersion"] = "v1"


def _pull_policy(image: str) -> str:
    """An image without a fixed tag is pulled every time."""
    name = image.partition("@")[0].rpartition("/")[2]
    tag = name.partition(":")[2]
    floating = "@" not in image and tag in ("", "latest")
    return "Always" if floating else "IfNotPresent"


def requests(spec: JSON) -> None:
    """A limit without a request is also the request. Only in pods: templates stay as written."""
    for kind in _CONTAINER_LISTS:
        for container in spec.get(kind) or ():
            resources = container.get("resources") or {}
            limits = resources.get("limits")
            if limits:
                resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _probe(probe: JSON) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    http = probe.get("httpGet")
    if isinstance(http, dict):
        http["path"] = http.get("path") or "/"
        http["scheme"] = http.get("scheme") or "HTTP"


def _volume(volume: JSON) -> None:
    sources = [name for name in volume if name != "name"]
    if not sources:
        volume["emptyDir"] = {}
        return
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        source = volume.get(kind)
        if isinstance(source, dict) and source.get("defaultMode") is None:
            source["defaultMode"] = _DEFAULT_MODE
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _field_reference(item)
    claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if isinstance(claim, dict):
        claim.setdefault("metadata", {})
        claim["spec"] = claim.get("spec") or {}
        claim["spec"].setdefault("volumeMode", "Filesystem")
    for source in (volume.get("projected") or {}).get("sources") or ():
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _field_reference(item)
        token = source.get("serviceAccountToken")
        if isinstance(token, dict) and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = _TOKEN_SECONDS


# --- status -----------------------------------------------------------------------------------------------------------


def pod_status(pod: JSON) -> None:
    """Set a pod's phase and quality-of-service class, in place."""
    status = pod.get("status")
    if not isinstance(status, dict):
        status = pod["status"] = {}
    if not status.get("phase"):
        status["phase"] = "Pending"
    if not status.get("qosClass"):
        status["qosClass"] = qos_class(pod["spec"])
