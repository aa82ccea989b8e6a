"""Times written in a layout of Go's `time` package."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Final

RFC3339: Final = "2006-01-02T15:04:05Z07:00"

_DIRECTIVES: Final = {
    "January": "%B",
    "Jan": "%b",
    "Monday": "%A",
    "Mon": "%a",
    "MST": "%Z",
    "2006": "%Y",
    "Z07:00": "%z",
    "Z0700": "%z",
    "-07:00": "%z",
    "-0700": "%z",
    "-07": "%z",
    "002": "%j",
    "01": "%m",
    "02": "%d",
    "03": "%I",
    "04": "%M",
    "05": "%S",
    "06": "%y",
    "15": "%H",
    "PM": "%p",
    "pm": "%p",
    "_2": "%d",
    "1": "%m",
    "2": "%d",
    "3": "%I",
    "4": "%M",
    "5": "%S",
}
_TOKEN: Final = re.compile("|".join(map(re.escape, _DIRECTIVES)) + r"|[.,][09]+(?![0-9])")
_FRACTION: Final = re.compile(r"(?<=\d)[.,]\d+")
"""Go accepts a fraction after the seconds even if the layout has none. Whole seconds are enough here."""


@lru_cache(4096)
def parse_time(text: str, layout: str = RFC3339) -> float:
    """Seconds since the epoch; without a zone, the time is UTC. Raises ValueError."""
    if "05" in layout:
        text = _FRACTION.sub("", text)
    found = datetime.strptime(text, _format(layout))
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


@cache
def _format(layout: str) -> str:
    return _TOKEN.sub(lambda match: _DIRECTIVES.get(match[0], ""), layout.replace("%", "%%"))
