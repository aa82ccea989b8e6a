"""Certificate requests of clients are signed once somebody with the right has approved them."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubesched.apiserver.admission.certificate_requests import CERTIFICATE_REQUESTS, CLIENT_SIGNER
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.bootstrap_roles import RoleRule
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.wire.request import UserInfo
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.certificates import Authority
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.embedded import ClusterSettings, EmbeddedCluster

PARTS = "certificatesigningrequests/approval certificatesigningrequests/status"
PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
APPROVED = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "x", "message": "y"}]}}


def request(usages: Sequence[str] = ("client auth",), signer: str = CLIENT_SIGNER, group: str = "dev") -> JSON:
    """A request of the user ann, in a group."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, "ann")]
    key = ec.generate_private_key(ec.SECP256R1())
    signed = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    pem = signed.public_bytes(serialization.Encoding.PEM)
    spec = {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": list(usages)}
    return {"metadata": {"name": "ann"}, "spec": {**spec, "expirationSeconds": 3600}}


@virtual_time
async def test_an_approved_request_gets_a_certificate(clock: VirtualClock) -> None:
    """It is for the subject of the request, signed by the cluster's authority, and as short as asked for."""
    api, authority = ApiServer(clock=clock), Authority()
    cluster = EmbeddedCluster(api, ClusterSettings(seed=1), sign_request=authority.sign_request)
    cluster.start()
    client = LocalClient(api)
    await client.create(PATH, request())
    await clock.settle()
    assert not (await client.get(f"{PATH}/ann")).get("status", {}).get("certificate")
    await client.patch(f"{PATH}/ann/approval", APPROVED)
    await clock.settle()
    pem = base64.b64decode((await client.get(f"{PATH}/ann"))["status"]["certificate"])
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.subject.rfc4514_string() == "CN=ann,O=dev"
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate_pem))
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).total_seconds() == 2 * 3600
    await cluster.stop()


@virtual_time
async def test_what_is_no_client_certificate_fails(clock: VirtualClock) -> None:
    """A request with other usages fails, and one of another signer is left to it."""
    api = ApiServer(clock=clock)
    cluster = EmbeddedCluster(api, ClusterSettings(seed=1), sign_request=Authority().sign_request)
    cluster.start()
    client = LocalClient(api)
    await client.create(PATH, request(["client auth", "server auth"]))
    foreign = request(signer="example.com/mine")
    foreign["metadata"]["name"] = "foreign"
    await client.create(PATH, foreign)
    for name in ("ann", "foreign"):
        await client.patch(f"{PATH}/{name}/approval", APPROVED)
    await clock.settle()
    failed = (await client.get(f"{PATH}/ann"))["status"]["conditions"][-1]
    assert (failed["type"], failed["message"]) == ("Failed", "invalid usage for client certificate: server auth")
    assert "certificate" not in (await client.get(f"{PATH}/foreign"))["status"]
    await cluster.stop()


async def test_deciding_needs_a_permission_for_the_signer() -> None:
    """The right to write approvals and statuses is not enough, or its owner could become anybody."""
    api = ApiServer()
    api.bootstrap.grant("write", "eve", RoleRule("patch", "certificates.k8s.io", PARTS))
    eve = LocalClient(api, UserInfo("eve"))
    await LocalClient(api).create(PATH, request())
    with pytest.raises(StatusError, match="user not permitted to approve requests with signerName") as refused:
        await eve.patch(f"{PATH}/ann/approval", APPROVED)
    assert refused.value.code == 403
    with pytest.raises(StatusError, match="user not permitted to sign requests with signerName"):
        await eve.patch(f"{PATH}/ann/status", {"status": {"certificate": "eA=="}})
    api.bootstrap.grant("approve", "eve", RoleRule("approve", "certificates.k8s.io", "signers", "kubernetes.io/*"))
    approved = await eve.patch(f"{PATH}/ann/approval", APPROVED)
    assert approved["status"]["conditions"][0]["type"] == "Approved"


async def test_nobody_becomes_a_master() -> None:
    """A request for the group that may do everything is refused at once."""
    api = ApiServer()
    with pytest.raises(StatusError, match="signer with system:masters group is not allowed"):
        await LocalClient(api).create(PATH, request(group="system:masters"))
    assert not api.store.shelf(CERTIFICATE_REQUESTS).records
