"""Checks of what plugins return, with errors that say what to return instead.

Plugins are other people's code, mostly new and untyped. A wrong return value must not surface three layers further down
as a NumPy error about broadcasting.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import isfinite, isnan
from typing import Any

import numpy as np

from kubesched.base.log import text_of
from kubesched.framework.events import EventHint
from kubesched.framework.places import place_of
from kubesched.framework.status import Code, Status

STATUS_OR_NONE = 'return None if all is well, else a Status such as unschedulable("why")'
NOT_OF_A_FILTER = (Code.WAIT, Code.SKIP)


class AnswerError(TypeError):
    """A return value that the contract does not allow. The message says what to return and where to change it."""

    def __init__(self, said: str, plugin: object, method: str) -> None:
        self.place = _place(plugin, method)
        super().__init__(f"{method} answered with {said} ({self.place})")


def wrong(plugin: object, method: str, answer: object, wanted: str) -> AnswerError:
    """The error for a wrong return value."""
    shown = f"{type(answer).__name__} {text_of(answer, repr):.80}" if answer is not None else "None"
    return AnswerError(f"{shown}; {wanted}", plugin, method)


def status_answer(plugin: object, method: str, answer: object) -> Status | None:
    """A return value that must be a status; None for success."""
    if answer is None:
        return None
    if isinstance(answer, Status):
        _check_status(plugin, method, answer)
        return None if answer.code is Code.SUCCESS else answer
    if isinstance(answer, str):
        raise wrong(plugin, method, answer, "return unschedulable(reason) to reject the pod")
    raise wrong(plugin, method, answer, STATUS_OR_NONE)


def _check_status(plugin: object, method: str, status: Status) -> None:
    if not isinstance(status.code, Code):
        raise wrong(plugin, method, status.code, "the first argument of a Status is a Code")
    if odd := [reason for reason in status.reasons if not isinstance(reason, str)]:
        raise wrong(plugin, method, odd[0], "the reasons of a Status are strings, each an argument of its own")


def filter_answer(plugin: object, answer: object) -> Status | None:
    """The result of a one-node Filter; None for success."""
    status = status_answer(plugin, "filter", answer)
    if status is not None and status.code in NOT_OF_A_FILTER:
        raise wrong(plugin, "filter", answer, 'return None if the pod fits, else unschedulable("why")')
    return status


def pre_filter_answer(plugin: object, answer: object) -> Status | Collection[str] | None:
    """The result of PreFilter: None, a status, or the names of the only nodes to filter."""
    if answer is None or isinstance(answer, Status):
        return status_answer(plugin, "pre_filter", answer)
    names = answer if isinstance(answer, Collection) and not isinstance(answer, str | bytes | Mapping) else None
    if names is not None and all(isinstance(name, str) for name in names):
        return names
    raise wrong(plugin, "pre_filter", answer, "return None, a Status, or a set of node names")


def permit_answer(plugin: object, answer: object) -> tuple[Status | None, float | None]:
    """The result of Permit: a status, and the most seconds to wait if the plugin gives them."""
    status, seconds = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    is_time = seconds is None or (isinstance(seconds, int | float) and not isnan(seconds))
    if is_time and (status is None or isinstance(status, Status)):
        return status_answer(plugin, "permit", status), seconds
    raise wrong(plugin, "permit", answer, "return None, a Status, or (Status(Code.WAIT), seconds)")


def events_answer(plugin: object, answer: object) -> Sequence[EventHint]:
    """The events that a plugin registers for."""
    if isinstance(answer, list | tuple) and all(isinstance(each, EventHint) for each in answer):
        return answer
    raise wrong(plugin, "events_to_register", answer, "return a list of on(Resource.NODE, Action.ADD) and the like")


def score_answer(plugin: object, answer: object) -> int | float:
    """The result of a one-node Score."""
    if isinstance(answer, int | float | np.number) and not isinstance(answer, bool) and isfinite(answer):
        return answer.item() if isinstance(answer, np.number) else answer
    raise wrong(plugin, "score", answer, "return a number")


def check_verdicts(plugin: object, answer: object, rows: int) -> None:
    """Raise if this is not a valid result of `filter_all`."""
    codes = getattr(answer, "codes", None)
    if codes is None or not callable(getattr(answer, "status_of", None)):
        raise wrong(plugin, "filter_all", answer, "return None, reject(mask, status) or Verdicts(codes, status_of)")
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "biu":
        raise wrong(plugin, "filter_all", codes, "codes must be a NumPy array of integers or booleans")
    _check_length(plugin, "filter_all", codes, rows)


def check_scores(plugin: object, answer: object, rows: int, method: str = "score_all") -> None:
    """Raise if this is not a valid result of `score_all` or `normalize`."""
    if isinstance(answer, int) and not isinstance(answer, bool) and method == "score_all":
        return
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "iuf":
        alternative = " or one int for all nodes" if method == "score_all" else ""
        raise wrong(plugin, method, answer, f"return a NumPy array of numbers{alternative}")
    if answer.dtype != np.int64 and method == "score_all" and not hasattr(plugin, "normalize"):
        # Small integers would overflow when they are weighted, and totals are whole numbers.
        raise wrong(plugin, method, answer, "return 64-bit integers: np.rint(scores).astype(np.int64)")
    if answer.dtype.kind == "f" and not np.isfinite(answer).all():
        raise wrong(plugin, method, answer, "not a number, or infinity, is no score")
    _check_length(plugin, method, answer, rows)


def _check_length(plugin: object, method: str, answer: np.ndarray[Any, Any], rows: int) -> None:
    if answer.shape != (rows,):
        wanted = "return one number per row of the window it was given"
        raise AnswerError(f"an array of shape {answer.shape} for {rows} nodes; {wanted}", plugin, method)


def _place(plugin: object, method: str) -> str:
    owner = type(plugin)
    written = getattr(owner, "written_as", None) or getattr(owner, method, owner)
    return place_of(written)
