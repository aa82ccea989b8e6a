"""The log: levels, callers, streams, and that it never fails."""

import asyncio
import io
import json
import logging
import re
import time
from datetime import timedelta
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.log import POD_GROUP
from kubesched.config.duration import Duration
from kubesched.framework.status import unschedulable
from kubesched.logs import ERROR, KRef, Logger, LoggingOptions, LoggingProblem, callers
from kubesched.logs.callers import upstream_caller
from kubesched.logs.formats import JsonFormat, TextFormat
from kubesched.logs.levels import WARNING, VModule, verbosity
from kubesched.logs.output import Output
from kubesched.logs.standard import Bridge, install

POD = api.Pod(metadata=api.ObjectMeta(name="web-1", namespace="default", uid="u1"))
NOW = time.mktime((2026, 11, 15, 8, 26, 22, 0, 0, -1)) + 0.123456


def log_to(stream: io.BytesIO, verbosity: int = 5, vmodule: str = "", *, as_json: bool = False) -> Logger:
    line = JsonFormat() if as_json else TextFormat(pid=12345)
    return Logger(line, Output(stream), verbosity=verbosity, vmodule=VModule(vmodule), now=lambda: NOW)


def said(stream: io.BytesIO) -> list[str]:
    return stream.getvalue().decode().splitlines()


# --- lines ------------------------------------------------------------------------------------------------------------


def test_a_line_of_text() -> None:
    """Severity, date, padded process id, upstream's place, quoted message, fields."""
    stream = io.BytesIO()
    log_to(stream)(3, "Attempting to schedule pod", pod=POD)
    assert said(stream) == [
        'I1115 08:26:22.123456   12345 schedule_one.go:123] "Attempting to schedule pod" pod="default/web-1"'
    ]


def test_lines_without_quotes() -> None:
    """Upstream's printf-style messages and warnings are as upstream writes them: bare words, upstream's place."""
    stream = io.BytesIO()
    log = log_to(stream)
    log(1, 'FLAG: --v="1"')
    log(0, "Serving securely on [::]:10259")
    log(WARNING, 'No "authentication-kubeconfig" provided')
    log(WARNING, "structured", pod=POD)
    assert [line.partition("12345 ")[2] for line in said(stream)[:2]] == [
        'flags.go:64] FLAG: --v="1"',
        "secure_serving.go:214] Serving securely on [::]:10259",
    ]
    assert said(stream)[2].endswith('] No "authentication-kubeconfig" provided')
    assert said(stream)[3].endswith('] "structured" pod="default/web-1"')
    log(2, "ping check failed: readyz\n[-]ping failed: too slow\n")
    assert said(stream)[4].endswith(" healthz.go:311] ping check failed: readyz")
    assert said(stream)[5:] == ["[-]ping failed: too slow"]


def test_a_line_of_json() -> None:
    """Milliseconds, upstream's place with its folder, and the pod as an object."""
    stream = io.BytesIO()
    log_to(stream, as_json=True)(3, "Attempting to schedule pod", pod=POD)
    assert stream.getvalue().decode() == (
        f'{{"ts":{NOW * 1000!r},"caller":"scheduler/schedule_one.go:123","msg":"Attempting to schedule pod","v":3,'
        '"pod":{"name":"web-1","namespace":"default"}}\n'
    )


def test_an_error_comes_first_in_text_and_last_in_json() -> None:
    """klog's two formats put `err` at opposite ends, and an error has no level."""
    text, as_json = io.BytesIO(), io.BytesIO()
    for log in (log_to(text, 0), log_to(as_json, 0, as_json=True)):
        log(ERROR, "Error scheduling pod; retrying", pod=POD, err=OSError("no route"))
    assert said(text)[0].endswith('"Error scheduling pod; retrying" err="no route" pod="default/web-1"')
    assert said(text)[0].startswith("E1115 ")
    assert said(as_json)[0].endswith(
        '"msg":"Error scheduling pod; retrying","pod":{"name":"web-1","namespace":"default"},"err":"no route"}'
    )


class Place(Enum):
    ACTIVE = "Active"


