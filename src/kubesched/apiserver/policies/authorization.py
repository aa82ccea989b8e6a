"""The variable `authorizer` of expressions: whether the user of a request may do something else as well."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kubesched.apiserver.auth.rbac import AccessRequest, Authorizer
from kubesched.apiserver.validation.naming import label_errors, subdomain_errors
from kubesched.apiserver.wire.request import UserInfo
from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.types import Type, object_type
from kubesched.cel.values import register

library = Library()
define = library.define
_PREFIX = "kubernetes.authorization"


@dataclass(frozen=True, slots=True)
class UserAuthorizer:
    """Checks what one user may do."""

    authorizer: Authorizer
    user: UserInfo


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """A check about resources of a group."""

    subject: UserAuthorizer
    group: str


@dataclass(frozen=True, slots=True)
class PathCheck:
    """A check about a path that is not a resource."""

    subject: UserAuthorizer
    access: AccessRequest


class ResourceCheck(PathCheck):
    """A check about a resource, with the parts that were given so far."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The result of a check."""

    allowed: bool


for _kind, _name in (
    (UserAuthorizer, "Authorizer"),
    (GroupCheck, "GroupCheck"),
    (PathCheck, "PathCheck"),
    (ResourceCheck, "ResourceCheck"),
    (AccessDecision, "Decision"),
):
    register(_kind, f"{_PREFIX}.{_name}")

VARIABLES: dict[str, Type] = {
    "authorizer": object_type(f"{_PREFIX}.Authorizer", {}),
    "authorizer.requestResource": object_type(f"{_PREFIX}.ResourceCheck", {}),
}


def _declare(**declarations: str) -> dict[str, str]:
    """Declarations in which ``@`` stands for the prefix of the types."""
    return {overload: text.replace("@", f"{_PREFIX}.") for overload, text in declarations.items()}


@define(**_declare(authorizer_path="@Authorizer.path(string) -> @PathCheck"))
def path(subject: UserAuthorizer, text: str) -> PathCheck:
    if not text.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(subject, AccessRequest("", path=text))


@define(**_declare(authorizer_group="@Authorizer.group(string) -> @GroupCheck"))
def group(subject: UserAuthorizer, name: str) -> GroupCheck:
    return GroupCheck(subject, name)


@define(**_declare(authorizer_serviceaccount="@Authorizer.serviceAccount(string, string) -> @Authorizer"))
def service_account(subject: UserAuthorizer, namespace: str, name: str) -> UserAuthorizer:
    for error in label_errors(namespace):
        raise EvaluationError(f"invalid service account namespace: {error}")
    for error in subdomain_errors(name):
        raise EvaluationError(f"invalid service account name: {error}")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return replace(subject, user=UserInfo(f"system:serviceaccount:{namespace}:{name}", groups))


@define(**_declare(groupcheck_resource="@GroupCheck.resource(string) -> @ResourceCheck"))
def resource(check: GroupCheck, name: str) -> ResourceCheck:
    if not name.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.subject, AccessRequest("", group=check.group, resource=name))


@define(**_declare(resourcecheck_subresource="@ResourceCheck.subresource(string) -> @ResourceCheck"))
def subresource(check: ResourceCheck, name: str) -> ResourceCheck:
    return replace(check, access=replace(check.access, subresource=name))


@define(**_declare(resourcecheck_namespace="@ResourceCheck.namespace(string) -> @ResourceCheck"))
def namespace(check: ResourceCheck, name: str) -> ResourceCheck:
    return replace(check, access=replace(check.access, namespace=name))


@define(**_declare(resourcecheck_name="@ResourceCheck.name(string) -> @ResourceCheck"))
def named(check: ResourceCheck, name: str) -> ResourceCheck:
    return replace(check, access=replace(check.access, name=name))


@define(
    **_declare(
        resourcecheck_fieldselector="@ResourceCheck.fieldSelector(string) -> @ResourceCheck",
        resourcecheck_labelselector="@ResourceCheck.labelSelector(string) -> @ResourceCheck",
    )
)
def selected(check: ResourceCheck, _selector: str) -> ResourceCheck:
    """RBAC knows no selectors: permission for all objects includes those that are selected."""
    return check


@define(
    **_declare(
        pathcheck_check="@PathCheck.check(string) -> @Decision",
        resourcecheck_check="@ResourceCheck.check(string) -> @Decision",
    )
)
def checked(check: PathCheck, verb: str) -> AccessDecision:
    subject = check.subject
    return AccessDecision(subject.authorizer.allows(subject.user, replace(check.access, verb=verb)))


@define(**_declare(decision_allowed="@Decision.allowed() -> bool"))
def allowed(decision: AccessDecision) -> bool:
    return decision.allowed


@define(**_declare(decision_errored="@Decision.errored() -> bool"))
def errored(_decision: AccessDecision) -> bool:
    return False


@define(**_declare(decision_error="@Decision.error() -> string", decision_reason="@Decision.reason() -> string"))
def no_text(_decision: AccessDecision) -> str:
    """Decisions here never fail, and RBAC gives no reason when it does not allow something."""
    return ""
