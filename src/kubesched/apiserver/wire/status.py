"""Errors as Kubernetes' Status objects, with the code, reason, details and causes that clients read.

kubectl prints the message, and client-go decides by the reason whether to retry, relist or give up. Both must be
upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubesched.base.client_limits import RETRY_SECONDS
from kubesched.base.types import JSON

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

MODIFIED_MEANWHILE = "the object has been modified; please apply your changes to the latest version and try again"


@dataclass(frozen=True, slots=True)
class Cause:
    """One problem: its kind, a message and the field."""

    reason: str
    message: str
    field: str = ""

    def to_json(self) -> JSON:
        body: JSON = {"reason": self.reason, "message": self.message} if self.reason else {"message": self.message}
        return {**body, "field": self.field} if self.field else body


class StatusError(Exception):
    """A refused request. `status()` is the response body."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: JSON | None = None,
        causes: Sequence[Cause] = (),
        retry_after: int = 0,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.continue_token = continue_token
        self.code = code
        self.message = message
        self.reason = _REASONS.get(code, "InternalError") if reason is None else reason
        self.retry_after = retry_after
        self.causes = tuple(causes)
        self._details = details

    def status(self) -> JSON:
        """The Status object."""
        details = dict(self._details or {})
        if self.causes:
            details["causes"] = [cause.to_json() for cause in self.causes]
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        body: JSON = {"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if details or self._details is not None:
            body["details"] = details
        return {**body, "code": self.code}


def success(name: str, group: str, plural: str, uid: str) -> JSON:
    """The response to a deletion that does not return the object."""
    details = {"name": name, "kind": plural, "uid": uid}
    if group:
        details["group"] = group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def created() -> JSON:
    """The response of a subresource that returns no object, such as a binding."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def qualified(plural: str, group: str) -> str:
    """A resource as messages name it: ``pods``, ``deployments.apps``."""
    return f"{plural}.{group}" if group else plural


def _details(plural: str, group: str, name: str) -> JSON:
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def too_many(client: str, most: int, what: str) -> StatusError:
    """A client has reached a limit of this server."""
    message = (
        f"{client} has {most} {what}, the most that this server allows one client: wait until one of them has ended"
    )
    return StatusError(429, message, retry_after=RETRY_SECONDS)


def bad_request(message: str) -> StatusError:
    return StatusError(400, message)


def not_found(plural: str, group: str, name: str) -> StatusError:
    message = f'{qualified(plural, group)} "{name}" not found'
    return StatusError(404, message, details=_details(plural, group, name))


def no_such_path() -> StatusError:
    """The refusal at an unknown path of a group and version that is served."""
    return StatusError(404, "the server could not find the requested resource", details={})


class NoSuchPageError(StatusError):
    """The refusal at any other unknown path. Over HTTP it is plain text, as upstream."""

    def __init__(self) -> None:
        super().__init__(404, "the server could not find the requested resource", details={})


def already_exists(plural: str, group: str, name: str, *, terminating: bool = False) -> StatusError:
    message = f'{qualified(plural, group)} "{name}" already exists'
    if terminating:
        message = f"object is being deleted: {message}"
    return StatusError(409, message, reason="AlreadyExists", details=_details(plural, group, name))


def conflict(plural: str, group: str, name: str, why: str = MODIFIED_MEANWHILE) -> StatusError:
    message = f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}'
    return StatusError(409, message, details=_details(plural, group, name))


def forbidden(plural: str, group: str, name: str, why: str, causes: Sequence[Cause] = ()) -> StatusError:
    named = f' "{name}"' if name else ""
    message = f"{qualified(plural, group)}{named} is forbidden: {why}"
    return StatusError(403, message, details=_details(plural, group, name), causes=causes)


def method_not_allowed() -> StatusError:
    return StatusError(405, "the server does not allow this method on the requested resource", details={})


def expired(version: int, oldest: int) -> StatusError:
    return StatusError(410, f"too old resource version: {version} ({oldest})", reason="Expired")


_TOO_OLD = "The provided continue parameter is too old to display a consistent list result. You"
_START_OVER = f"{_TOO_OLD} must start a new list without the continue parameter."
_GO_ON = (
    f"{_TOO_OLD} can start a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list -"
    " objects that were created, modified, or deleted between the time the first chunk was returned and now may show up"
    " in the list."
)


def continue_expired(token: str = "") -> StatusError:
    """Refuse a continue token. `token` continues with the newest objects instead."""
    return StatusError(410, _GO_ON if token else _START_OVER, reason="Expired", continue_token=token)


def version_too_large(wanted: int, current: int) -> StatusError:
    cause = Cause("ResourceVersionTooLarge", "Too large resource version")
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return StatusError(504, message, causes=(cause,), retry_after=1)


def invalid(kind: str, group: str, name: str, problems: Sequence[Cause]) -> StatusError:
    """422: the object is well-formed but breaks rules. Upstream joins several problems in brackets, each once."""
    texts = list(dict.fromkeys(f"{problem.field}: {problem.message}" for problem in problems))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified_kind = f"{kind}.{group}" if group else kind
    message = f'{qualified_kind} "{name}" is invalid: {joined}'
    details = {"name": name, "group": group, "kind": kind}
    return StatusError(422, message, details={k: v for k, v in details.items() if v}, causes=problems)
