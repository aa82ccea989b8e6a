"""One message as one line: klog's text format and component-base's JSON format."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Final

from kubesched.logs.callers import PRINTF_PLACES
from kubesched.logs.levels import ERROR, WARNING
from kubesched.logs.quoting import plain_number, quote
from kubesched.logs.values import json_value, known_json, text_pair

Fields = Mapping[str, object]
Format = Callable[[float, int, str, str, Fields], str]
"""Formats a line from the time, the level, the caller (``folder/file:line``), the message and its fields.

Two fields are special: ``logger``, the name of the logger, and ``err`` of errors.
"""

_SEVERITY: Final = {ERROR: "E", WARNING: "W"}


class TextFormat:
    """``I1115 08:26:22.123456   12345 schedule_one.go:96] "Attempting to schedule pod" pod="default/x"``"""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = f"{os.getpid() if pid is None else pid:7d}"
        # A busy second has thousands of messages, so its date is formatted once.
        self._second = -1
        self._stamp = ""

    def __call__(self, now: float, level: int, caller: str, message: str, fields: Fields) -> str:
        second = int(now)
        if second != self._second:
            self._second, self._stamp = second, time.strftime("%m%d %H:%M:%S", time.localtime(second))
        # klog has no structured warnings.
        plain = caller in PRINTF_PLACES or (level == WARNING and not fields)
        parts = [
            f"{_SEVERITY.get(level, 'I')}{self._stamp}.{int((now - second) * 1e6):06d} {self._pid} "
            f"{caller[caller.rfind('/') + 1 :]}] {message if plain else quote(message)}"
        ]
        first = [key for key in (("err", "logger") if level == ERROR else ("logger",)) if key in fields]
        parts += [text_pair(key, fields[key]) for key in first]
        parts += [text_pair(key, value) for key, value in fields.items() if key not in first]
        line = "".join(parts)
        return line if line.endswith("\n") else f"{line}\n"


class JsonFormat:
    """``{"ts":1763195182123.456,"caller":"scheduler/schedule_one.go:96","msg":"…","v":3,"pod":{"name":…}}``"""

    def __call__(self, now: float, level: int, caller: str, message: str, fields: Fields) -> str:
        parts = [f'{{"ts":{plain_number(now * 1e3)}']
        if "logger" in fields:
            parts.append(f',"logger":{json_value(fields["logger"])}')
        parts.append(f',"caller":{known_json(caller)},"msg":{known_json(message)}')
        last: tuple[str, ...] = ()
        if level == ERROR:
            last = ("err",) if fields.get("err") is not None else ()
        else:
            parts.append(f',"v":{max(level, 0)}')
        for key, value in fields.items():
            if key != "logger" and not (level == ERROR and key == "err"):
                parts.append(f",{known_json(key)}:{json_value(value)}")
        parts += [f',"{key}":{json_value(fields[key])}' for key in last]
        parts.append("}\n")
        return "".join(parts)
