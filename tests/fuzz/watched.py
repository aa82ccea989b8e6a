"""A running scheduler that is sent damaged objects by the watch."""

from __future__ import annotations

import json
import re
from contextlib import suppress

from tests.scheduler.world import World, world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.client.protocol import ApiError
from kubesched.client.wire import decode_line, decode_page
from kubesched.scheduler.handlers import KINDS

KIND_OF = {kind.kind: kind for kind in KINDS}
ALLOCATABLE: dict[str, str | int | float] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
GOOD = api.Node(metadata=api.ObjectMeta(name="good"), status=api.NodeStatus(allocatable=ALLOCATABLE))
ORDINARY = api.Pod(metadata=api.ObjectMeta(name="ordinary", namespace="default"))
LATER = api.Pod(metadata=api.ObjectMeta(name="later", namespace="default"))
BUG = re.compile(
    r"\b(Arithmetic|Assertion|Attribute|Index|Key|Lookup|Memory|Overflow|Recursion|Runtime|Type|UnboundLocal|Unicode\w+"
    r"|Value|ZeroDivision)Error\b"
)
LONG = 400.0
"""Virtual seconds after which every pod has been tried again: one that waits for an event is tried after 300."""


def watch(lines: bytes) -> None:
    """Send these objects, one in each line. Nothing may be raised inside. An ordinary pod must get a node after
    they are gone, if not before, unless one of them preempted it; so must a pod that comes later.
    """
    found = [obj for line in lines.splitlines() for obj in _objects(line)]
    run_virtual(lambda clock: _watch(clock, found))


def _objects(line: bytes) -> list[api.Object]:
    """What a watch and a list make of an object; one that cannot be read is reported by the informer."""
    kind = next((each for name, each in KIND_OF.items() if f'"{name}"'.encode() in line), api.Pod)
    with suppress(ApiError):
        decode_page(b'{"metadata":{},"items":[' + line + b"]}")
    with suppress(ApiError):
        event = decode_line(kind, b'{"type":"ADDED","object":' + line + b"}")
        assert event.malformed is None or event.malformed.problem
        if event.object is not None and event.object.name:
            return [event.object]
    return []


async def _watch(clock: VirtualClock, objects: list[api.Object]) -> None:
    async with world(clock, GOOD, check=False) as here:
        for obj in objects:
            _put(here, obj)
            await clock.advance(0.1)
        here.create(ORDINARY)
        await clock.advance(20)
        for kind in KINDS:
            for obj in here.api.objects(kind):
                if obj.name not in ("good", "ordinary"):
                    here.api.delete(obj)
        here.create(LATER)
        await clock.advance(LONG)
        _check_log(here)
        ordinary = here.api.get(api.Pod, "default/ordinary")
        assert ordinary is None or ordinary.node_name, here.message("ordinary")
        assert here.node_of("later") == "good", here.message("later")


def _put(here: World, obj: api.Object) -> None:
    known = obj.name in ("good", "ordinary") or here.api.get(type(obj), obj.key) is not None
    with suppress(ApiError):  # of another version
        (here.api.update if known else here.api.create)(obj)


def _check_log(here: World) -> None:
    """No error of Python's is in the log; an object that is refused is named."""
    for _, text, fields in here.log:
        problem = fields.get("err")
        if isinstance(problem, Exception) and not isinstance(problem, ApiError | api.InvalidObject):
            raise problem
        assert not BUG.search(str(problem)), f"{text}: {problem}"


def one_line(text: bytes) -> bytes:
    """A document as one line, if it is JSON."""
    with suppress(ValueError, RecursionError):
        return json.dumps(json.loads(text)).encode()
    return text.replace(b"\n", b" ")
