"""Token reviews, access reviews and token requests. Nothing is stored.

Schedulers, kubelets and `kubectl auth can-i` send them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.apiserver.auth.authentication import Authenticator
from kubesched.apiserver.auth.rbac import AccessRequest, Authorizer, PolicyRule
from kubesched.apiserver.auth.tokens import ISSUER, UNKNOWN, BoundObject, Claims, TokenError, Tokens
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.meta import timestamp
from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.request import UserInfo
from kubesched.apiserver.wire.status import bad_request, conflict, invalid, not_found
from kubesched.base.clock import Clock
from kubesched.base.types import JSON

_DEFAULT_SECONDS = 3600
_MIN_SECONDS = 600
_MAX_SECONDS = 1 << 32
_GROUP = "authentication.k8s.io"
_BOUND = {"Pod": "/pods", "Secret": "/secrets", "Node": "/nodes"}


class Reviews:
    """Serves TokenReview, the access reviews and TokenRequest."""

    def __init__(
        self, store: Store, authenticator: Authenticator, authorizer: Authorizer, tokens: Tokens, clock: Clock
    ) -> None:
        self._store = store
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens
        self._clock = clock
        self._answers: dict[str, Callable[[str, JSON, UserInfo], JSON]] = {
            "TokenReview": self._token_review,
            "SelfSubjectReview": self._self_review,
            "SubjectAccessReview": self._access_review,
            "LocalSubjectAccessReview": self._local_access_review,
            "SelfSubjectAccessReview": self._self_access_review,
            "SelfSubjectRulesReview": self._rules_review,
        }

    def review(self, resource: ApiResource, namespace: str, obj: JSON, user: UserInfo) -> JSON:
        """The review with its status filled in."""
        meta = obj.get("metadata") or {}
        # As upstream, of all reviews only this one says when it was made.
        made = timestamp(self._clock.now()) if resource.kind == "SelfSubjectReview" else None
        obj["metadata"] = {**meta, "creationTimestamp": made}
        return {**obj, "status": self._answers[resource.kind](namespace, obj, user)}

    # --- authentication -----------------------------------------------------------------------------------------------

    def _token_review(self, _namespace: str, obj: JSON, _user: UserInfo) -> JSON:
        spec = obj.get("spec") or {}
        token, audiences = spec.get("token") or "", tuple(spec.get("audiences") or ())
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        try:
            user = self._authenticator.user_of_token(token, audiences)
        except TokenError as error:
            # Upstream has two authenticators of tokens. The first knows none of those of service accounts.
            return {"user": {}, "error": UNKNOWN if str(error) == UNKNOWN else f"[{UNKNOWN}, {error}]"}
        return {"authenticated": True, "user": _user_info(user), "audiences": list(audiences or (ISSUER,))}

    def _self_review(self, _namespace: str, _obj: JSON, user: UserInfo) -> JSON:
        return {"userInfo": _user_info(user)}

    def request_token(self, account: JSON, request: JSON) -> JSON:
        """The requested token for a service account."""
        spec = request.get("spec") or {}
        meta = account["metadata"]
        self._check_account(request.get("metadata") or {}, meta)
        seconds = spec.get("expirationSeconds")
        seconds = _DEFAULT_SECONDS if seconds is None else seconds
        self._check_seconds(seconds)
        audiences = tuple(spec.get("audiences") or (ISSUER,))
        bound = self._bound(meta["namespace"], meta["name"], spec.get("boundObjectRef"))
        claims = Claims(meta["namespace"], meta["name"], meta["uid"], bound=bound, audiences=audiences)
        now = self._clock.now()
        status = {
            "token": self._tokens.sign(claims, now, seconds),
            "expirationTimestamp": timestamp(now + seconds),
        }
        identity = {field: meta[field] for field in ("name", "namespace", "uid")}
        given = {**identity, "creationTimestamp": timestamp(now)}
        completed = {**spec, "audiences": list(audiences), "expirationSeconds": seconds}
        completed.setdefault("boundObjectRef", None)
        return {**request, "metadata": given, "spec": completed, "status": status}

    def _check_account(self, given: JSON, account: JSON) -> None:
        """Refuse a request that names another account than its path."""
        for field in ("name", "namespace"):
            if given.get(field) not in (None, "", account[field]):
                problems = Problems()
                rule = f"must match the service account {field} if specified"
                problems.invalid(f"metadata.{field}", given[field], rule)
                raise invalid("TokenRequest", _GROUP, account["name"], problems.found)
        uid = given.get("uid")
        if uid not in (None, "", account["uid"]):
            why = f"the UID in the token request ({uid}) does not match the UID of the service account"
            raise conflict("TokenRequest", _GROUP, account["name"], f"{why} ({account['uid']})")

    def _check_seconds(self, seconds: Any) -> None:
        problems = Problems()
        if seconds < _MIN_SECONDS:
            problems.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        if seconds > _MAX_SECONDS:
            problems.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
        if problems.found:
            raise invalid("TokenRequest", _GROUP, "", problems.found)

    def _bound(self, namespace: str, account: str, reference: JSON | None) -> dict[str, BoundObject]:
        """What a token is bound to: a pod with its node, a secret or a node."""
        if not reference:
            return {}
        version, kind, name = (reference.get(field) or "" for field in ("apiVersion", "kind", "name"))
        group = version.rpartition("/")[0]
        if group or kind not in _BOUND:
            described = f"{group}/{version.rpartition('/')[2]}, Kind={kind}"
            raise bad_request(f"cannot bind token to object of type {described}")
        record = self._store.get(_BOUND[kind], name if kind == "Node" else f"{namespace}/{name}")
        if record is None:
            raise not_found(f"{kind.lower()}s", "", name)
        found = record.load()
        bound = {kind.lower(): BoundObject(name, found["metadata"]["uid"])}
        if kind == "Pod":
            bound |= self._node_of(found, account)
        if reference.get("uid") not in (None, "", found["metadata"]["uid"]):
            why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record"
            raise conflict(kind, "", name, f"{why}. The object might have been deleted and then recreated")
        return bound

    def _node_of(self, pod: JSON, account: str) -> dict[str, BoundObject]:
        if pod["spec"].get("serviceAccountName") != account:
            raise bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        name = pod["spec"].get("nodeName", "")
        node = self._store.get("/nodes", name)
        return {"node": BoundObject(name, node.load()["metadata"]["uid"] if node else "")} if name else {}

    # --- authorization ------------------------------------------------------------------------------------------------

    def _access_review(self, _namespace: str, obj: JSON, _user: UserInfo) -> JSON:
        spec = obj.get("spec") or {}
        if not spec.get("user") and not spec.get("groups"):
            problems = Problems()
            problems.invalid("spec.user", "", "at least one of user or group must be specified")
            raise invalid(obj["kind"], "authorization.k8s.io", "", problems.found)
        subject = UserInfo(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "")
        return self._verdict(subject, spec, obj["kind"])

    def _local_access_review(self, namespace: str, obj: JSON, user: UserInfo) -> JSON:
        wanted = ((obj.get("spec") or {}).get("resourceAttributes") or {}).get("namespace")
        if wanted != namespace:
            raise bad_request(f"namespace {wanted!r} of the review does not match that of the request, {namespace!r}")
        return self._access_review(namespace, obj, user)

    def _self_access_review(self, _namespace: str, obj: JSON, user: UserInfo) -> JSON:
        return self._verdict(user, obj.get("spec") or {}, obj["kind"])

    def _verdict(self, user: UserInfo, spec: JSON, kind: str) -> JSON:
        allowed = self._authorizer.allows(user, _action(spec, kind))
        return {"allowed": allowed}

    def _rules_review(self, _namespace: str, obj: JSON, user: UserInfo) -> JSON:
        namespace = (obj.get("spec") or {}).get("namespace") or ""
        if not namespace:
            raise bad_request("no namespace on request")
        rules = list(self._authorizer.rules_of(user, namespace))
        return {
            "resourceRules": [_resource_rule(rule) for rule in rules if not rule.paths],
            "nonResourceRules": [
                {"verbs": sorted(rule.verbs), "nonResourceURLs": list(rule.paths)} for rule in rules if rule.paths
            ],
            "incomplete": False,
        }


def _resource_rule(rule: PolicyRule) -> JSON:
    body: JSON = {
        "verbs": sorted(rule.verbs),
        "apiGroups": sorted(rule.groups),
        "resources": sorted(rule.resources),
    }
    return {**body, "resourceNames": sorted(rule.names)} if rule.names else body


def _action(spec: JSON, kind: str) -> AccessRequest:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        problems = Problems()
        problems.invalid(
            "spec.resourceAttributes",
            None,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )
        raise invalid(kind, "authorization.k8s.io", "", problems.found)
    if path is not None:
        return AccessRequest(path.get("verb") or "", path=path.get("path") or "/")
    attributes = resource or {}
    return AccessRequest(
        verb=attributes.get("verb") or "",
        group=attributes.get("group") or "",
        resource=attributes.get("resource") or "",
        subresource=attributes.get("subresource") or "",
        namespace=attributes.get("namespace") or "",
        name=attributes.get("name") or "",
    )


def _user_info(user: UserInfo) -> JSON:
    info: JSON = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