@pytest.mark.parametrize(
    ("value", "text", "as_json"),
    [
        (POD, '"default/web-1"', '{"name":"web-1","namespace":"default"}'),
        (api.Node(metadata=api.ObjectMeta(name="n1")), '"n1"', '{"name":"n1"}'),
        (KRef("", "n1"), '"n1"', '{"name":"n1"}'),
        ([POD, POD], '["default/web-1","default/web-1"]', '[{"name":"web-1","namespace":"default"}]'),
        (Place.ACTIVE, '"Active"', '"Active"'),
        (unschedulable("too few", "too small"), '"too few, too small"', '"too few, too small"'),
        (Duration.of(90), '"1m30s"', '"1m30s"'),
        (timedelta(milliseconds=1), '"1ms"', '"1ms"'),
        (KeyError(), '"KeyError"', '"KeyError"'),
        (b"\xffok\n", '"\\xffok\\n"', '"/29rCg=="'),
        ({"b": 1, "a": (True, None)}, '{"a":[true,null],"b":1}', '{"a":[true,null],"b":1}'),
        (frozenset(("B", "A")), '{"A":{},"B":{}}', '{"A":{},"B":{}}'),
        (api.PodSchedulingGate(name="g"), '{"name":"g"}', '{"name":"g"}'),
        (float("inf"), '"inf"', "null"),
    ],
)
def test_values(value: object, text: str, as_json: str) -> None:
    """Objects are named, not shown; what upstream has as a Stringer is a string; the rest is JSON."""
    lines = io.BytesIO(), io.BytesIO()
    log_to(lines[0])(0, "Handlers synced", x=value)
    log_to(lines[1], as_json=True)(0, "Handlers synced", x=value)
    assert said(lines[0])[0].partition(" x=")[2] == text
    found = json.loads(said(lines[1])[0])["x"]
    assert (found[:1] if isinstance(value, list) else found) == json.loads(as_json)


@given(st.text() | st.binary() | st.floats() | st.lists(st.text()) | st.dictionaries(st.text(), st.integers()))
def test_any_value_makes_one_parsable_line(value: object) -> None:
    """Whatever is logged, logging does not fail and JSON stays JSON."""
    stream = io.BytesIO()
    log_to(stream, as_json=True)(0, "x", value=value)
    assert stream.getvalue().count(b"\n") == 1
    json.loads(stream.getvalue())


def test_a_value_that_cannot_be_shown_says_why() -> None:
    """A failing `__str__` is part of the line, not the end of the scheduler."""

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("out of order")

    stream = io.BytesIO()
    log_to(stream)(0, "x", thing=Broken())
    assert said(stream)[0].endswith('thing="<panic: out of order>"')


# --- levels -----------------------------------------------------------------------------------------------------------


def test_the_cycle_of_a_pod_group_is_in_every_line() -> None:
    """Messages of a group's cycle name the group first; those of files without that context do not."""
    stream = io.BytesIO()
    log = log_to(stream)
    context = POD_GROUP.set("default/gang")
    try:
        log(4, "Pod waiting on permit", pod="p")
        log(5, "Assumed object", cacheKey="c")
    finally:
        POD_GROUP.reset(context)
    log(4, "Pod waiting on permit", pod="p")
    ends = [line.partition('" ')[2] for line in said(stream)]
    assert ends == ['podGroup="default/gang" pod="p"', 'cacheKey="c"', 'pod="p"']


def test_levels_can_change_while_running() -> None:
    """Messages above the verbosity are not written; errors always are."""
    stream = io.BytesIO()
    log = log_to(stream, 2)
    log(3, "quiet")
    log(ERROR, "loud")
    log.set_verbosity(3)
    log(3, "now heard")
    assert [line.partition("] ")[2] for line in said(stream)] == ['"loud"', '"now heard"']
    assert log.enabled(3)
    assert not log.enabled(4)
    assert log.level == 3


def test_vmodule_goes_by_upstreams_file() -> None:
    """`--vmodule=schedule_one=4` shows the messages of upstream's schedule_one.go, and no others."""
    stream = io.BytesIO()
    log = log_to(stream, 0, "schedule_one=4,event*=3")
    assert log.verbosity == 4
    log(4, "About to try and schedule pod", pod=POD)
    log(3, "Add event for node", node=KRef("", "n"))
    log(4, "Update event for node", node=KRef("", "n"))
    log(4, "somebody else's message")
    assert [re.findall(r" (\S+)\]", line)[0] for line in said(stream)] == ["schedule_one.go:107", "eventhandlers.go:63"]


