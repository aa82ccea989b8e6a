"""Impersonation (`kubectl --as`), for users who may."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from kubesched.apiserver.auth.authentication import ACCOUNTS, ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED
from kubesched.apiserver.auth.rbac import AccessRequest
from kubesched.apiserver.wire.request import ApiRequest, UserInfo
from kubesched.apiserver.wire.status import bad_request

_USER = "impersonate-user"
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATION = "authentication.k8s.io"


def impersonated(request: ApiRequest) -> UserInfo | None:
    """The user that a request impersonates, or None."""
    headers = request.headers
    name = headers.get(_USER, "")
    if not name:
        if _GROUP in headers or _UID in headers or any(header.startswith(_EXTRA) for header in headers):
            raise bad_request("requested groups, uid or extra without impersonating a user")
        return None
    groups = _groups(request)
    if not groups and name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}")
    extra = {
        unquote(header.removeprefix(_EXTRA)): (headers[header],) for header in headers if header.startswith(_EXTRA)
    }
    return UserInfo(name, _with_everybody(name, groups), headers.get(_UID, ""), extra)


def _with_everybody(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """With the group of all users who logged in, or of those who did not."""
    if UNAUTHENTICATED in groups:
        return groups
    if name == ANONYMOUS.name:
        return (*groups, UNAUTHENTICATED)
    return groups if AUTHENTICATED in groups else (*groups, AUTHENTICATED)


def impersonation_actions(request: ApiRequest, user: UserInfo) -> Iterator[AccessRequest]:
    """The rights needed to impersonate this user. Groups that the request does not name need none."""
    if user.name.startswith(_ACCOUNT):
        namespace, _, account = user.name.removeprefix(_ACCOUNT).partition(":")
        yield AccessRequest("impersonate", resource="serviceaccounts", namespace=namespace, name=account)
    else:
        yield AccessRequest("impersonate", resource="users", name=user.name)
    for group in _groups(request):
        yield AccessRequest("impersonate", resource="groups", name=group)
    for key, values in user.extra.items():
        for value in values:
            yield AccessRequest("impersonate", _AUTHENTICATION, "userextras", key, name=value)
    if user.uid:
        yield AccessRequest("impersonate", _AUTHENTICATION, "uids", name=user.uid)


def _groups(request: ApiRequest) -> tuple[str, ...]:
    return tuple(group.strip() for group in request.headers.get(_GROUP, "").split(",") if group.strip())
