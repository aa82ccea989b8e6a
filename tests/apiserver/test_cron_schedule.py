"""Cron schedules against a brute-force search, and their error messages."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubesched.apiserver.validation.cron_schedule import Calendar, ScheduleError, parse_schedule

BERLIN = ZoneInfo("Europe/Berlin")
SPRING = datetime(2026, 3, 28, tzinfo=UTC).timestamp()
AUTUMN = datetime(2026, 10, 24, tzinfo=UTC).timestamp()
DAYS = 3


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    pair = st.tuples(number, number).map(sorted).map(lambda ends: f"{ends[0]}-{ends[1]}")
    step = st.tuples(st.one_of(st.just("*"), pair, number.map(str)), st.integers(1, 20)).map(lambda s: f"{s[0]}/{s[1]}")
    part = st.one_of(number.map(str), pair, step, st.just("*"), st.just("?"))
    return st.lists(part, min_size=1, max_size=3).map(",".join)


SCHEDULES = st.tuples(_field(0, 59), _field(0, 23), _field(1, 31), _field(1, 12), _field(0, 6)).map(" ".join)


def _brute_force(schedule: Calendar, start: float) -> list[float]:
    """All minutes of some days at which clocks show a matching time."""
    found = []
    for minute in range(1, DAYS * 24 * 60 + 1):
        local = datetime.fromtimestamp(start + 60 * minute, schedule.zone)
        if local.hour in schedule.hours and local.minute in schedule.minutes and schedule.matches_day(local.date()):
            found.append(start + 60 * minute)
    return found


@given(SCHEDULES, st.sampled_from([SPRING, AUTUMN]))
@example("30 2 * * *", SPRING)
@example("30 2 * * *", AUTUMN)
@example("* * * * *", AUTUMN)
@settings(max_examples=60, deadline=None)
def test_times_are_those_that_clocks_show(text: str, start: float) -> None:
    """`next` finds every matching minute in order, also when clocks change, and `latest` finds the last one."""
    schedule = parse_schedule(text, BERLIN)
    assert isinstance(schedule, Calendar)
    expected = _brute_force(schedule, start)
    end, time, found = start + DAYS * 86400, start, []
    while (following := schedule.next(time)) is not None and following <= end:
        found.append(following)
        time = following
    assert found == expected
    assert schedule.latest(start, end) == (expected[-1] if expected else None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@hourly", "2026-01-01T11:00"),
        ("@daily", "2026-01-02T00:00"),
        ("@weekly", "2026-01-04T00:00"),
        ("@monthly", "2026-02-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
        ("@every 1h30m", "2026-01-01T12:00"),
        ("0 9 * * mon-fri", "2026-01-02T09:00"),
        ("0 0 29 feb *", "2028-02-29T00:00"),
        ("0 0 13 * fri", "2026-01-02T00:00"),
        ("15/20 10 * * *", "2026-01-01T10:35"),
    ],
)
def test_the_next_time(text: str, expected: str) -> None:
    """Descriptors, names, steps and days that may match either way."""
    start = datetime(2026, 1, 1, 10, 30, tzinfo=UTC).timestamp()
    found = parse_schedule(text).next(start)
    assert found is not None
    assert datetime.fromtimestamp(found, UTC).isoformat(timespec="minutes") == f"{expected}+00:00"


def test_intervals_count_from_the_last_time() -> None:
    """The latest time of an interval is a multiple of it after the start."""
    schedule = parse_schedule("@every 90s")
    assert schedule.latest(1000.0, 1089.0) is None
    assert schedule.latest(1000.0, 1275.0) == 1270.0


def test_a_day_that_never_comes() -> None:
    """31 February has no next time."""
    assert parse_schedule("0 0 31 2 *").next(SPRING) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("x * * * *", "failed to parse int from x: x"),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
        ("@every now", "failed to parse duration @every now"),
    ],
)
def test_a_wrong_schedule_says_why(text: str, message: str) -> None:
    """The message names the part that is wrong."""
    with pytest.raises(ScheduleError) as error:
        parse_schedule(text)
    assert message in str(error.value)


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """No text raises anything but `ScheduleError`."""
    with suppress(ScheduleError):
        parse_schedule(text)
