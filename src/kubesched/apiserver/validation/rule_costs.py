"""What the rules of a custom resource's schema may cost at most, and upstream's limits for that.

The estimate of one rule counts for each place that it applies to: as often as the lists and maps around it may be long.
Where a length has no limit, a request of the largest size decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kubesched.apiserver.crd.types import MAX_REQUEST, least_size
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON
from kubesched.cel.ranges import LIMIT

_ONE, _ALL = 10_000_000, 100_000_000
"""The limits for one rule and for a schema."""
_WORTH_NAMING = _ALL // 100
_MOST_NAMED = 4
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
    " declared)"
)


@dataclass(slots=True)
class RuleCosts:
    """The sum of the costs in one schema."""

    problems: Problems
    _total: int = 0
    _expensive: list[tuple[int, str]] = field(default_factory=list)

    def add(self, what: str, cost: int, path: str) -> None:
        """Count the cost of an expression, which has a limit of its own."""
        if cost > _ONE:
            self.problems.forbidden(path, _exceeds(f"estimated {what} cost", cost, _ONE))
        self._total = min(self._total + cost, LIMIT)
        if cost >= _WORTH_NAMING:
            self._expensive.append((cost, path))

    def finish(self, path: str) -> None:
        """Refuse a schema whose rules cost too much together."""
        if self._total <= _ALL:
            return
        for _, each in sorted(self._expensive, key=lambda pair: -pair[0])[:_MOST_NAMED]:
            why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            self.problems.forbidden(each, why)
        what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        self.problems.forbidden(path, _exceeds(what, self._total, _ALL))


def times_in(schema: JSON, times: int | None) -> int | None:
    """How often the parts of a schema may occur in an object, if that may occur so many times; None for no limit."""
    limit: int | None = 1
    if schema.get("type") == "array":
        limit = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties"):
        limit = schema.get("maxProperties")
    return None if times is None or limit is None else min(times * max(limit, 0), LIMIT)


def repeated(cost: int, schema: JSON, times: int | None) -> int:
    """The cost of a rule for all places where its schema applies."""
    most = MAX_REQUEST // (least_size(schema) + 1) if times is None else times
    return min(cost * most, LIMIT)


def _exceeds(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    text = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {text} {_HINT}"
