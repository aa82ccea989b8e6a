"""The same words as a real kube-apiserver's, for hundreds of manifests with something wrong."""

from __future__ import annotations

from urllib.parse import parse_qsl

from tests.apiserver.answers import CONFIG_MAP, Answer, recorded, refusals, refused, said, updates
from tests.apiserver.support import CONFIG_MAPS

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.apiserver.rest.patch import MERGE_PATCH
from kubesched.apiserver.storage.store import decode
from kubesched.base.types import JSON

OWN_WARNING = " in this cluster"
"""How warnings end that only the embedded cluster has: what it stores and does nothing with."""


async def test_the_words_of_kube_apiserver(client: LocalClient) -> None:
    """Every manifest is accepted or refused with the recorded words, to the letter."""
    answers = recorded()
    assert len(answers) > 1000
    differences = []
    for answer in answers:
        response = await client.send("POST", answer.path, answer.object)
        words = said(decode(response.body))
        warnings = [each for each in response.warnings if not each.endswith(OWN_WARNING)]
        if (words, warnings) != (answer.says, answer.warnings):
            differences.append(f"{answer.object}\n  expected {answer.says or answer.warnings}\n  got {words}")
    assert not differences, "\n".join(differences)


async def test_the_words_about_updates(client: LocalClient) -> None:
    """Every change of an object or of a part of it is accepted or refused with the recorded words."""
    created: list[JSON] = []
    differences = []
    for update in updates():
        if update.object not in created:
            await client.create(update.collection, update.object)
            created.append(update.object)
        response = await client.send("PATCH", update.path, update.change, content_type=MERGE_PATCH)
        words = said(decode(response.body)).partition("\n")[0]
        if words != update.says:
            differences.append(f"{update.path} {update.change}\n  expected {update.says}\n  got {words}")
    assert not differences, "\n".join(differences)


async def test_what_a_name_alone_is_worth(client: LocalClient) -> None:
    """An object with only a name is accepted for the kinds for which kube-apiserver accepts it, and for no others."""
    accepted = set()
    for resource in BUILT_IN:
        if not resource.is_stored:
            continue
        name = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": {"name": "x"}}
        response = await client.send("POST", Answer(name, "").path, name)
        assert response.status in (201, 422), decode(response.body)
        if response.status == 201:
            accepted.add(resource.kind)
    assert accepted == {
        "ConfigMap",
        "CSIDriver",
        "CSINode",
        "DeviceClass",
        "Endpoints",
        "Event",
        "Lease",
        "LimitRange",
        "MutatingWebhookConfiguration",
        "Namespace",
        "NetworkPolicy",
        "Node",
        "PodDisruptionBudget",
        "PriorityClass",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceQuota",
        "Role",
        "ClusterRole",
        "Secret",
        "ServiceAccount",
        "ValidatingWebhookConfiguration",
    }


async def test_the_refusals_of_kube_apiserver(client: LocalClient) -> None:
    """Wrong options, selectors, bodies, patches and deletions are refused with the recorded code, reason and words."""
    await client.create(CONFIG_MAPS, CONFIG_MAP)
    differences = []
    for refusal in refusals():
        path, _, query = refusal.path.partition("?")
        response = await client.send(
            refusal.method,
            path,
            None if refusal.body is None else refusal.body.encode(),
            query=dict(parse_qsl(query, keep_blank_values=True)),
            content_type=refusal.type,
        )
        got = refused(response.status, decode(response.body))
        if got != refusal.recorded:
            differences.append(f"{refusal.method} {refusal.path} {refusal.body}\n  {refusal.recorded}\n  {got}")
    assert not differences, "\n".join(differences)