def test_vmodule_goes_by_our_own_files_too() -> None:
    """A module of ours, or of a plugin's, can be named as well."""
    stream = io.BytesIO()
    log = log_to(stream, 0, "test_logger=5")
    log(5, "About to try and schedule pod", pod=POD)
    log(5, "in words of our own")
    log_to(stream, 0, "other=5")(5, "in words of our own")
    assert len(said(stream)) == 2


@pytest.mark.parametrize(
    ("pattern", "file", "matches"),
    [
        ("sched*", "scheduler/schedule_one.go:1", True),
        ("sched?le_one", "scheduler/schedule_one.go:1", True),
        ("[a-s]*one", "scheduler/schedule_one.go:1", True),
        ("[^s]*", "scheduler/schedule_one.go:1", False),
        ("schedule", "scheduler/schedule_one.go:1", False),
        (r"\*", "x/*.go:1", True),
        ("[", "x/[.go:1", True),
        ("a.c", "x/abc.go:1", False),
    ],
)
def test_patterns(pattern: str, file: str, matches: bool) -> None:
    """Patterns are Go's, and are held against the file's name without suffix."""
    assert VModule(f"{pattern}=3").level_of(file) == (3 if matches else 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a", '"a" does not have the pattern=N format'),
        ("=1", '"=1" does not have the pattern=N format'),
        ("a=1=2", '"a=1=2" does not have the pattern=N format'),
        ("a=x", 'parsing verbosity in "a=x": parsing "x": use a whole number from 0 to 2147483647'),
        ("a=-1", 'parsing verbosity in "a=-1": parsing "-1": use a whole number from 0 to 2147483647'),
    ],
)
def test_patterns_that_are_none(text: str, problem: str) -> None:
    """A mistake in `--vmodule` is named."""
    with pytest.raises(LoggingProblem, match=re.escape(problem)):
        VModule(text)


def test_vmodule_is_written_back() -> None:
    """The flag can be shown as it was given; empty parts are forgiven."""
    assert str(VModule("a=1,,b*=2,")) == "a=1,b*=2"


@pytest.mark.parametrize("text", ["-1", "x", "", "1.5", "2147483648", "٣"])
def test_verbosity_must_be_a_small_number(text: str) -> None:
    """`-v` takes what upstream takes."""
    with pytest.raises(LoggingProblem):
        verbosity(text)


# --- callers ----------------------------------------------------------------------------------------------------------


def test_own_messages_show_where_they_are_from() -> None:
    """A message that upstream does not have shows our file and line."""
    stream = io.BytesIO()
    log_to(stream, as_json=True)(0, "something of our own")
    assert re.fullmatch(r"logs/test_logger\.py:\d+", json.loads(said(stream)[0])["caller"])


@pytest.mark.parametrize(
    ("fields", "caller"),
    [
        ({"queue": "Active"}, "queue/active_queue.go:111"),
        ({"queue": "Backoff"}, "queue/backoff_queue.go:310"),
        ({"queue": "Unschedulable"}, "queue/scheduling_queue.go:730"),
        ({"queue": "Unschedulable", "schedulingCycle": 3}, "queue/scheduling_queue.go:965"),
        ({"queue": "nowhere"}, None),
    ],
)
def test_one_message_of_several_files(fields: dict[str, object], caller: str | None) -> None:
    """The fields determine which of upstream's queues a message is shown for."""
    assert upstream_caller("Pod moved to an internal scheduling queue", fields) == caller


def test_the_life_of_a_pod_has_upstreams_places() -> None:
    """Every message of the transcript that people know is shown with the file it is known from."""
    life = {
        "Add event for unscheduled pod": "eventhandlers.go",
        "About to try and schedule pod": "schedule_one.go",
        "Attempting to schedule pod": "schedule_one.go",
        "Attempting to bind pod to node": "default_binder.go",
        "Finished binding for pod, can be expired": "cache.go",
        "Successfully bound pod to node": "schedule_one.go",
        "Add event for scheduled pod": "eventhandlers.go",
        "Delete event for unscheduled pod": "eventhandlers.go",
        "Update event for scheduled pod": "eventhandlers.go",
    }
    for message, file in life.items():
        caller = upstream_caller(message, {})
        assert caller is not None
        assert caller.split("/")[1].split(":")[0] == file


# --- streams ----------------------------------------------------------------------------------------------------------


