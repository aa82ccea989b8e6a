"""Health, version, flags and a few metrics, for probes and `kubectl version`."""

from __future__ import annotations

import platform
import time
from collections import Counter

from kubesched.apiserver.kinds.registry import ResourceRegistry
from kubesched.apiserver.storage.store import Store, encode
from kubesched.apiserver.wire.negotiation import check_readable
from kubesched.apiserver.wire.request import JSON_TYPE, TEXT_TYPE, ApiRequest, ApiResponse
from kubesched.apiserver.wire.status import NoSuchPageError, StatusError, no_such_path
from kubesched.base.component_pages import ACCEPTED, flagz, statusz

VERSION = "v1.36.0"
BUILD = "+kubesched"
"""The end of the version, which distinguishes these clusters from others."""
_STORE = "etcd"
"""The check of the store has the name that probes of real clusters ask for."""
_CHECKS = ("ping", _STORE)
_METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_PATHS = (
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/",
    "/flagz",
    *(
        path
        for endpoint in ("/healthz", "/livez", "/readyz")
        for path in (endpoint, *(f"{endpoint}/{each}" for each in _CHECKS))
    ),
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/statusz",
    "/version",
)


_COMPONENT = "apiserver"
_PATHS_OF_STATUS = ("/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version")


class Health:
    """Serves health checks, the version and metrics."""

    def __init__(self, store: Store, registry: ResourceRegistry) -> None:
        self._store = store
        self._registry = registry
        self._requests: Counter[tuple[str, int]] = Counter()
        self.flags: dict[str, str] = {"authorization-mode": "[RBAC]"}
        """For /flagz, under the names that kube-apiserver's flags have."""
        self._status = statusz(_COMPONENT, time.time(), _PATHS_OF_STATUS)

    def count(self, method: str, code: int) -> None:
        self._requests[method, code] += 1

    def root(self) -> ApiResponse:
        groups = {group: versions for group, versions in self._registry.groups().items() if group}
        named = [f"/apis/{group}" for group in groups]
        versioned = [f"/apis/{group}/{version}" for group, versions in groups.items() for version in versions]
        return ApiResponse(body=encode({"paths": sorted((*_PATHS, *named, *versioned))}))

    def page(self, request: ApiRequest, _parts: list[str]) -> ApiResponse:
        """/flagz or /statusz."""
        pages = {"/flagz": flagz(_COMPONENT, self.flags), "/statusz": self._status}
        if request.path not in pages:
            raise NoSuchPageError
        found = pages[request.path].answer(request.headers.get("accept", ""))
        if found is None:
            raise StatusError(406, ACCEPTED)
        if isinstance(found.body, str):
            return ApiResponse(body=found.body.encode(), content_type=TEXT_TYPE)
        body = found.body if isinstance(found.body, bytes) else encode(found.body)
        return ApiResponse(body=body, content_type=found.content_type, headers=dict(found.headers))

    def version(self, request: ApiRequest, parts: list[str]) -> ApiResponse:
        if len(parts) > 1:
            raise no_such_path()
        check_readable(request, (JSON_TYPE,))
        major, minor = VERSION.lstrip("v").split(".")[:2]
        body = {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "gitVersion": f"{VERSION}{BUILD}",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": f"python{platform.python_version()}",
            "compiler": platform.python_implementation(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }
        return ApiResponse(body=encode(body))

    def check(self, request: ApiRequest, parts: list[str]) -> ApiResponse:
        """The health at an endpoint: all checks, or the named one."""
        endpoint, *named = parts
        if len(named) > 1 or not set(named) <= set(_CHECKS) or request.path.endswith("/"):
            raise NoSuchPageError
        excluded = {request.query["exclude"]} if "exclude" in request.query and not named else set()
        failing = {_STORE} & set(named or _CHECKS) - excluded if self._store.failure is not None else set()
        if not failing and (named or "verbose" not in request.query):
            return ApiResponse(body=b"ok", content_type=TEXT_TYPE)
        lines = [_line(each, each in failing, each in excluded) for each in named or _CHECKS]
        warning = "warn: some health checks cannot be excluded: no matches for"
        lines += [f'{warning} "{unknown}"' for unknown in excluded - set(_CHECKS)]
        lines += [f"{endpoint} check {'failed' if failing else 'passed'}", ""]
        return ApiResponse(500 if failing else 200, "\n".join(lines).encode(), TEXT_TYPE)

    def metrics(self, _request: ApiRequest, parts: list[str]) -> ApiResponse:
        if len(parts) > 1:
            raise NoSuchPageError
        lines = [
            "# HELP apiserver_request_total Requests answered, by verb and code.",
            "# TYPE apiserver_request_total counter",
            *(
                f'apiserver_request_total{{verb="{method}",code="{code}"}} {count}'
                for (method, code), count in sorted(self._requests.items())
            ),
            "# HELP apiserver_storage_objects Objects stored, by resource.",
            "# TYPE apiserver_storage_objects gauge",
            *(
                f'apiserver_storage_objects{{resource="{_resource_name(resource)}"}} {len(shelf.records)}'
                for resource, shelf in sorted(self._store.shelves.items())
            ),
            "",
        ]
        return ApiResponse(body="\n".join(lines).encode(), content_type=_METRICS_TEXT)


def _line(check: str, failing: bool, excluded: bool) -> str:
    if excluded:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: reason withheld" if failing else f"[+]{check} ok"


def _resource_name(storage: str) -> str:
    group, _, plural = storage.partition("/")
    return f"{plural}.{group}" if group else plural
