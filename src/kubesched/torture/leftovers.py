"""What a scheduler still holds of pods that are gone, found by following every reference."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Container, Iterator
from contextvars import Context
from types import BuiltinFunctionType, CoroutineType, FrameType, FunctionType, ModuleType
from typing import Any
from weakref import ref

from kubesched.api import objects as api

NOT_FOLLOWED = (
    *(type, ModuleType, FrameType, BuiltinFunctionType, CoroutineType, ref, str, bytes, int, float, api.Node),
    *(asyncio.AbstractEventLoop, asyncio.Future, asyncio.Handle, Context),
)


def reachable_pods(root: object, gone: Container[str], skip: tuple[type, ...]) -> Iterator[tuple[api.Pod, str]]:
    """Pods of which nothing should be left and that can be reached from an object, with the path to each.

    `gone` decides by UID. Objects of the types in `skip` are not followed.
    """
    seen = {id(root)}
    stack: list[tuple[object, Any]] = [(root, None)]
    while stack:
        obj, path = stack.pop()
        if isinstance(obj, api.Pod) and obj.uid in gone:
            yield obj, _words((obj, path))
            continue
        for each in _referents(obj):
            if id(each) not in seen and not isinstance(each, NOT_FOLLOWED) and not isinstance(each, skip):
                seen.add(id(each))
                stack.append((each, (obj, path)))


def _referents(obj: object) -> list[Any]:
    if isinstance(obj, FunctionType):
        return [*(obj.__closure__ or ()), *(obj.__defaults__ or ())]
    return gc.get_referents(obj)


def _words(path: Any) -> str:
    names: list[str] = []
    while path is not None:
        obj, path = path
        names.append(type(obj).__name__)
    return " > ".join(reversed(names))
