"""Validation of webhook configurations and of APIServices."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from kubesched.apiserver.policies.expressions import Expressions
from kubesched.apiserver.validation.checks import Check, each
from kubesched.apiserver.validation.containers import one_of
from kubesched.apiserver.validation.naming import (
    host_label_errors,
    qualified_host_errors,
    subdomain_errors,
)
from kubesched.apiserver.validation.policies import check_conditions, check_resource_rule
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import check_label_selector
from kubesched.base.types import JSON

_GROUP = "admissionregistration.k8s.io"
_CHOICES = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
}
_REINVOCATION = ("IfNeeded", "Never")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_SELECTORS = ("namespaceSelector", "objectSelector")
_PORT_RULE = "port is not valid: must be between 1 and 65535, inclusive"
_FORM = "; desired format: https://host[/path]"


def _configuration(obj: JSON, problems: Problems) -> None:
    names: set[str] = set()
    for hook, path in each(obj.get("webhooks"), "webhooks"):
        _webhook(hook, path, problems)
        _versions(hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions", problems)
        name = hook.get("name") or ""
        if name and name in names:
            problems.duplicate(f"{path}.name", name)
        names.add(name)


def _webhook(hook: JSON, path: str, problems: Problems) -> None:
    name = hook.get("name") or ""
    if not name:
        problems.required(f"{path}.name")
    for error in qualified_host_errors(name, 3) if name else ():
        problems.invalid(f"{path}.name", name, error)
    for rule, where in each(hook.get("rules"), f"{path}.rules"):
        check_resource_rule(rule, where, problems)
    for field, known in _CHOICES.items():
        one_of(hook, field, known, path, problems)
    if hook.get("sideEffects") is None:
        problems.required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    one_of(hook, "sideEffects", _SIDE_EFFECTS, path, problems)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        problems.invalid(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
    for field in _SELECTORS:
        check_label_selector(hook.get(field), f"{path}.{field}", problems)
    one_of(hook, "reinvocationPolicy", _REINVOCATION, path, problems)
    check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig", problems)
    check_conditions(hook.get("matchConditions") or [], Expressions(False), f"{path}.matchConditions", problems)


def check_client(config: JSON, path: str, problems: Problems) -> None:
    """Check where a webhook is called."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        problems.required(path, "exactly one of url or service is required")
    elif url is not None:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            problems.required(f"{path}.url", f"url must be a valid URL: {error}{_FORM}")
            return
        for value, problem in _url_errors(parts):
            problems.invalid(f"{path}.url", value, problem)
    elif service is not None:
        check_service(service, f"{path}.service", problems)


def _url_errors(parts: SplitResult) -> Iterator[tuple[str, str]]:
    """The problems of the address of a webhook: the wrong part and what is wrong."""
    if parts.scheme != "https":
        yield parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"
    if not parts.netloc:
        yield "", f"host must be specified{_FORM}"
    if "@" in parts.netloc:
        yield parts.netloc.rpartition("@")[0], "user information is not permitted in the URL"
    if parts.fragment:
        yield parts.fragment, "fragments are not permitted in the URL"
    if parts.query:
        yield parts.query, "query parameters are not permitted in the URL"


def check_service(service: JSON, path: str, problems: Problems) -> None:
    """Check the service that answers for a webhook or a group of APIs."""
    # Upstream confuses the two: a missing name is reported for the namespace, and the other way round.
    for field, blamed in (("namespace", "name"), ("name", "namespace")):
        if not service.get(field):
            problems.required(f"{path}.{blamed}")
    port = service.get("port") or 0
    if not 0 < port < 65536:
        problems.invalid(f"{path}.port", port, _PORT_RULE)
    text, where = service.get("path") or "/", f"{path}.path"
    if not text.startswith("/"):
        problems.invalid(where, text, "must start with a '/'")
    for index, segment in enumerate(text[1:].removesuffix("/").split("/") if text != "/" else ()):
        if not segment:
            problems.invalid(where, text, f"segment[{index}] may not be empty")
        for error in subdomain_errors(segment) if segment else ():
            problems.invalid(where, text, f"segment[{index}]: {error}")


def _versions(versions: list[str], path: str, problems: Problems) -> None:
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        problems.required(path, f"must specify one of {known}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            problems.invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        for error in host_label_errors(version):
            problems.invalid(f"{path}[{index}]", version, error)
    if not set(versions) & set(_REVIEW_VERSIONS):
        problems.invalid(path, versions, f"must include at least one of {known}")


# --- APIServices ------------------------------------------------------------------------------------------------------


def _api_service(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    group, version, name = spec.get("group") or "", spec.get("version") or "", obj["metadata"].get("name") or ""
    expected = f"{version}.{group}"
    if name and name != expected and "/" not in name and "%" not in name:
        detail = f'must be `spec.version+"."+spec.group`: "{expected}"'
        problems.invalid("metadata.name", name, detail)
    if not group:
        if version != "v1":
            problems.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    else:
        for error in subdomain_errors(group):
            problems.invalid("spec.group", group, error)
    for error in host_label_errors(version):
        problems.invalid("spec.version", version, error)
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        number = spec.get(field) or 0
        if not 0 < number <= most:
            problems.invalid(f"spec.{field}", number, f"must be positive and less than {most}")
    service = spec.get("service")
    if service is None:
        if spec.get("caBundle"):
            problems.invalid("spec.caBundle", "<caBundle>", "local APIServices may not have a caBundle")
        if spec.get("insecureSkipTLSVerify"):
            field = "spec.insecureSkipTLSVerify"
            problems.invalid(field, True, "local APIServices may not have insecureSkipTLSVerify")
        return
    for field in ("namespace", "name"):
        if not service.get(field):
            problems.required(f"spec.service.{field}")
    port = service.get("port")
    if port is not None and not 0 < port < 65536:
        problems.invalid("spec.service.port", port, _PORT_RULE)
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        problems.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


CHECKS: dict[str, Check] = {
    f"{_GROUP}/validatingwebhookconfigurations": _configuration,
    f"{_GROUP}/mutatingwebhookconfigurations": _configuration,
    "apiregistration.k8s.io/apiservices": _api_service,
}
