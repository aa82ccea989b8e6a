"""The same words as a real kube-apiserver's, for hundreds of manifests with something wrong."""

from __future__ import annotations

from tests.apiserver.answers import recorded, said

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
