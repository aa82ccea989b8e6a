"""The API server without its socket: authentication, authorization, routing.

`http_server` puts it behind TLS. Tests and in-process clients call `handle` directly.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random

from kubesched.apiserver.admission.admission import Admission, AdmissionSettings
from kubesched.apiserver.auth.authentication import Authenticator
from kubesched.apiserver.auth.impersonation import impersonated, impersonation_actions
from kubesched.apiserver.auth.issuer import Issuer
from kubesched.apiserver.auth.rbac import AccessRequest, Aggregation, Authorizer
from kubesched.apiserver.auth.reviews import Reviews
from kubesched.apiserver.auth.tokens import Tokens
from kubesched.apiserver.bootstrap import Bootstrap
from kubesched.apiserver.crd.custom_resources import CustomResources
from kubesched.apiserver.discovery import Discovery
from kubesched.apiserver.health import Health
from kubesched.apiserver.kinds.fields import fields_reader
from kubesched.apiserver.kinds.registry import ApiResource, ResourceRegistry
from kubesched.apiserver.names import NameGenerator
from kubesched.apiserver.openapi.documents import OpenAPI
from kubesched.apiserver.rest.deletion import Deleter
from kubesched.apiserver.rest.handlers import ObjectSource, ResourceHandler
from kubesched.apiserver.rest.selectors import NAME, split_fields
from kubesched.apiserver.rest.subresources import PodSubresources
from kubesched.apiserver.rest.writer import Writer
from kubesched.apiserver.storage.store import Store, encode
from kubesched.apiserver.wire.negotiation import YAML_TYPE, wants_yaml
from kubesched.apiserver.wire.request import (
    JSON_TYPE,
    TEXT_TYPE,
    ApiRequest,
    ApiResponse,
    RequestTarget,
    UserInfo,
    parse_path,
    verb_of,
)
from kubesched.apiserver.wire.status import NoSuchPageError, StatusError, too_many
from kubesched.apiserver.wire.warnings import limited_warnings
from kubesched.apiserver.wire.yaml_form import to_yaml
from kubesched.base.client_limits import ClientLimit
from kubesched.base.clock import Clock
from kubesched.base.clocks import SystemClock
from kubesched.base.documents import REQUEST

REQUESTS_PER_CLIENT = 400
WATCHES_PER_CLIENT = 1000
"""Limits for requests over a network. Controllers and schedulers have at most a hundred of either."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExtraRoute:
    """A handler for a path that Kubernetes does not have."""

    handle: Callable[[ApiRequest], Awaitable[ApiResponse]]
    max_body: int = REQUEST.size


