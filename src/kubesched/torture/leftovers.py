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
    if not _reaches_any(root, gone, skip):
        return
    seen = {id(root)}
    stack: list[tuple[object, Any]] = [(root, None)]
    while stack:
        obj, path = stack.pop()
        if isinstance(obj, api.Pod) and obj.uid in gone:
            yield obj, _words((obj, path))
            continue
        for each in _referents(obj):
            if id(each) not in seen and not isinstance(each, (*NOT_FOLLOWED, *skip)):
                seen.add(id(each))
                stack.append((each, (obj, path)))


def _reaches_any(root: object, gone: Container[str], skip: tuple[type, ...]) -> bool:
    """Whether there is such a pod at all. This is several times faster than to keep the paths."""
    ignored = (*NOT_FOLLOWED, *skip)
    seen, level = {id(root)}, [root]
    kinds: dict[type, bool] = {}
    while level:
        functions = [obj for obj in level if type(obj) is FunctionType]
        found = gc.get_referents(*(obj for obj in level if type(obj) is not FunctionType))
        for function in functions:
            found += _referents(function)
        level = []
        for each in found:
            kind = type(each)
            follows = kinds.get(kind)
            if follows is None:
                follows = kinds[kind] = not issubclass(kind, ignored)
            if follows and id(each) not in seen:
                seen.add(id(each))
                level.append(each)
                if kind is api.Pod and each.uid in gone:
                    return True
    return False


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
