"""The client that scenarios use.

It reads and writes objects of every kind, lets virtual time pass, and checks expectations. An expectation that fails
reports what was found instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.apiserver.inprocess.local import STRICT, LocalClient
from kubesched.apiserver.inprocess.reader import as_api_error
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.rest.patch import MERGE_PATCH
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.documents import DocumentError, read_yaml
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError
from kubesched.config.duration import Duration
from kubesched.config.errors import suggest
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.expectations import Checked, Expectation, Finding, check
from kubesched.simulator.kinds import find, suggestion

DEFAULT_NAMESPACE = "default"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
Object = Mapping[str, Any] | api.Object | str
"""An object as JSON, as a Struct, or as YAML text."""
Seconds = float | str
"""A number of seconds, or a duration such as ``1m30s``."""


class ScenarioError(Exception):
    """A scenario asks for something impossible. The message says what to do."""


class ScenarioClient:
    """The argument of a scenario function. Raises `ApiError` when the API server refuses a request."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._local = LocalClient(cluster.api)
        self.random = Random(f"scenario {cluster.seed}")
        """Random choices of the scenario, such as arrivals: others with each seed of a run."""
        self.checked: list[Checked] = []
        self._resources: dict[tuple[str, str], tuple[int, ApiResource]] = {}
        """Resources by kind and version, with the registry generation they are from: custom kinds come and go."""

    # --- objects ------------------------------------------------------------------------------------------------------

    async def create(self, obj: Object) -> JSON:
        """Create an object and return it as stored."""
        body = as_json(obj)
        resource = self._resource(str(body.get("kind", "")), str(body.get("apiVersion", "")))
        namespace = (body.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE
        if not resource.is_stored:
            return await self._call("POST", _path(resource, namespace), body, query=STRICT)
        try:
            return await self._local.create_stored(resource, namespace if resource.namespaced else "", body)
        except StatusError as refusal:
            raise as_api_error(refusal) from None

    async def get(self, kind: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> JSON:
        """Return one object. Raises `ApiError` with code 404 if it does not exist."""
        return await self._call("GET", _path(self._resource(kind), namespace, name))

    async def find(self, kind: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> JSON | None:
        """Return one object, or None if it does not exist."""
        resource = self._resource(kind)
        record = self._cluster.api.store.get(resource.storage, resource.key(namespace, name))
        return None if record is None else record.load()

    async def list(
        self, kind: str, namespace: str | None = DEFAULT_NAMESPACE, labels: Mapping[str, str] | None = None
    ) -> Sequence[JSON]:
        """Return objects of a kind, optionally only those with certain labels. Namespace None means all namespaces."""
        resource = self._resource(kind)
        where = (namespace or "") if resource.namespaced else ""
        wanted = dict(labels or {}).items()
        records = self._cluster.api.store.records(resource.storage, where)
        return [record.load() for record in records if wanted <= record.labels.items()]

    async def patch(
        self, kind: str, name: str, patch: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE, subresource: str = ""
    ) -> JSON:
        """Change fields of an object, or of a `subresource` such as ``status``, like ``kubectl patch``."""
        resource = self._resource(kind)
        form = MERGE_PATCH if resource.custom else STRATEGIC_PATCH
        path = _path(resource, namespace, name, subresource)
        return await self._call("PATCH", path, dict(patch), content_type=form, query=STRICT)

    async def delete(self, kind: str, name: str, namespace: str = DEFAULT_NAMESPACE, grace: int | None = None) -> None:
        """Delete an object. A pod on a node disappears when its kubelet has stopped it."""
        options: JSON | None = None if grace is None else {"gracePeriodSeconds": grace}
        await self._call("DELETE", _path(self._resource(kind), namespace, name), options)

    async def _call(self, method: str, path: str, body: Any = None, **options: Any) -> JSON:
        try:
            return await self._local.call(method, path, body, **options)
        except StatusError as refusal:
            raise as_api_error(refusal) from None

    def _resource(self, kind: str, version: str = "") -> ApiResource:
        known = self._resources.get((kind, version))
        if known is None or known[0] != self._cluster.api.registry.generation:
            known = (self._cluster.api.registry.generation, self._search(kind, version))
            self._resources[kind, version] = known
        return known[1]

    def _search(self, kind: str, version: str) -> ApiResource:
        served = list(self._cluster.api.registry)
        if (found := find(kind, version, served)) is not None:
            return found
        if not kind:
            raise ScenarioError("an object has no kind; add kind and apiVersion")
        hint = suggestion(kind, served)
        raise ScenarioError(f"the API has no kind {kind!r}" + (f"; {hint}" if hint else ""))

    # --- time ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Virtual seconds since the scenario began."""
        return self._cluster.timeline.seconds

    async def sleep(self, duration: Seconds) -> None:
        """Let time pass, with everything that is due in it."""
        await self._pass(seconds_of(duration))

    async def settle(self) -> None:
        """Let everything happen that is due now, without letting time pass."""
        await self._cluster.clock.settle()
        self._cluster.check()

    async def sleep_until(self, moment: Seconds) -> None:
        """Let time pass until `moment`, counted from the start of the scenario."""
        await self._pass(max(0.0, seconds_of(moment) - self.now))

    async def _pass(self, seconds: float) -> None:
        await self._cluster.clock.advance(seconds)
        self._cluster.check()

    # --- notes and expectations ---------------------------------------------------------------------------------------

    def log(self, text: str) -> None:
        """Add a line to the timeline."""
        self._cluster.timeline.note("note", text)

    async def expect(self, **what: Any) -> bool:
        """Check something now: ``expect(pod="pod1", on_node="node10")``. The fields are those of `Expectation`.

        Returns whether it holds. If not, the scenario goes on, but the run counts as failed.
        """
        await self.settle()
        return self.report(_expectation(what))

    async def wait_for(self, *, timeout: Seconds = 60.0, **what: Any) -> bool:
        """Let time pass until something holds. It is a failed expectation if `timeout` passes first."""
        return await self.wait(_expectation(what), timeout)

    async def wait(self, expectation: Expectation, timeout: Seconds) -> bool:
        """Like `wait_for`, with an `Expectation` object."""
        limit = seconds_of(timeout)
        shelf = self._cluster.api.store.shelf(self._resource(expectation.resource).storage)
        checked_version = -1

        def holds() -> bool:
            nonlocal checked_version
            if checked_version == shelf.visible:
                return False  # no object of this kind has changed since the last check
            checked_version = shelf.visible
            return not self._findings(expectation)

        try:
            await self._cluster.clock.run_until(holds, limit)
        except TimeoutError:
            self._cluster.check()
            return self.report(expectation, f" within {Duration(round(limit * 1e9))}")
        return self.report(expectation)

    def report(self, expectation: Expectation, suffix: str = "") -> bool:
        """Check an expectation now and record the result."""
        findings = self._findings(expectation)
        checked = Checked(self.now, str(expectation) + suffix, findings)
        self.checked.append(checked)
        what = "expected" if checked.holds else "FAILED"
        self._cluster.timeline.note(what, checked.expected if checked.holds else checked.message)
        return checked.holds

    def _findings(self, expectation: Expectation) -> Sequence[Finding]:
        resource = self._resource(expectation.resource)
        return check(expectation, self._cluster.api.store, resource)


def _expectation(what: Mapping[str, Any]) -> Expectation:
    fields = Expectation.__struct_fields__
    for name in what:
        if name not in fields:
            hint = suggest(name, fields) or f"use one of {', '.join(fields)}"
            raise ScenarioError(f"an expectation has no field {name}; {hint}")
    expectation = Expectation(**what)
    if problems := list(expectation.problems("")):
        raise ScenarioError("; ".join(str(problem).removeprefix(": ") for problem in problems))
    return expectation


def _parsed(text: str) -> Any:
    try:
        return read_yaml(text)
    except DocumentError as error:
        raise ScenarioError(f"an object is not valid YAML: {error}") from None


def as_json(obj: Object) -> JSON:
    """Convert an object to JSON for the API server."""
    if isinstance(obj, str):
        obj = _parsed(obj)
    if isinstance(obj, api.Object):
        body: JSON = msgspec.to_builtins(obj)
        return {"apiVersion": obj.api_version, "kind": obj.kind, **body}
    if not isinstance(obj, Mapping):
        raise ScenarioError(f"expected an object with apiVersion, kind and metadata, got {obj!r}")
    return dict(obj)


def seconds_of(duration: Seconds) -> float:
    """Convert a number or a duration such as ``1m30s`` to seconds."""
    if isinstance(duration, int | float):
        return float(duration)
    try:
        return Duration.parse(duration).seconds
    except ValueError as error:
        raise ScenarioError(f'{error}; write a number of seconds or a duration such as "1m30s"') from None


def _path(resource: ApiResource, namespace: str, name: str = "", subresource: str = "") -> str:
    root = "apis" if resource.group else "api"
    scope = ("namespaces", namespace) if resource.namespaced else ()
    return "/" + "/".join(p for p in (root, resource.group_version, *scope, resource.plural, name, subresource) if p)


__all__ = ["ApiError", "ScenarioClient", "ScenarioError", "as_json", "seconds_of"]
