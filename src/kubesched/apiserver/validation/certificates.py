"""Validation of CertificateSigningRequests and of decisions about them."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from kubesched.apiserver.validation.checks import Check, Comparison, each, too_long
from kubesched.apiserver.validation.naming import label_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_SIGNER_RULE = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
_SHORTEST = 600
_MAX_DOMAIN, _MAX_SIGNER = 253, 571
_STATUSES = ("False", "True", "Unknown")
_DECISIONS = ("Approved", "Denied")
_FINAL = (*_DECISIONS, "Failed")
"""Conditions that are true or absent, and stay."""


def _request(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    if error := _pem_error(spec.get("request") or ""):
        problems.invalid("spec.request", spec.get("request"), error)
    usages = spec.get("usages") or []
    if not usages:
        problems.required("spec.usages")
    for usage, path in each(usages, "spec.usages"):
        if usage not in _USAGES:
            problems.unsupported(path, usage, _USAGES)
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            problems.duplicate(f"spec.usages[{index}]", usage)
    _signer(spec.get("signerName") or "", "spec.signerName", problems)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST:
        detail = f"may not specify a duration less than {_SHORTEST} seconds (10 minutes)"
        problems.invalid("spec.expirationSeconds", seconds, detail)
    _conditions(obj, problems)


def _pem_error(encoded: str) -> str:
    try:
        text = base64.b64decode(encoded)
    except binascii.Error:
        text = b""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in text:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        request = x509.load_pem_x509_csr(text)
        return "" if request.is_signature_valid else "x509: signature is not valid"
    except (ValueError, UnsupportedAlgorithm) as error:
        return f"the request cannot be read: {error}"


def _signer(name: str, path: str, problems: Problems) -> None:
    if not name:
        problems.required(path)
        return
    if name == _LEGACY_SIGNER:
        problems.invalid(path, name, "the legacy signerName is not allowed via this API version")
        return
    if name.count("/") != 1:
        problems.invalid(path, name, _SIGNER_RULE)
        return
    domain, _, rest = name.partition("/")
    if len(domain) > _MAX_DOMAIN:
        too_long(path, _MAX_DOMAIN, problems)
    _labels(domain, label_errors, path, problems)
    if "." not in domain:
        problems.invalid(path, domain, "should be a domain with at least two segments separated by dots")
    _labels(rest, subdomain_errors, path, problems)
    if len(name) > _MAX_SIGNER:
        too_long(path, _MAX_SIGNER, problems)


def _labels(text: str, errors: Any, path: str, problems: Problems) -> None:
    """Check the parts of a name between dots up to the first that is wrong."""
    for label in text.split("."):
        found = list(errors(label))
        for error in found:
            problems.invalid(path, text, f'validating label "{label}": {error}')
        if found:
            return


def _conditions(obj: JSON, problems: Problems) -> None:
    seen: set[str] = set()
    for condition, path in each((obj.get("status") or {}).get("conditions"), "status.conditions"):
        kind, status = condition.get("type") or "", condition.get("status") or ""
        if not kind:
            problems.required(f"{path}.type")
        allowed = ("True",) if kind in _FINAL else _STATUSES
        if not status:
            problems.required(f"{path}.status")
        elif status not in allowed:
            problems.unsupported(f"{path}.status", status, allowed)
        if kind in seen:
            problems.duplicate(f"{path}.type", kind)
        seen.add(kind)
    if set(_DECISIONS) <= seen:
        problems.invalid("status.conditions", "Denied", "Approved and Denied conditions are mutually exclusive")


# --- updates ----------------------------------------------------------------------------------------------------------


def _of_type(obj: JSON, kind: str) -> list[JSON]:
    return [each for each in (obj.get("status") or {}).get("conditions") or [] if each.get("type") == kind]


def _keep_final(old: JSON, new: JSON, problems: Problems) -> None:
    for kind in _FINAL:
        if len(_of_type(new, kind)) < len(_of_type(old, kind)):
            problems.forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"')


def _compare_status(old: JSON, new: JSON, problems: Problems) -> None:
    """The status may get a certificate, but no decision."""
    _request(new, problems)
    _keep_final(old, new, problems)
    for kind in _DECISIONS:
        if len(_of_type(new, kind)) > len(_of_type(old, kind)):
            problems.forbidden("status.conditions", f'updates may not add a condition of type "{kind}"')
    had = (old.get("status") or {}).get("certificate")
    if had and had != (new.get("status") or {}).get("certificate"):
        problems.forbidden("status.certificate", "updates may not modify existing certificate content")


def _compare_approvals(old: JSON, new: JSON, problems: Problems) -> None:
    """A decision about a request stays."""
    _keep_final(old, new, problems)


_KIND = "certificates.k8s.io/certificatesigningrequests"
CHECKS: dict[str, Check] = {_KIND: _request}
STATUS: dict[str, Comparison] = {_KIND: _compare_status}
PARTS: dict[str, Comparison] = {"approval": _compare_approvals}
