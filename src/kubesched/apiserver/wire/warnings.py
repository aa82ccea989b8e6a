"""The warnings of a response, within the limits that upstream sets to their headers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

_MOST_CHARACTERS = 4096
_MOST_IN_ONE = 256
"""The length to which each warning is cut if together they are too long."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def limited_warnings(warnings: Iterable[str]) -> list[str]:
    """Each warning once. Those that no header can carry are left out, and so are those beyond the limit."""
    found = [text for text in dict.fromkeys(warnings) if text and not _CONTROL.search(text)]
    if sum(map(len, found)) <= _MOST_CHARACTERS:
        return found
    cut = [text[:_MOST_IN_ONE] for text in found]
    totals = accumulate(map(len, cut), initial=0)
    return [text for text, before in zip(cut, totals, strict=False) if before < _MOST_CHARACTERS]
