"""Reading a growing audit log: when pods were created and bound, by the API server's own clock."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from kubesched.bench.perf.executor import PodBatch


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
    """Creations and bindings of some pods, as seconds since the epoch by pod."""

    def __init__(self, path: Path, batches: Iterable[PodBatch]) -> None:
        self._path = path
        self._keys = {f"{batch.namespace}/{pod['metadata']['name']}" for batch in batches for pod in batch.pods}
        self._offset = 0
        self.created: dict[str, float] = {}
        self.bound: dict[str, float] = {}

    @property
    def pods(self) -> int:
        """How many pods there are to be bound."""
        return len(self._keys)

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

    def slow_arrival(self, rate: float) -> str:
        """A remark if the pods were created more slowly than wanted, since then the machine is too busy."""
        times = sorted(self.created.values())
        span = times[-1] - times[0] if len(times) > 1 else 0.0
        reached = (len(times) - 1) / span if span else rate
        return f"pods arrived at {reached:,.0f}/s instead of {rate:,.0f}/s" if reached < 0.9 * rate else ""

    def _take(self, entry: _Entry) -> None:
        about = entry.object_ref
        key = f"{about.namespace}/{about.name}"
        if key in self._keys and entry.response_status.code == 201 and entry.stage_timestamp:
            times = self.bound if about.subresource == "binding" else self.created
            times[key] = entry.stage_timestamp.timestamp()
