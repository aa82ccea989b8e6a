"""The same words as a real kube-apiserver's, for hundreds of manifests with something wrong."""

from __future__ import annotations

from urllib.parse import parse_qsl

from tests.apiserver.answers import CONFIG_MAP, recorded, refusals, refused, said
from tests.apiserver.support import CONFIG_MAPS

from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.storage.store import decode


async def test_the_words_of_kube_apiserver(client: LocalClient) -> None:
    """Every manifest is accepted or refused with the recorded words, to the letter."""
    answers = recorded()
    assert len(answers) > 290
    differences = []
    for answer in answers:
        response = await client.send("POST", answer.path, answer.object)
        words = said(decode(response.body))
        if (words, response.warnings) != (answer.says, answer.warnings):
            differences.append(f"{answer.object}\n  expected {answer.says or answer.warnings}\n  got {words}")
    assert not differences, "\n".join(differences)


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
