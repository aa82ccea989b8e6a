"""The newest attempts, within three bounds: attempts per pod, attempts in all, and bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from kubesched.history.record import AttemptRecord


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much is kept."""

    per_pod: int = 10
    in_all: int = 10_000
    bytes: int = 64 << 20


class History:
    """Records of attempts, by pod. When a bound would be passed, the oldest go."""

    def __init__(self, limits: HistoryLimits) -> None:
        self.limits = limits
        self.bytes = 0
        """What all records take in memory. A part that several share counts once."""
        self.dropped = 0
        """How many records had to go."""
        self._records: OrderedDict[int, AttemptRecord] = OrderedDict()
        self._pods: dict[str, list[int]] = {}
        self._shared: dict[int, list[int]] = {}
        """Per shared part: how many records refer to it, and its bytes."""

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[AttemptRecord]:
        """All records, the newest first."""
        return iter(list(reversed(self._records.values())))

    def newest(self) -> Iterator[AttemptRecord]:
        """All records, the newest first, without a copy: nothing may be added meanwhile."""
        return reversed(self._records.values())

    def get(self, number: int) -> AttemptRecord | None:
        """The record with this number."""
        return self._records.get(number)

    def of_pod(self, key: str) -> list[AttemptRecord]:
        """The attempts of a pod, by namespace/name, the newest first."""
        return [self._records[number] for number in reversed(self._pods.get(key, ()))]

    def add(self, record: AttemptRecord) -> None:
        """Keep a record, which must be complete but for its end."""
        numbers = self._pods.setdefault(record.key, [])
        numbers.append(record.number)
        self._records[record.number] = record
        self._count(record)
        while len(numbers) > self.limits.per_pod:
            self._remove(numbers[0])
        while self._records and (len(self._records) > self.limits.in_all or self.bytes > self.limits.bytes):
            self._remove(next(iter(self._records)))

    def _count(self, record: AttemptRecord) -> None:
        record.counted = record.own_bytes()
        self.bytes += record.counted
        for part in record.shared_parts():
            held = self._shared.get(id(part))
            if held is None:
                held = self._shared[id(part)] = [0, part.nbytes]
                self.bytes += held[1]
            held[0] += 1

    def _remove(self, number: int) -> None:
        record = self._records.pop(number)
        self.dropped += 1
        numbers = self._pods[record.key]
        numbers.remove(number)
        if not numbers:
            del self._pods[record.key]
        self.bytes -= record.counted
        for part in record.shared_parts():
            held = self._shared[id(part)]
            held[0] -= 1
            if not held[0]:
                del self._shared[id(part)]
                self.bytes -= held[1]
