"""Cron schedules: five fields, ``@daily`` and the like, or ``@every 90m``, in a time zone.

Local times that a change to summer time skips do not occur, and those that the change back repeats occur twice, as in
the library that upstream uses. If both the day of the month and the day of the week are restricted, either may match.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

from kubesched.config.duration import Duration

DAY = 24 * 3600
SEARCH_DAYS = 5 * 366
"""How far to look for a time before a schedule counts as one that never occurs, such as 31 February."""
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: str(number) for number, name in enumerate(_MONTH_NAMES, 1)}
_WEEKDAYS = {name: str(number) for number, name in enumerate(_WEEKDAY_NAMES)}


class ScheduleError(ValueError):
    """A schedule cannot be parsed."""


def parse_schedule(text: str, zone: tzinfo = UTC) -> Schedule:
    """Parse a schedule. Raises `ScheduleError`."""
    if text.startswith("@every "):
        try:
            seconds = int(Duration.parse(text.removeprefix("@every ").strip()).seconds)
        except ValueError as error:
            raise ScheduleError(f"failed to parse duration {text}: {error}") from None
        return Interval(max(1, seconds))
    fields = _DESCRIPTORS.get(text, text).split()
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise ScheduleError(f"unrecognized descriptor: {text}")
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = fields
    return Calendar(
        minutes=_values(minutes, 0, 59),
        hours=_values(hours, 0, 23),
        days=_values(days, 1, 31),
        months=_values(months, 1, 12, _MONTHS),
        weekdays=_values(weekdays, 0, 6, _WEEKDAYS),
        either_day=not (_is_any(days) or _is_any(weekdays)),
        zone=zone,
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """Regular intervals, counted from the last time."""

    seconds: int

    def next(self, after: float) -> float | None:
        """Return the first time after a time."""
        return math.floor(after) + self.seconds

    def latest(self, since: float, until: float) -> float | None:
        """Return the last time after `since` and not after `until`."""
        start = math.floor(since)
        count = int(until - start) // self.seconds
        return float(start + count * self.seconds) if count > 0 else None


@dataclass(frozen=True, slots=True)
class Calendar:
    """Minutes of the local calendar."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Whether it is enough that the day of the month or the day of the week matches."""
    zone: tzinfo

    def next(self, after: float) -> float | None:
        """Return the first time after a time; None if it never occurs."""
        day = self._date(after)
        for number in range(SEARCH_DAYS):
            for time in _times(self, day + timedelta(number)):
                if time > after:
                    return time
        return None

    def latest(self, since: float, until: float) -> float | None:
        """Return the last time after `since` and not after `until`."""
        first, day = self._date(since), self._date(until)
        while day >= first:
            for time in reversed(_times(self, day)):
                if since < time <= until:
                    return time
            day -= timedelta(1)
        return None

    def _date(self, time: float) -> date:
        return datetime.fromtimestamp(time, self.zone).date()

    def matches_day(self, day: date) -> bool:
        """Whether the schedule includes a day."""
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either_day else by_month and by_week


Schedule = Interval | Calendar


@lru_cache(maxsize=64)
def _times(schedule: Calendar, day: date) -> tuple[float, ...]:
    """Return all times of a schedule on a day, in order."""
    if not schedule.matches_day(day):
        return ()
    zone = schedule.zone
    wall = [(hour, minute) for hour in sorted(schedule.hours) for minute in sorted(schedule.minutes)]
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    next_midnight = midnight + timedelta(1)
    if midnight.utcoffset() == next_midnight.utcoffset():
        start = midnight.timestamp()
        return tuple(start + 3600 * hour + 60 * minute for hour, minute in wall)
    return tuple(sorted({time for hour, minute in wall for time in _existing(midnight, hour, minute)}))


def _existing(midnight: datetime, hour: int, minute: int) -> Iterator[float]:
    """Yield the moments at which clocks show a local time: none, one or two when clocks are changed."""
    for fold in (0, 1):
        local = midnight.replace(hour=hour, minute=minute, fold=fold)
        time = local.timestamp()
        shown = datetime.fromtimestamp(time, midnight.tzinfo)
        if (shown.hour, shown.minute) == (hour, minute):
            yield time


def _is_any(field: str) -> bool:
    """Whether a field is unrestricted. A list or a step counts as a restriction, except a step of 1."""
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _values(field: str, lowest: int, highest: int, names: dict[str, str] | None = None) -> frozenset[int]:
    return frozenset(value for part in field.split(",") for value in _range(part, lowest, highest, names or {}))


def _range(part: str, lowest: int, highest: int, names: dict[str, str]) -> range:
    span, slash, step = part.partition("/")
    first, dash, last = span.partition("-")
    if first in ("*", "?"):
        low, high = lowest, highest
    else:
        low = _number(first, names, part)
        high = _number(last, names, part) if dash else highest if slash else low
    every = _number(step, {}, part) if slash else 1
    if low < lowest:
        raise ScheduleError(f"beginning of range ({low}) below minimum ({lowest}): {part}")
    if high > highest:
        raise ScheduleError(f"end of range ({high}) above maximum ({highest}): {part}")
    if low > high:
        raise ScheduleError(f"beginning of range ({low}) beyond end of range ({high}): {part}")
    if every == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")
    return range(low, high + 1, every)


def _number(text: str, names: dict[str, str], part: str) -> int:
    digits = names.get(text.lower(), text)
    if not digits.isascii() or not digits.isdecimal():
        raise ScheduleError(f"failed to parse int from {text}: {part}")
    return int(digits)
