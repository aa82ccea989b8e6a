"""Reading a growing audit log: when pods were created and bound, by the API server's own clock."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec


class _Reference(msgspec.Struct):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _Response(msgspec.Struct):
    code: int = 0


class _Entry(msgspec.Struct, rename="camel"):
    object_ref: _Reference = msgspec.field(default_factory=_Reference)
    response_status: _Response = msgspec.field(default_factory=_Response)
    stage_timestamp: datetime | None = None


_decoder = msgspec.json.Decoder(_Entry)


class AuditLog:
    """Creations and bindings of the pods of some namespaces, as seconds since the epoch by pod."""

    def __init__(self, path: Path, namespaces: Iterable[str]) -> None:
        self._path = path
        self._namespaces = frozenset(namespaces)
        self._offset = 0
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}

    def read(self) -> None:
        """Take in what was written since the last call."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return
        # The last line may be incomplete.
        whole = data.rpartition(b"\n")[0]
        self._offset += len(whole) + 1 if whole else 0
        for line in whole.splitlines():
            self._take(_decoder.decode(line))

    def _take(self, entry: _Entry) -> None:
        about = entry.object_ref
        if about.namespace in self._namespaces and entry.response_status.code == 201 and entry.stage_timestamp:
            times = self.bound if about.subresource == "binding" else self.created
            times[f"{about.namespace}/{about.name}"] = entry.stage_timestamp.timestamp()
