"""NodeMetadata: scores nodes by a number or a time in a label or an annotation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.contrib.go_time import RFC3339, parse_time
from kubesched.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, Handle, Plugin, Reads
from kubesched.framework.state import CycleState

STRATEGIES = {"Number": ("Highest", "Lowest"), "Timestamp": ("Newest", "Oldest")}
LIMIT = 2**53
"""Larger numbers count as this one: products of them would overflow."""
INVALID = np.iinfo(np.int64).min
"""The score of a node without a value, or with one that cannot be read."""
LOWEST_VALID = MIN_NODE_SCORE + 1


class NodeMetadataArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Where the value is, how it is written, and which values are better."""

    metadata_key: str
    metadata_source: Literal["Label", "Annotation"]
    metadata_type: Literal["Number", "Timestamp"]
    scoring_strategy: Literal["Highest", "Lowest", "Newest", "Oldest"]
    timestamp_format: str = RFC3339
    """A layout of Go's `time` package."""

    def __post_init__(self) -> None:
        if not self.metadata_key:
            raise ValueError("metadataKey cannot be empty")
        if self.scoring_strategy not in STRATEGIES[self.metadata_type]:
            allowed = " or ".join(STRATEGIES[self.metadata_type])
            raise ValueError(f"scoringStrategy must be {allowed} for metadataType {self.metadata_type}")


class NodeMetadata(Plugin):
    """Scores nodes by a number or a time in their metadata.

    Upstream scores times by their age. Here the time itself is the score, with the same result after normalising, so
    that scores do not change from one moment to the next and can be cached.
    """

    name = "NodeMetadata"
    args_type = NodeMetadataArgs
    reads = Reads.NODE

    def __init__(self, args: NodeMetadataArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        layout = args.timestamp_format or RFC3339
        self._value = _or_nan(_number if args.metadata_type == "Number" else lambda text: parse_time(text, layout))

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        args, value = self.args, self._value
        if args.metadata_source == "Label":
            values = nodes.by_label(args.metadata_key, value)
        else:
            values = nodes.by_node(lambda info: value(info.node.annotations.get(args.metadata_key)))
        sign = -1 if args.scoring_strategy in ("Lowest", "Oldest") else 1
        known = np.isfinite(values)
        whole = np.trunc(np.clip(np.where(known, values, 0), -LIMIT, LIMIT)).astype(np.int64)
        return np.where(known, sign * whole, INVALID)

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        """The best value gets 100, the worst 1; 0 is for nodes without a value."""
        known = scores != INVALID
        if not known.any():
            return np.full_like(scores, MIN_NODE_SCORE)
        lowest = scores[known].min()
        span = scores[known].max() - lowest
        above = np.where(known, scores - lowest, 0) * (MAX_NODE_SCORE - LOWEST_VALID) // max(span, 1)
        return np.where(known, above + LOWEST_VALID, MIN_NODE_SCORE)


def _or_nan(read: Callable[[str], float]) -> Callable[[str | None], float]:
    """The value of a text; NaN if there is none."""

    @lru_cache(4096)
    def value(text: str | None) -> float:
        try:
            return math.nan if text is None else read(text)
        except (ValueError, OverflowError):
            return math.nan

    return value


def _number(text: str) -> float:
    if "_" in text or text != text.strip():
        raise ValueError(text)  # Python would accept these, Go does not
    return float(text)