def test_everything_goes_to_stderr_by_default() -> None:
    """stdout is for data."""
    stdout, stderr = io.BytesIO(), io.BytesIO()
    log = LoggingOptions().logger(stdout, stderr)
    log(0, "a")
    log(ERROR, "b")
    assert not stdout.getvalue()
    assert len(said(stderr)) == 2


def test_split_streams_gather_infos() -> None:
    """Errors appear at once; infos wait until there are enough of them, or for a flush."""
    stdout, stderr = io.BytesIO(), io.BytesIO()
    log = LoggingOptions(split_stream=True, info_buffer_size=1000, alpha=True).logger(stdout, stderr)
    log(0, "a" * 400)
    log(ERROR, "b")
    assert not stdout.getvalue()
    assert len(said(stderr)) == 1
    log(0, "c" * 600)
    assert len(said(stdout)) == 1
    log(0, "d" * 2000)
    assert len(said(stdout)) == 3
    log(0, "e")
    log.flush()
    assert len(said(stdout)) == 4


@virtual_time
async def test_gathered_lines_are_flushed_in_time(clock: VirtualClock) -> None:
    """`--log-flush-frequency` bounds how long a line waits."""
    stream = io.BytesIO()
    log = Logger(TextFormat(), Output(stream, 10_000))
    flusher = asyncio.create_task(log.flush_every(5))
    log(0, "a")
    await clock.advance(4.9)
    assert not said(stream)
    await clock.advance(0.2)
    assert len(said(stream)) == 1
    log(0, "b")
    flusher.cancel()
    await asyncio.gather(flusher, return_exceptions=True)
    assert len(said(stream)) == 2


def test_a_stream_that_is_gone_does_no_harm() -> None:
    """Lines that cannot be written are counted, and logging goes on."""
    stream = io.BytesIO()
    output = Output(stream)
    stream.close()
    Logger(TextFormat(), output)(0, "lost")
    assert output.lost == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (LoggingOptions(format="xml"), 'format: Invalid value: "xml": Unsupported log format'),
        (LoggingOptions(format="json", vmodule="a=1"), "vmodule: Forbidden: Only supported for text log format"),
        (LoggingOptions(flush_frequency=0), 'flushFrequency: Invalid value: "0s": Must be greater than zero'),
        (LoggingOptions(verbosity=2**31), "verbosity: Invalid value: 2147483648: Must be <= 2147483647"),
        (
            LoggingOptions(split_stream=True),
            "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        (
            LoggingOptions(format="json", info_buffer_size=1),
            "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
    ],
)
def test_options_that_cannot_be(options: LoggingOptions, problem: str) -> None:
    """Wrong flags are rejected with upstream's messages."""
    with pytest.raises(LoggingProblem) as refused:
        options.logger()
    assert str(refused.value) == problem


def test_all_problems_are_named_at_once() -> None:
    """Several mistakes make one list."""
    with pytest.raises(LoggingProblem, match=r"^\[flush.*, format.*\]$"):
        LoggingOptions(format="xml", flush_frequency=-1).logger()


# --- Python's own logging ---------------------------------------------------------------------------------------------


def test_python_logging_speaks_klog() -> None:
    """What libraries log appears in our format, with their names, and tracebacks as a block."""
    stream = io.BytesIO()
    logger = logging.getLogger("aiohttp.client")
    handler = Bridge(log_to(stream, 0))
    logger.addHandler(handler)
    try:
        logger.warning("slow %s", "answer")
        logger.info("too quiet to show")
        try:
            raise ValueError("bad")
        except ValueError:
            logger.exception("went wrong")
    finally:
        logger.removeHandler(handler)
    lines = said(stream)
    assert re.match(r'W1115 .* test_logger\.py:\d+\] "slow answer" logger="aiohttp\.client"$', lines[0])
    assert 'err="bad" logger="aiohttp.client" traceback=<' in lines[1]
    assert lines[-1] == " >"


def test_installing_the_bridge_sets_the_level() -> None:
    """The root logger passes on what the log would show."""
    root = logging.getLogger()
    before = root.level
    bridge = install(log_to(io.BytesIO(), 6))
    try:
        assert root.level == logging.DEBUG
    finally:
        root.removeHandler(bridge)
        root.setLevel(before)


def test_every_message_of_the_table_has_one_place() -> None:
    """No message is in the table twice, since one of its places would never be shown."""
    messages = [message for lines in callers._UPSTREAM.values() for message in lines.values()]
    assert len(set(messages)) == len(messages)
