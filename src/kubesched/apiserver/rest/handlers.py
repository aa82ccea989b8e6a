"""The REST API of resources: one handler per verb, the same for every kind in the table.

A handler reads the request, calls the writer or the store without waiting in between, and renders the response. A write
is acknowledged, and shown to readers, only when it is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from kubesched.apiserver.apply.managers import Manager, apply
from kubesched.apiserver.apply.managers import created as created_by_apply
from kubesched.apiserver.apply.requests import (
    apply_manager,
    check_no_duplicates,
    creation,
    read_applied,
    update_manager,
)
from kubesched.apiserver.auth.rbac import Authorizer
from kubesched.apiserver.auth.reviews import Reviews
from kubesched.apiserver.crd.custom_resources import CustomResources
from kubesched.apiserver.kinds.conversion import served_object
from kubesched.apiserver.kinds.registry import ApiResource, ResourceRegistry
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.meta import check_name, timestamp
from kubesched.apiserver.policies.attributes import SERVER, AdmissionAttributes
from kubesched.apiserver.rest import patch as patches
from kubesched.apiserver.rest.body import (
    check_depth,
    check_fields,
    check_kind,
    media_type,
    parse,
    read_object,
    report_dropped,
)
from kubesched.apiserver.rest.creation_warnings import NAMESPACES, CreationWarnings
from kubesched.apiserver.rest.deletion import Deleter, read_options
from kubesched.apiserver.rest.listing import ListPage, list_page, selection_of
from kubesched.apiserver.rest.options import check_query
from kubesched.apiserver.rest.patch_requests import PatchRequest
from kubesched.apiserver.rest.pod_logs import (
    LogSource,
    check_options,
    container_of,
    no_output,
    pod_log,
    shortened,
)
from kubesched.apiserver.rest.rendering import Renderer
from kubesched.apiserver.rest.subresources import Admit, PodSubresources, scale_of, set_scale
from kubesched.apiserver.rest.watching import Watch, watch_start
from kubesched.apiserver.rest.writer import ReportUnknown, Writer, replacement
from kubesched.apiserver.storage.store import Record, Shelf, encode
from kubesched.apiserver.wire.negotiation import negotiate, no_yaml_watch, not_acceptable, wants_yaml
from kubesched.apiserver.wire.request import ApiRequest, ApiResponse, RequestTarget, is_watch
from kubesched.apiserver.wire.status import (
    StatusError,
    bad_request,
    conflict,
    created,
    method_not_allowed,
    no_such_path,
    not_found,
    success,
)
from kubesched.base.types import JSON

_OBJECT_PARTS = ("status", "ephemeralcontainers", "resize", "finalize", "approval")
_DEPRECATED = {
    "/componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "/endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_SIMULATED = "the nodes of this cluster are simulated and run no containers, so there is"
_NEEDS_CONTAINERS = {
    "exec": f"{_SIMULATED} nothing to run a command in",
    "attach": f"{_SIMULATED} nothing to attach to",
    "portforward": f"{_SIMULATED} no port to forward to",
    "proxy": f"{_SIMULATED} nothing that would answer",
}
_IN_CONTAINER = ("exec", "attach")
_ON_NODE = (*_IN_CONTAINER, "portforward")
ObjectSource = Callable[[str], Iterable[JSON]]
"""Computes the objects of a kind in a namespace; empty for all."""


class ResourceHandler:
    """Handles requests for resources."""

    def __init__(
        self,
        writer: Writer,
        deleter: Deleter,
        pods: PodSubresources,
        reviews: Reviews,
        authorizer: Authorizer,
        random: Random,
    ) -> None:
        self._writer = writer
        self._authorizer = authorizer
        self._store = writer.store
        self._registry: ResourceRegistry = writer.registry
        self._deleter = deleter
        self._pods = pods
        self._reviews = reviews
        self._custom: CustomResources = writer.custom
        self._random = random
        self._warnings = CreationWarnings()
        self.computed: dict[ApiResource, ObjectSource] = {}
        """Kinds whose objects are computed when they are read, and what computes those of a namespace."""
        self.log_of: LogSource = no_output
        """What a container has printed; None if nothing runs in it."""
        self.closing = False
        """Set to end every watch, so that the server can stop."""

    async def handle(self, request: ApiRequest, target: RequestTarget) -> ApiResponse:
        resource = self._registry.find(target.group, target.version, target.plural)
        _check_scope(request, target, resource)
        check_query(request, target)
        if deprecation := _DEPRECATED.get(resource.storage) or self._custom.deprecation(resource):
            request.warnings.append(deprecation)
        if resource in self.computed:
            response = self._read_computed(request, target, resource)
        elif target.subresource:
            response = self._subresource(request, target, resource)
        elif target.name:
            response = self._one(request, target, resource)
        else:
            response = self._collection(request, target, resource)
        if response.stream is None:
            # Neither acknowledge nor show what a crash could still undo.
            await self._store.durable()
        return response

    def shelf(self, resource: ApiResource) -> Shelf:
        return self._store.shelf(resource.storage)

    def _renderer(self, request: ApiRequest, resource: ApiResource) -> Renderer:
        form = negotiate(request.headers.get("accept", ""))
        columns = self._custom.columns(resource) if resource.custom else None
        return Renderer(resource, form, columns, request.query.get("includeObject", ""), self._writer.clock.now)

    def _read_computed(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        if request.method not in ("GET", "HEAD") or is_watch(request, target):
            raise method_not_allowed()
        selection = selection_of(request, resource, target.namespace)
        made = (self._computed_record(resource, obj) for obj in self.computed[resource](target.namespace))
        records = [record for record in made if selection.matches(record)]
        renderer = self._renderer(request, resource)
        if not target.name:
            return renderer.page(ListPage(records, self._store.version))
        for record in records:
            if record.name == target.name:
                return renderer.one(record)
        raise not_found(resource.plural, resource.group, target.name)

    def _computed_record(self, resource: ApiResource, obj: JSON) -> Record:
        metadata = obj["metadata"]
        body = {"apiVersion": resource.group_version, "kind": resource.kind, **obj}
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        return Record(key, self._store.version, encode(body), metadata.get("labels") or {}, {})

    # --- collections --------------------------------------------------------------------------------------------------

    def _collection(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        if request.method == "POST":
            return self._create(request, target, resource)
        if not resource.is_stored:
            raise method_not_allowed()
        if request.method in ("GET", "HEAD"):
            if is_watch(request, target):
                return self._watch(request, target, resource)
            selection = selection_of(request, resource, target.namespace)
            page = list_page(self._store, self.shelf(resource), request, selection, self._writer.clock.now())
            return self._renderer(request, resource).page(page)
        if request.method == "DELETE" and "deletecollection" in resource.verbs:
            return self._delete_collection(request, target, resource)
        raise method_not_allowed()

    def _watch(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        selection = selection_of(request, resource, target.namespace)
        if wants_yaml(request.headers.get("accept", "")):
            raise no_yaml_watch()
        version, initial = watch_start(request, self._store)
        renderer = self._renderer(request, resource)
        watch = Watch(
            store=self._store,
            shelf=self.shelf(resource),
            resource=resource,
            selection=selection,
            clock=self._writer.clock,
            random=self._random,
            render=renderer.watch_render(),
            bookmark=renderer.bookmark,
            version=version,
            initial=initial,
            mark_initial_end=request.flag("sendInitialEvents") and request.flag("allowWatchBookmarks"),
            bookmarks=request.flag("allowWatchBookmarks"),
            # The default is random, between half an hour and an hour, so that clients do not all reconnect at once.
            timeout=float(request.number("timeoutSeconds") or self._random.randint(1800, 3600)),
            closing=lambda: self.closing,
        )
        return ApiResponse(stream=watch.stream())

    def _create(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        if not resource.is_stored:
            return self._review(request, target, resource)
        obj = read_object(request, resource)
        manager = self._manager(request, target, resource) if request.query.get("fieldManager") else None
        return self._store_new(request, target, resource, obj, manager)

    def _store_new(
        self,
        request: ApiRequest,
        target: RequestTarget,
        resource: ApiResource,
        obj: JSON,
        manager: Manager | None = None,
    ) -> ApiResponse:
        record = self._writer.create(
            resource,
            target.namespace,
            obj,
            dry_run=request.dry_run,
            user=request.user,
            report_unknown=partial(report_dropped, request, resource),
            warn=request.warnings.append,
            manager=manager,
        )
        request.warnings += self._warnings.new_for(request, resource, obj)
        return self._renderer(request, resource).one(record, 201)

    def _review(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        if negotiate(request.headers.get("accept", "")).kind:
            raise not_acceptable()
        obj = read_object(request, resource)
        if resource.kind == "Binding":
            name, admit = obj["metadata"].get("name", ""), self._policies_for(request, target, resource)
            self._pods.bind(target.namespace, name, obj, dry_run=request.dry_run, admit=admit)
            return ApiResponse(201, encode(created()))
        return ApiResponse(201, encode(self._reviews.review(resource, target.namespace, obj, request.user)))

    def _delete_collection(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        options = read_options(request)
        selection = selection_of(request, resource, target.namespace)
        page = list_page(self._store, self.shelf(resource), request, selection, self._writer.clock.now())
        for record in page.records:
            self._deleter.delete(
                resource, record.namespace, record.name, options, request.user, request.warnings.append
            )
        return self._renderer(request, resource).page(page)

    # --- one object ---------------------------------------------------------------------------------------------------

    def _one(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        if not resource.is_stored:
            raise method_not_allowed()
        act = {"PUT": self._replace, "PATCH": self._patch, "DELETE": self._delete}.get(request.method)
        if act is not None:
            return act(request, target, resource)
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        record = self._writer.find(resource, target.namespace, target.name)
        return self._renderer(request, resource).one(record)

    def _replace(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        sent = read_object(request, resource)
        check_name(target.name, sent)
        return self._update(request, target, resource, replacement(sent, resource))

    def _patch(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        if media_type(request.headers.get("content-type", "")) == patches.APPLY:
            return self._apply(request, target, resource)
        patch = PatchRequest(request, resource)
        return self._update(request, target, resource, patch.apply, report_unknown=patch.report_dropped)

    def _apply(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        """Server-side apply. An object that does not exist is created."""
        wanted = read_applied(request, target, resource, self._custom.complete)
        now = timestamp(self._writer.clock.now())
        manager = Manager(apply_manager(request), "Apply", resource.group_version, target.subresource, now)
        shape = self._writer.shape(resource)
        check_no_duplicates(wanted, shape, target, resource)
        if self._store.get(resource.storage, resource.key(target.namespace, target.name)) is None:
            if target.subresource:
                raise not_found(resource.plural, resource.group, target.name)
            if uid := wanted["metadata"].get("uid"):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise conflict(resource.plural, resource.group, target.name, why)
            self._authorizer.check(request.user, creation(target))
            return self._store_new(request, target, resource, created_by_apply(wanted, shape, manager))

        def change(old: JSON) -> JSON:
            return check_depth(apply(old, wanted, shape, manager, force=request.flag("force")))

        return self._update(request, target, resource, change, tracked=False)

    def _update(
        self,
        request: ApiRequest,
        target: RequestTarget,
        resource: ApiResource,
        change: Callable[[JSON], JSON],
        *,
        tracked: bool = True,
        report_unknown: ReportUnknown | None = None,
    ) -> ApiResponse:
        record = self._writer.update(
            resource,
            target.namespace,
            target.name,
            change,
            subresource=target.subresource,
            dry_run=request.dry_run,
            user=request.user,
            verb="patch" if request.method == "PATCH" else "update",
            report_unknown=report_unknown or partial(report_dropped, request, resource),
            warn=request.warnings.append,
            manager=self._manager(request, target, resource) if tracked else None,
        )
        if resource.storage == NAMESPACES and not target.subresource:
            request.warnings += self._warnings.new_for(request, resource, record.load())
        return self._renderer(request, resource).one(record)

    def _manager(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> Manager:
        now = timestamp(self._writer.clock.now())
        return Manager(update_manager(request), "Update", resource.group_version, target.subresource, now)

    def _delete(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        options = read_options(request)
        warn = request.warnings.append
        record, gone = self._deleter.delete(resource, target.namespace, target.name, options, request.user, warn)
        if not gone or resource.returns_deleted:
            return self._renderer(request, resource).one(record)
        uid = record.load()["metadata"]["uid"]
        return ApiResponse(body=encode(success(target.name, resource.group, resource.plural, uid)))

    # --- subresources ------------------------------------------------------------------------------------------------

    def _subresource(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        subresource = resource.subresource(target.subresource)
        if subresource.name in _OBJECT_PARTS:
            if request.method not in ("GET", "HEAD", "PUT", "PATCH"):
                raise method_not_allowed()
            return self._one(request, target, resource)
        if subresource.name == "scale":
            return self._scale(request, target, resource)
        if subresource.name == "log":
            return self._log(request, target, resource)
        if subresource.name in _NEEDS_CONTAINERS:
            pod = self._writer.find(resource, target.namespace, target.name).load()
            if subresource.name in _IN_CONTAINER:
                container_of(pod, request.query.get("container", ""))
            if subresource.name in _ON_NODE and not self._is_on_node(pod):
                raise bad_request(f"pod {target.name} does not have a host assigned")
            raise StatusError(501, _NEEDS_CONTAINERS[subresource.name], reason="NotImplemented")
        if request.method != "POST":
            raise method_not_allowed()
        act = {"binding": self._bind, "eviction": self._evict, "token": self._token}[subresource.name]
        return act(request, target, resource)

    def _policies_for(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> Admit | None:
        """What asks the policies about the body of a subresource; None if there are none, as bindings are many."""
        if not self._writer.admission.asks_policies:
            return None

        def admit(body: JSON) -> None:
            meta = {**body["metadata"], "name": body["metadata"].get("name") or target.name}
            if resource.namespaced:
                meta["namespace"] = target.namespace
            self._writer.admission.check_policies(
                AdmissionAttributes(
                    "CREATE",
                    resource,
                    {**body, "metadata": meta},
                    None,
                    request.user or SERVER,
                    target.subresource,
                    request.dry_run,
                    request.warnings.append,
                )
            )

        return admit

    def _log(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        check_options(request, target.name)
        pod = self._writer.find(resource, target.namespace, target.name).load()
        container = container_of(pod, request.query.get("container", ""))
        if not self._is_on_node(pod):
            return ApiResponse(204, content_type="text/plain")
        text = pod_log(pod, container, self.log_of, previous=request.flag("previous"))
        return ApiResponse(body=shortened(text, request), content_type="text/plain")

    def _is_on_node(self, pod: JSON) -> bool:
        """Whether a pod has a node. Raises if the node is gone."""
        name = pod["spec"].get("nodeName", "")
        if name and self._store.get("/nodes", name) is None:
            raise not_found("nodes", "", name)
        return bool(name)

    def _read_body(self, request: ApiRequest, group_version: str, kind: str, schema: str) -> JSON:
        obj = parse(request, type_of(schema))
        check_kind(obj, group_version, kind)
        check_fields(request, obj, group_version, kind, type_of(schema))
        return obj

    def _bind(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        binding = self._read_body(request, "v1", "Binding", "core.Binding")
        _check_same_object(binding, target, "Binding")
        admit = self._policies_for(request, target, resource)
        self._pods.bind(target.namespace, target.name, binding, dry_run=request.dry_run, admit=admit)
        return ApiResponse(201, encode(created()))

    def _evict(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        eviction = self._read_body(request, "policy/v1", "Eviction", "policy.Eviction")
        _check_same_object(eviction, target, "Eviction")
        body = eviction.get("deleteOptions") or {}
        options = read_options(ApiRequest("DELETE", "", request.query, body=encode({**body, "kind": "DeleteOptions"})))
        if (admit := self._policies_for(request, target, resource)) is not None:
            admit(eviction)
        self._pods.evict(target.namespace, target.name, options)
        return ApiResponse(201, encode(created()))

    def _token(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        group_version, kind = "authentication.k8s.io/v1", "TokenRequest"
        body = self._read_body(request, group_version, kind, "authentication.TokenRequest")
        account = self._store.get("/serviceaccounts", target.key)
        if account is None:
            raise not_found("serviceaccounts", "", target.name)
        if (admit := self._policies_for(request, target, resource)) is not None:
            admit(body)
        return ApiResponse(201, encode(self._reviews.request_token(account.load(), body)))

    def _scale(self, request: ApiRequest, target: RequestTarget, resource: ApiResource) -> ApiResponse:
        paths = self._custom.scale_paths(resource) if resource.custom else None
        if request.method in ("GET", "HEAD"):
            record = self._writer.find(resource, target.namespace, target.name)
            return ApiResponse(body=encode(scale_of(served_object(resource, record), paths)))
        if request.method not in ("PUT", "PATCH"):
            raise method_not_allowed()

        def change(old: JSON) -> JSON:
            if request.method == "PUT":
                scale = self._read_body(request, "autoscaling/v1", "Scale", "autoscaling.Scale")
            else:
                patch = PatchRequest(request, resource, "autoscaling/v1", "autoscaling.Scale")
                scale = patch.apply(scale_of(old, paths))
            return set_scale(old, scale, paths)

        record = self._writer.update(
            resource,
            target.namespace,
            target.name,
            change,
            dry_run=request.dry_run,
            user=request.user,
            warn=request.warnings.append,
            manager=self._manager(request, target, resource),
            scale=partial(scale_of, paths=paths),
        )
        return ApiResponse(body=encode(scale_of(served_object(resource, record), paths)))


def _check_same_object(obj: JSON, target: RequestTarget, kind: str) -> None:
    """Check that the body of a subresource names the object of the path."""
    metadata = obj["metadata"]
    if metadata.get("namespace") not in (None, "", target.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("name") != target.name:
        raise bad_request(f"name in URL does not match name in {kind} object")


def _check_scope(request: ApiRequest, target: RequestTarget, resource: ApiResource) -> None:
    """Refuse a path whose scope is not the kind's. Upstream has no route for it.

    Authorization uses the namespace in the path, so rights in a namespace must not reach cluster-scoped kinds.
    """
    if target.namespace and not resource.namespaced:
        raise no_such_path()
    if resource.namespaced and not target.namespace:
        if target.name or not resource.is_stored:
            raise no_such_path()
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
