"""The recorded responses of a real kube-apiserver to manifests, most of them with mistakes.

`answers.jsonl` has a manifest and the answer of kube-apiserver 1.36 on each line; no words mean that it was accepted.
`tests/apiserver/test_answers.py` holds our server to it, `tests/e2e/test_answers.py` the real one.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.base.types import JSON

_RESOURCES = {(resource.group_version, resource.kind): resource for resource in BUILT_IN}


class Answer(msgspec.Struct):
    """A manifest and what was said about it."""

    object: JSON
    says: str
    warnings: list[str] = []

    @property
    def path(self) -> str:
        """The path of a dry run."""
        resource = _RESOURCES[self.object["apiVersion"], self.object["kind"]]
        root = f"/apis/{resource.group_version}" if resource.group else "/api/v1"
        scope = "/namespaces/default" if resource.namespaced else ""
        return f"{root}{scope}/{resource.plural}?dryRun=All&fieldValidation=Strict"


def recorded() -> list[Answer]:
    """The recording."""
    lines = (Path(__file__).parent / "answers.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Answer) for line in lines]


def said(body: JSON) -> str:
    """The message of a response: that of a Status, empty if it is the object."""
    return str(body["message"]) if body.get("kind") == "Status" else ""
