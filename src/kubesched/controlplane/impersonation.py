"""Asking in somebody else's name (`kubectl --as`), for those who may: how `auth can-i` is tried out for others."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from kubesched.controlplane.auth import ACCOUNTS, AUTHENTICATED
from kubesched.controlplane.rbac import Action
from kubesched.controlplane.request import Request, User
from kubesched.controlplane.status import bad_request

_USER = "impersonate-user"
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"
_ACCOUNT = "system:serviceaccount:"


def impersonated(request: Request) -> User | None:
    """The user in whose name a request asks, if it names one."""
    headers = request.headers
    name = headers.get(_USER, "")
    if not name:
        if _GROUP in headers or _UID in headers:
            raise bad_request("requested groups, uid or extra without impersonating a user")
        return None
    groups = tuple(group.strip() for group in headers.get(_GROUP, "").split(",") if group.strip())
    if not groups and name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}")
    extra = {
        unquote(header.removeprefix(_EXTRA)): (headers[header],) for header in headers if header.startswith(_EXTRA)
    }
    if AUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(name, groups, headers.get(_UID, ""), extra)


def impersonation_actions(user: User) -> Iterator[Action]:
    """What one has to be allowed in order to ask in this user's name."""
    if user.name.startswith(_ACCOUNT):
        namespace, _, account = user.name.removeprefix(_ACCOUNT).partition(":")
        yield Action("impersonate", resource="serviceaccounts", namespace=namespace, name=account)
    else:
        yield Action("impersonate", resource="users", name=user.name)
    for group in user.groups:
        if group != AUTHENTICATED and not group.startswith(ACCOUNTS):
            yield Action("impersonate", resource="groups", name=group)
    if user.uid:
        yield Action("impersonate", group="authentication.k8s.io", resource="uids", name=user.uid)
