"""The load of a node as an annotation gives it: ``cpu=45:10,memory=30``."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"(cpu|memory)=([0-9]+(?:\.[0-9]+)?)(?::([0-9]+(?:\.[0-9]+)?))?")


def load_parts(text: str) -> list[re.Match[str] | None]:
    """The parts: resource, mean, and perhaps standard deviation. None for each that cannot be read."""
    return [_PART.fullmatch(part.strip()) for part in text.split(",")]
