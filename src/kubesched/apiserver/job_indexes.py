"""Indexes of Jobs in upstream's format: ``0,2-5``."""

from __future__ import annotations

import re

_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def index_ranges(text: str) -> list[range]:
    """The ranges of a text. Raises ValueError if it is malformed or not in order."""
    ranges: list[range] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"cannot convert string to integer for index: {part!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (ranges and first < ranges[-1].stop):
            raise ValueError(
                f"non-increasing order, previous: {ranges[-1].stop - 1 if ranges else first}, current: {first}"
            )
        ranges.append(range(first, last + 1))
    return ranges
