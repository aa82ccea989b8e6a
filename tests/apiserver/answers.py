"""The recorded responses of a real kube-apiserver to manifests, most of them with mistakes.

`answers.jsonl` has a manifest and the answer of kube-apiserver 1.36 on each line; no words mean that it was accepted.
`updates.jsonl` has objects, a merge patch for each, and the answer up to the first line break: what follows shows Go's
structures. `refusals.jsonl` has other wrong requests, for the ConfigMap `cm1`: options, selectors, patches, deletions.
`tests/apiserver/test_answers.py` holds our server to all of them, `tests/e2e/test_answers.py` the real one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.base.types import JSON

T = TypeVar("T")
CONFIG_MAP: JSON = {"metadata": {"name": "cm1"}, "data": {"foo": "bar"}}
"""The object that the refused requests are for."""
_RESOURCES = {(resource.group_version, resource.kind): resource for resource in BUILT_IN}


class Answer(msgspec.Struct):
    """A manifest and what was said about it."""

    object: JSON
    says: str
    warnings: list[str] = []

    @property
    def path(self) -> str:
        """The path of a dry run."""
        return f"{_collection(self.object)}?dryRun=All&fieldValidation=Strict"


class Update(msgspec.Struct):
    """An object, a change to it and what was said about the change."""

    object: JSON
    change: JSON
    says: str
    subresource: str = ""

    @property
    def collection(self) -> str:
        """Where the object is created."""
        return _collection(self.object)

    @property
    def path(self) -> str:
        """The path of a dry run of the change."""
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.collection}/{self.object['metadata']['name']}{part}?dryRun=All"


def _collection(obj: JSON) -> str:
    resource = _RESOURCES[obj["apiVersion"], obj["kind"]]
    root = f"/apis/{resource.group_version}" if resource.group else "/api/v1"
    scope = "/namespaces/default" if resource.namespaced else ""
    return f"{root}{scope}/{resource.plural}"


class Refusal(msgspec.Struct):
    """A request that kube-apiserver refuses, and the refusal."""

    method: str
    path: str
    code: int
    reason: str
    says: str
    type: str = "application/json"
    body: str | None = None

    @property
    def recorded(self) -> tuple[int, str, str]:
        """The code, the reason and the message."""
        return self.code, self.reason, self.says


def recorded() -> list[Answer]:
    """The recording."""
    return _read("answers.jsonl", Answer)


def updates() -> list[Update]:
    """The recorded updates."""
    return _read("updates.jsonl", Update)


def refusals() -> list[Refusal]:
    """The recorded refusals."""
    return _read("refusals.jsonl", Refusal)


def _read(name: str, type_: type[T]) -> list[T]:
    lines = (Path(__file__).parent / name).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=type_) for line in lines]


def said(body: JSON) -> str:
    """The message of a response: that of a Status, empty if it is the object."""
    return str(body["message"]) if body.get("kind") == "Status" else ""


def refused(code: int, body: JSON) -> tuple[int, str, str]:
    """The code, reason and message of a response."""
    return code, str(body.get("reason", "")), said(body)