class ApiServer:
    """A Kubernetes API on a store."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        clock: Clock | None = None,
        static_tokens: Mapping[str, UserInfo] | None = None,
        admission: AdmissionSettings | None = None,
        tokens: Tokens | None = None,
        client_ca: str = "",
        random: Random | None = None,
        all_roles: bool = False,
    ) -> None:
        random = random or Random()
        self.store = store or Store()
        self.clock = clock or SystemClock()
        self.names = NameGenerator(random)
        self.registry = ResourceRegistry()
        self.tokens = tokens or Tokens()
        self._prepare_shelves()
        self.store.load()
        self.authenticator = Authenticator(self.store, self.tokens, static_tokens or {}, self.clock)
        self.authorizer = Authorizer(self.store)
        self.custom = CustomResources(self.store, self.registry, self.clock)
        settings = admission or AdmissionSettings()
        admitting = Admission(self.store, self.registry, settings, random, self.authorizer)
        self.writer = Writer(self.store, self.registry, self.custom, admitting, self.names, self.clock)
        self.deleter = Deleter(self.writer)
        self.pods = PodSubresources(self.writer, self.deleter, self.registry.find("", "v1", "pods"))
        reviews = Reviews(self.store, self.authenticator, self.authorizer, self.tokens, self.clock)
        self.rest = ResourceHandler(self.writer, self.deleter, self.pods, reviews, self.authorizer, random)
        self.health = Health(self.store, self.registry)
        self.requests, self.watches = ClientLimit(REQUESTS_PER_CLIENT), ClientLimit(WATCHES_PER_CLIENT)
        self.extra_routes: dict[tuple[str, str], ExtraRoute] = {}
        """More to serve, by method and path. Requests are authorized as for a resource of that name."""
        self._issuer = Issuer(self.tokens)
        self._discovery = Discovery(self.registry)
        self._openapi = OpenAPI(self.registry, self.custom)
        self.custom.restore()
        admitting.quotas.restore()
        self.bootstrap = Bootstrap(self.writer, client_ca, all_roles=all_roles)
        self.bootstrap.run()
        Aggregation(self.store).refresh()

    def _prepare_shelves(self) -> None:
        """Set the selectable fields of each kind in the store. Kinds stored together share theirs."""
        paths: dict[str, dict[str, tuple[str, ...]]] = {}
        for resource in self.registry:
            if resource.is_stored:
                paths.setdefault(resource.storage, {}).update(resource.field_paths)
        for storage, merged in paths.items():
            self.store.shelf(storage, fields_reader(merged))

    def resource(self, group: str, version: str, plural: str) -> ApiResource:
        """A kind by its path."""
        return self.registry.find(group, version, plural)

    def serve_computed(self, resource: ApiResource, source: ObjectSource) -> None:
        """Serve a kind whose objects are computed when they are read."""
        self.registry.add(resource)
        self.rest.computed[resource] = source

    async def handle(self, request: ApiRequest) -> ApiResponse:
        """Return the response to a request. A refusal is a response too."""
        try:
            response = await self._respond(request)
        except StatusError as error:
            response = refusal(error)
        except Exception:
            _log.exception("request failed: %s %s", request.method, request.path)
            response = refusal(StatusError(500, "an error on the server has prevented the request from succeeding"))
        is_negotiated = request.path.startswith("/api") or response.status >= 400
        if is_negotiated and response.content_type == JSON_TYPE and response.stream is None:
            _as_yaml(request, response)
        self.health.count(request.method, response.status)
        response.warnings = limited_warnings(request.warnings)
        return response

    async def _respond(self, request: ApiRequest) -> ApiResponse:
        target = parse_path(request.path)
        request.user = self._user(request)
        self.authorizer.check(request.user, _action(request, target))
        if request.receive is None:
            return await self._serve(request, target)
        client = request.client
        if not self.requests.enter(client):
            raise too_many(client, self.requests.most, "requests under way")
        try:
            request.body = await request.receive()
            return await self._serve(request, target)
        finally:
            self.requests.leave(client)

    async def _serve(self, request: ApiRequest, target: RequestTarget) -> ApiResponse:
        """The response to a request that is allowed."""
        extra = self.extra_routes.get((request.method, request.path))
        if extra is not None:
            return await extra.handle(request)
        if target.is_resource:
            return await self.rest.handle(request, target)
        return await self._non_resource(request)

    def _user(self, request: ApiRequest) -> UserInfo:
        """The authenticated user, or the user they impersonate."""
        user = self.authenticator.authenticate(request)
        wanted = impersonated(request)
        if wanted is None:
            return user
        for action in impersonation_actions(request, wanted):
            self.authorizer.check(user, action)
        return wanted

    async def _non_resource(self, request: ApiRequest) -> ApiResponse:
        """The response at a path that is not a resource. Most of them do not care about the method, as upstream."""
        parts = [part for part in request.path.split("/") if part]
        if not parts:
            return self.health.root()
        if parts[0] == "openapi":
            return await self._openapi.handle(request, parts)
        handler = self._non_resource_handlers().get(parts[0])
        if handler is None:
            raise NoSuchPageError
        return handler(request, parts)

    def _non_resource_handlers(self) -> dict[str, Callable[[ApiRequest, list[str]], ApiResponse]]:
        return {
            "api": self._discovery.handle,
            "apis": self._discovery.handle,
            "version": self.health.version,
            "healthz": self.health.check,
            "livez": self.health.check,
            "readyz": self.health.check,
            "metrics": self.health.metrics,
            "flagz": self.health.page,
            "statusz": self.health.page,
            ".well-known": self._issuer.handle,
            "openid": self._issuer.handle,
        }


def _action(request: ApiRequest, target: RequestTarget) -> AccessRequest:
    if not target.is_resource:
        return AccessRequest(verb_of(request, target), path=target.path)
    is_namespace = target.plural == "namespaces" and not target.group
    return AccessRequest(
        verb=verb_of(request, target),
        group=target.group,
        resource=target.plural,
        subresource=target.subresource,
        namespace=target.namespace or (target.name if is_namespace else ""),
        name=target.name or (_selected_name(request) if request.method in ("GET", "HEAD") else ""),
    )


def _selected_name(request: ApiRequest) -> str:
    """The name that a list or watch is narrowed to. A user who may read only that object may list it this way."""
    try:
        fields = split_fields(request.query.get("fieldSelector", ""))
    except StatusError:
        return ""  # reported later, to users who may list
    name = next((value for field, equal, value in fields if equal and field == NAME), "")
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def _as_yaml(request: ApiRequest, response: ApiResponse) -> None:
    """Turn the response into YAML if the client likes that best."""
    if response.body and wants_yaml(request.headers.get("accept", "")):
        response.body, response.content_type = to_yaml(response.body), YAML_TYPE


def refusal(error: StatusError) -> ApiResponse:
    """A refusal as a response."""
    if isinstance(error, NoSuchPageError):
        return ApiResponse(404, b"404 page not found\n", TEXT_TYPE, {"X-Content-Type-Options": "nosniff"})
    headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
    return ApiResponse(error.code, encode(error.status()), headers=headers)
