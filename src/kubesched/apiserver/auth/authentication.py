"""Authentication by bearer token, service account token or client certificate. Without any, a user is anonymous.

Static tokens are for the admin's kubeconfig and for tests. A service account's token is valid only while its account,
and the pod it is bound to, exist.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from kubesched.apiserver.auth.tokens import Claims, TokenError, Tokens
from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.wire.request import ANONYMOUS_NAME, ApiRequest, UserInfo
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clock import Clock

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ACCOUNTS = "system:serviceaccounts"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


ANONYMOUS = UserInfo(ANONYMOUS_NAME, ("system:unauthenticated",))


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized")


class Authenticator:
    """Identifies the user of a request."""

    def __init__(self, store: Store, tokens: Tokens, static: Mapping[str, UserInfo], clock: Clock) -> None:
        self._store = store
        self._tokens = tokens
        self._clock = clock
        self._static = dict(static)

    def add_token(self, token: str, user: UserInfo) -> None:
        """Accept a bearer token from now on."""
        self._static[token] = user

    def authenticate(self, request: ApiRequest) -> UserInfo:
        """The user; 401 for wrong credentials."""
        if request.certificate is not None:
            return _authenticated(request.certificate)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self.user_of_token(token.strip())
        if user is None:
            raise unauthorized()
        return user

    def user_of_token(self, token: str, audiences: tuple[str, ...] = ()) -> UserInfo | None:
        """The user of a token, or None."""
        for known, user in self._static.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                return _authenticated(user)
        try:
            claims = self._tokens.verify(token, self._clock.now(), audiences)
        except TokenError:
            return None
        return self._account_user(claims) if self._is_valid(claims) else None

    def _account_user(self, claims: Claims) -> UserInfo:
        extra = {_CREDENTIAL: (f"JTI={claims.id}",)}
        if claims.pod_name:
            extra |= {_POD_NAME: (claims.pod_name,), _POD_UID: (claims.pod_uid,)}
        groups = (ACCOUNTS, f"{ACCOUNTS}:{claims.namespace}", AUTHENTICATED)
        return UserInfo(f"system:serviceaccount:{claims.namespace}:{claims.account}", groups, claims.account_uid, extra)

    def _is_valid(self, claims: Claims) -> bool:
        return self._exists("/serviceaccounts", f"{claims.namespace}/{claims.account}", claims.account_uid) and (
            not claims.pod_name or self._exists("/pods", f"{claims.namespace}/{claims.pod_name}", claims.pod_uid)
        )

    def _exists(self, resource: str, key: str, uid: str) -> bool:
        record = self._store.get(resource, key)
        return record is not None and record.load()["metadata"]["uid"] == uid


def _authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED in user.groups:
        return user
    return UserInfo(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
