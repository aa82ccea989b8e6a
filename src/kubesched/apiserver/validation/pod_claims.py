"""Rules for the claims on devices in a pod's spec, and for containers that use them."""

from __future__ import annotations

from kubesched.apiserver.validation.naming import label_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems, shown
from kubesched.base.types import JSON

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def check_pod_claims(spec: JSON, path: str, problems: Problems) -> None:
    """Check the claims of a pod, and that its containers use no others."""
    known = {claim["name"] for claim in spec.get("resourceClaims") or [] if claim.get("name")}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or []):
            used = (container.get("resources") or {}).get("claims") or []
            _check_used(used, known, f"{path}.{kind}[{index}].resources.claims", problems)
    names: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or []):
        _check_claim(claim, names, f"{path}.resourceClaims[{index}]", problems)


def _check_claim(claim: JSON, names: set[str], path: str, problems: Problems) -> None:
    name = claim.get("name") or ""
    if not name:
        problems.required(f"{path}.name")
    elif name in names:
        problems.duplicate(f"{path}.name", name)
    else:
        names.add(name)
        for error in label_errors(name):
            problems.invalid(f"{path}.name", name, error)
    given = [source for source in _SOURCES if claim.get(source) is not None]
    # Upstream's message shows the internal form, with Go's names.
    internal = {"Name": name, **{source[0].upper() + source[1:]: claim.get(source) for source in _SOURCES}}
    if len(given) > 1:
        detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        problems.invalid(path, internal, detail)
    if not given:
        problems.invalid(path, internal, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for source in given:
        for error in subdomain_errors(claim[source]):
            problems.invalid(f"{path}.{source}", claim[source], error)


def _check_used(used: list[JSON], known: set[str], path: str, problems: Problems) -> None:
    seen: set[str] = set()
    for index, claim in enumerate(used):
        name, request, where = claim.get("name") or "", claim.get("request") or "", f"{path}[{index}]"
        if not name:
            problems.required(where)
            continue
        for error in label_errors(request) if request else ():
            problems.invalid(f"{where}.request", request, error)
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen or (not request and any(each.startswith(f"{name}/") for each in seen)):
            problems.duplicate(where, name if name in seen else key)
        seen.add(key)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            problems.add("FieldValueNotFound", where, f"Not found: {shown(name)}: {detail}")
