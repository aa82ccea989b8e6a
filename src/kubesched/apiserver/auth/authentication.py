"""Authentication by bearer token, service account token or client certificate. Without any, a user is anonymous.

Static tokens are for the admin's kubeconfig and for tests. A service account's token is valid only while its account,
and the pod, secret or node it is bound to, exist.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from kubesched.apiserver.auth.tokens import BoundObject, Claims, TokenError, Tokens
from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.wire.request import ANONYMOUS_NAME, ApiRequest, UserInfo
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clock import Clock

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
ACCOUNTS = "system:serviceaccounts"
_EXTRA = "authentication.kubernetes.io"
_INVALIDATED = "service account token has been invalidated"

ANONYMOUS = UserInfo(ANONYMOUS_NAME, (UNAUTHENTICATED,))


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
        try:
            return self.user_of_token(token.strip())
        except TokenError:
            raise unauthorized() from None

    def user_of_token(self, token: str, audiences: tuple[str, ...] = ()) -> UserInfo:
        """The user of a token. Raises `TokenError` if it is not valid."""
        for known, user in self._static.items():
            if hmac.compare_digest(known.encode(), token.encode()):
                return _authenticated(user)
        claims = self._tokens.verify(token, self._clock.now(), audiences)
        self._check_objects(claims)
        return self._account_user(claims)

    def _account_user(self, claims: Claims) -> UserInfo:
        extra = {f"{_EXTRA}/credential-id": (f"JTI={claims.id}",)}
        for kind in ("pod", "node"):
            if (bound := claims.bound.get(kind)) is not None:
                extra[f"{_EXTRA}/{kind}-name"] = (bound.name,)
                if bound.uid:
                    extra[f"{_EXTRA}/{kind}-uid"] = (bound.uid,)
        groups = (ACCOUNTS, f"{ACCOUNTS}:{claims.namespace}", AUTHENTICATED)
        return UserInfo(f"system:serviceaccount:{claims.namespace}:{claims.account}", groups, claims.account_uid, extra)

    def _check_objects(self, claims: Claims) -> None:
        """Raise unless the account, and what the token is bound to, still exist."""
        account = BoundObject(claims.account, claims.account_uid)
        if not self._exists("/serviceaccounts", f"{claims.namespace}/", account):
            raise TokenError(f'serviceaccounts "{claims.account}" not found')
        for kind, each in claims.bound.items():
            if kind == "node" and "pod" in claims.bound:
                continue  # says only where the pod was
            if not self._exists(f"/{kind}s", "" if kind == "node" else f"{claims.namespace}/", each):
                raise TokenError(_INVALIDATED)

    def _exists(self, resource: str, prefix: str, wanted: BoundObject) -> bool:
        record = self._store.get(resource, prefix + wanted.name)
        return record is not None and record.load()["metadata"]["uid"] == wanted.uid


def _authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED in user.groups:
        return user
    return UserInfo(user.name, (*user.groups, AUTHENTICATED), user.uid, user.extra)
