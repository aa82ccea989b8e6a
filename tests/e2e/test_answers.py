"""The recording that our API server is held to is what the real one says."""

from __future__ import annotations

import json

from tests.apiserver.answers import recorded, said
from tests.e2e.control_plane import ControlPlane


def test_the_recorded_answers_are_kube_apiservers(plane: ControlPlane) -> None:
    """Every recorded manifest is answered by kube-apiserver with the recorded words."""
    differences = []
    for answer in recorded():
        words = said(json.loads(plane.admin.ask("POST", answer.path, answer.object)[1]))
        if words != answer.says:
            differences.append(f"{answer.object}\n  recorded {answer.says}\n  says {words}")
    assert not differences, "\n".join(differences)
