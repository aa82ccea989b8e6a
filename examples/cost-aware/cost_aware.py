"""CostAware: prefers nodes that cost less, all of them priced in one call."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from kubesched import MAX_NODE_SCORE, CycleState, Ints, Nodes, Plugin, Pod, Reads

MICRO = 1_000_000
UNKNOWN = -1


class CostAwareArgs(msgspec.Struct, frozen=True, rename="camel"):
    """What `pluginConfig` may say. Prices are per hour, in any one currency."""

    price_label: str = "example.com/price-per-hour"
    """A node's own price; it counts more than the table."""
    type_label: str = "node.kubernetes.io/instance-type"
    prices: dict[str, float] = {}
    """The price of each value of `type_label`."""
    per_core: bool = True
    """Compare the price of a core, so that a large node does not count as expensive because of its size."""


class CostAware(Plugin):
    """Gives the cheapest node 100 and the most expensive 0."""

    name = "CostAware"
    args_type = CostAwareArgs
    reads = Reads.NODE  # so the answers are kept for all pods, until a node changes

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Millionths of the price per hour, -1 where it is unknown.

        `by_label` asks once per distinct value: five thousand nodes of six types are six questions.
        """
        own = nodes.by_label(self.args.price_label, _number)
        listed = nodes.by_label(self.args.type_label, lambda value: self.args.prices.get(value or "", math.nan))
        price = np.where(np.isnan(own), listed, own)
        if self.args.per_core:
            price = price * 1000 / np.maximum(nodes.allocatable("cpu"), 1)
        return np.where(np.isnan(price), UNKNOWN, np.rint(np.nan_to_num(price) * MICRO)).astype(np.int64)

    def normalize(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        """Turn prices into scores. An unknown price gets 0, like the most expensive; equal prices all get 100."""
        known = scores != UNKNOWN
        if not known.any():
            return np.zeros_like(scores)
        low, high = scores[known].min(), scores[known].max()
        points = (high - scores) * MAX_NODE_SCORE // max(high - low, 1) if high > low else MAX_NODE_SCORE
        return np.where(known, points, 0)


def _number(text: str | None) -> float:
    """The price in a label; NaN if it is missing or malformed."""
    try:
        price = float(text or "")
    except ValueError:
        return math.nan
    return price if 0 <= price < math.inf else math.nan
