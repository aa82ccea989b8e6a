"""The recordings that our API server is held to are what the real one says."""

from __future__ import annotations

import json

from tests.apiserver.answers import CONFIG_MAP, recorded, refusals, refused, said, updates
from tests.e2e.api import JSON
from tests.e2e.control_plane import ControlPlane

MERGE_PATCH = "application/merge-patch+json"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def test_the_recorded_answers_are_kube_apiservers(plane: ControlPlane) -> None:
    """Every recorded manifest, update and wrong request is answered by kube-apiserver with the recorded words."""
    differences = []
    for answer in recorded():
        words = said(json.loads(plane.admin.ask("POST", answer.path, answer.object)[1]))
        if words != answer.says:
            differences.append(f"{answer.object}\n  recorded {answer.says}\n  says {words}")
    created: list[JSON] = []
    for update in updates():
        if update.object not in created:
            plane.admin.post(update.collection, update.object)
            created.append(update.object)
        words = said(json.loads(plane.admin.ask("PATCH", update.path, update.change, MERGE_PATCH)[1]))
        if words.partition("\n")[0] != update.says:
            differences.append(f"{update.path} {update.change}\n  recorded {update.says}\n  says {words}")
    plane.admin.post(CONFIG_MAPS, CONFIG_MAP)
    for refusal in refusals():
        body = None if refusal.body is None else refusal.body.encode()
        code, text = plane.admin.ask(refusal.method, refusal.path, body, refusal.type)
        if (got := refused(code, json.loads(text))) != refusal.recorded:
            differences.append(f"{refusal.method} {refusal.path}\n  recorded {refusal.recorded}\n  says {got}")
    assert not differences, "\n".join(differences)
