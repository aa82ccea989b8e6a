"""Timestamps and durations: reading, printing, and their parts."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.values import MAX_INT, MIN_INT, NANOS, Duration, Timestamp

library = Library()
define = library.define

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,100}))?(?:Z|([+-])(\d\d):(\d\d))\Z", re.ASCII
)
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": NANOS, "m": 60 * NANOS, "h": 3600 * NANOS}
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)\Z", re.ASCII)


def parse_timestamp(text: str) -> Timestamp | None:
    """A timestamp in RFC 3339, or None."""
    match = _TIMESTAMP.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    if match[8]:
        offset = int(match[9]) * 3600 + int(match[10]) * 60
        seconds -= offset if match[8] == "+" else -offset
    if not -62135596800 <= seconds <= 253402300799:
        return None
    return Timestamp(seconds * NANOS + int((match[7] or "").ljust(9, "0")[:9]))


def timestamp_text(value: Timestamp) -> str:
    seconds, nanos = divmod(value.nanos, NANOS)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{moment.strftime('%Y').zfill(4)}{moment.strftime('-%m-%dT%H:%M:%S')}{fraction}Z"


def parse_duration(text: str) -> Duration | None:
    """A duration as Go writes it (``1h30m``), or None."""
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return Duration(0)
    if not body or len(text) > 200:
        return None
    total, position = 0, 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None or not (match[1] or match[2]):
            return None
        unit = _UNITS[match[3]]
        fraction = match[2] or ""
        total += int(match[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = match.end()
    nanos = sign * total
    return Duration(nanos) if MIN_INT <= nanos <= MAX_INT else None


def duration_text(value: Duration) -> str:
    """Seconds with as many decimals as are needed."""
    seconds = Decimal(repr(value.nanos / NANOS))
    text = format(seconds, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "s"


def _zone(name: str) -> tzinfo:
    match = _OFFSET.match(name)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3])
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _moment(value: Timestamp, zone: str | None) -> datetime:
    moment = _EPOCH + timedelta(seconds=value.nanos // NANOS)
    try:
        return moment if zone is None else moment.astimezone(_zone(zone))
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


_PARTS: dict[str, tuple[str, Callable[[datetime], int]]] = {
    "getFullYear": ("year", lambda moment: moment.year),
    "getMonth": ("month", lambda moment: moment.month - 1),
    "getDayOfYear": ("day_of_year", lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": ("day_of_month", lambda moment: moment.day - 1),
    "getDate": ("day_of_month_1_based", lambda moment: moment.day),
    "getDayOfWeek": ("day_of_week", lambda moment: moment.isoweekday() % 7),
    "getHours": ("hours", lambda moment: moment.hour),
    "getMinutes": ("minutes", lambda moment: moment.minute),
    "getSeconds": ("seconds", lambda moment: moment.second),
}


def _accessors() -> None:
    for function, (name, part) in _PARTS.items():
        define(
            **{
                f"timestamp_to_{name}": f"timestamp.{function}() -> int",
                f"timestamp_to_{name}_with_tz": f"timestamp.{function}(string) -> int",
            }
        )(_accessor(part))


def _accessor(part: Callable[[datetime], int]) -> Callable[..., int]:
    def run(value: Timestamp, zone: str | None = None) -> int:
        return part(_moment(value, zone))

    return run


_accessors()


@define(
    timestamp_to_milliseconds="timestamp.getMilliseconds() -> int",
    timestamp_to_milliseconds_with_tz="timestamp.getMilliseconds(string) -> int",
)
def timestamp_milliseconds(value: Timestamp, zone: str = "") -> int:
    _zone(zone)
    return value.nanos % NANOS // 10**6


def _truncated(value: Duration, unit: int) -> int:
    return abs(value.nanos) // unit * (-1 if value.nanos < 0 else 1)


@define(duration_to_hours="duration.getHours() -> int")
def hours(value: Duration) -> int:
    return _truncated(value, 3600 * NANOS)


@define(duration_to_minutes="duration.getMinutes() -> int")
def minutes(value: Duration) -> int:
    return _truncated(value, 60 * NANOS)


@define(duration_to_seconds="duration.getSeconds() -> int")
def seconds(value: Duration) -> int:
    return _truncated(value, NANOS)


@define(duration_to_milliseconds="duration.getMilliseconds() -> int")
def milliseconds(value: Duration) -> int:
    return _truncated(value, 10**6)
