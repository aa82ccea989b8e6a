"""Health, version and a few metrics, for probes and `kubectl version`."""

from __future__ import annotations

import platform
from collections import Counter

from kubesched.apiserver.storage.store import Store, encode
from kubesched.apiserver.wire.request import ApiRequest, ApiResponse
from kubesched.apiserver.wire.status import no_such_path

VERSION = "v1.36.0"
BUILD = "+kubesched"
"""The end of the version, which distinguishes these clusters from others."""
_CHECKS = ("ping", "store")
_TEXT = "text/plain; charset=utf-8"
_METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_PATHS = (
    "/api",
    "/api/v1",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
)


class Health:
    """Serves health checks, the version and metrics."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._requests: Counter[tuple[str, int]] = Counter()

    def count(self, method: str, code: int) -> None:
        self._requests[method, code] += 1

    def root(self) -> ApiResponse:
        return ApiResponse(body=encode({"paths": list(_PATHS)}))

    def version(self, _request: ApiRequest, _parts: list[str]) -> ApiResponse:
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
        if len(named) > 1 or not set(named) <= set(_CHECKS):
            raise no_such_path()
        failed = {"store"} & set(named or _CHECKS) if self._store.failure is not None else set()
        if not failed and "verbose" not in request.query:
            return ApiResponse(body=b"ok", content_type=_TEXT)
        lines = [
            f"[-]{each} failed: reason withheld" if each in failed else f"[+]{each} ok" for each in named or _CHECKS
        ]
        lines += [f"{endpoint} check {'failed' if failed else 'passed'}", ""]
        return ApiResponse(500 if failed else 200, "\n".join(lines).encode(), _TEXT)

    def metrics(self, _request: ApiRequest, parts: list[str]) -> ApiResponse:
        if len(parts) > 1:
            raise no_such_path()
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


def _resource_name(storage: str) -> str:
    group, _, plural = storage.partition("/")
    return f"{plural}.{group}" if group else plural
