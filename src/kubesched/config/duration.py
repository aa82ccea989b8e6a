"""Durations the way Go writes them, because configuration files are full of them.

``15s``, ``1m30s`` and ``10m0s`` must mean here what they mean to kube-scheduler, to the nanosecond, and must be written
back the way it writes them, so that a dumped configuration is the same text.
"""

import re

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter, which Go accepts as well
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)", re.ASCII)
_LONGEST = 2**63 - 1


class Duration(int):
    """A length of time in nanoseconds; ``str`` of it is Go's notation."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """What Go's ``time.ParseDuration`` returns for ``text``; a ValueError says what is wrong with it."""
        digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
        total = 0 if digits == "0" else _sum_of_parts(text, digits)
        limit = _LONGEST + text.startswith("-")
        if total > limit:
            raise ValueError(f'duration "{text}" is longer than 2562047h47m16s')
        return cls(-total if text.startswith("-") else total)

    @classmethod
    def of(cls, seconds: int) -> "Duration":
        return cls(seconds * _UNITS["s"])

    @property
    def seconds(self) -> float:
        return self / _UNITS["s"]

    def __str__(self) -> str:
        sign, size = ("-", -self) if self < 0 else ("", int(self))
        if size == 0:
            return "0s"
        for unit in ("ns", "µs", "ms"):
            if size < _UNITS[unit] * 1000:
                return sign + _decimal(size, _UNITS[unit]) + unit
        minutes, rest = divmod(size, _UNITS["m"])
        hours, minutes = divmod(minutes, 60)
        text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
        return sign + text + _decimal(rest, _UNITS["s"]) + "s"

    def __repr__(self) -> str:
        return f'Duration("{self}")'


def _sum_of_parts(text: str, digits: str) -> int:
    total, position = 0, 0
    while position < len(digits) or position == 0:
        part = _PART.match(digits, position)
        if part is None or not (part[1] or part[2]):
            raise ValueError(f'"{text}" is not a duration such as "15s" or "1m30s"')
        if part[3] not in _UNITS:
            raise ValueError(f'duration "{text}" has an unknown unit "{part[3]}"; the units are ns, us, ms, s, m and h')
        total += int(part[1] or 0) * _UNITS[part[3]] + _fraction(part[2] or "", _UNITS[part[3]])
        position = part.end()
    return total


def _fraction(digits: str, unit: int) -> int:
    # Go keeps as many digits as fit 63 bits and multiplies in floating point; anything more exact would differ from it.
    while digits and int(digits) > _LONGEST:
        digits = digits[:-1]
    return int(float(int(digits or 0)) * (unit / 10.0 ** len(digits)))


def _decimal(size: int, unit: int) -> str:
    whole, rest = divmod(size, unit)
    decimals = f"{rest:0{len(str(unit)) - 1}d}".rstrip("0") if unit > 1 else ""
    return f"{whole}.{decimals}" if decimals else str(whole)
