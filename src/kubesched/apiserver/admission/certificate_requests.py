"""Who may decide about certificate requests, as upstream: permission to write them is not enough.

A certificate gives its owner the rights of another user, so approving and signing need a permission for the signer.
"""

from __future__ import annotations

import base64

from cryptography import x509
from cryptography.x509.oid import NameOID

from kubesched.apiserver.auth.authentication import MASTERS
from kubesched.apiserver.auth.rbac import AccessRequest, Authorizer
from kubesched.apiserver.policies.attributes import SERVER, AdmissionAttributes
from kubesched.apiserver.wire.status import StatusError, forbidden
from kubesched.base.types import JSON

CERTIFICATE_REQUESTS = "certificates.k8s.io/certificatesigningrequests"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_GROUP = "certificates.k8s.io"


class CertificateRequests:
    """Refuses decisions about requests of a signer that the user may not decide for."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, attributes: AdmissionAttributes) -> None:
        """Refuse a write of a certificate request that its author may not make."""
        old, new = attributes.old, attributes.obj
        if new is None or attributes.user is SERVER:
            return
        if old is None:
            _check_subject(new)
        elif attributes.subresource == "approval" and not self._may("approve", attributes):
            raise _refused(old, f'user not permitted to approve requests with signerName "{_signer(old)}"')
        elif attributes.subresource == "status" and _is_decided(old, new) and not self._may("sign", attributes):
            raise _refused(old, f'user not permitted to sign requests with signerName "{_signer(old)}"')

    def _may(self, verb: str, attributes: AdmissionAttributes) -> bool:
        signer = _signer(attributes.old or {})
        names = (signer, f"{signer.partition('/')[0]}/*")
        actions = (AccessRequest(verb, _GROUP, "signers", name=name) for name in names)
        return any(self._authorizer.allows(attributes.user, action) for action in actions)


def _check_subject(obj: JSON) -> None:
    """Nobody becomes a member of the group that may do everything by a certificate."""
    if _signer(obj) != CLIENT_SIGNER:
        return
    request = x509.load_pem_x509_csr(base64.b64decode(obj["spec"]["request"]))
    if MASTERS in (each.value for each in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)):
        raise _refused(obj, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")


def _is_decided(old: JSON, new: JSON) -> bool:
    """Whether a change of status issues a certificate or says that none can be issued."""
    before, after = old.get("status") or {}, new.get("status") or {}
    conditions = [
        [each for each in status.get("conditions") or [] if each["type"] == "Failed"] for status in (before, after)
    ]
    return before.get("certificate") != after.get("certificate") or conditions[0] != conditions[1]


def _signer(obj: JSON) -> str:
    return (obj.get("spec") or {}).get("signerName") or ""


def _refused(obj: JSON, why: str) -> StatusError:
    return forbidden("certificatesigningrequests", _GROUP, obj["metadata"].get("name", ""), why)
