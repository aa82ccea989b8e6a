"""How fast an autoscaler may change the number of replicas: stabilization windows and policies."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kubesched.base.types import JSON

_PERIOD = 15
_UP: JSON = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": _PERIOD},
        {"type": "Percent", "value": 100, "periodSeconds": _PERIOD},
    ],
}
_DOWN: JSON = {
    "stabilizationWindowSeconds": 300,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": _PERIOD}],
}
LONGEST = 3600
"""No window or period is longer, in seconds."""

Verdict = tuple[str, str, str]
"""Status, reason and message of a condition."""
READY: Verdict = ("True", "ReadyForNewScale", "recommended size matches current size")
WITHIN: Verdict = ("False", "DesiredWithinRange", "the desired count is within the acceptable range")
_LOWEST = "recent recommendations were lower than current one, applying the lowest recent recommendation"
_HIGHEST = "recent recommendations were higher than current one, applying the highest recent recommendation"


@dataclass(slots=True)
class ScalingHistory:
    """What an autoscaler recommended and did, each with its time."""

    recommended: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def forget(self, now: float) -> None:
        self.recommended = [each for each in self.recommended if each[0] > now - LONGEST]
        self.changes = [each for each in self.changes if each[0] > now - LONGEST]

    def added(self, now: float, seconds: float, sign: int) -> int:
        """How many replicas were added (or removed, for a negative sign) in the last seconds."""
        return sum(abs(change) for time, change in self.changes if time > now - seconds and change * sign > 0)


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """The rules of one autoscaler."""

    least: int
    most: int
    up: JSON
    down: JSON

    @classmethod
    def of(cls, spec: JSON) -> ScalingRules:
        behavior = spec.get("behavior") or {}
        up, down = (
            {**default, **_given(behavior.get(name))} for name, default in (("scaleUp", _UP), ("scaleDown", _DOWN))
        )
        return cls(int(spec.get("minReplicas", 1)), int(spec["maxReplicas"]), up, down)

    def stabilized(self, history: ScalingHistory, now: float, current: int, wanted: int) -> tuple[int, Verdict]:
        """Moderate a recommendation by recent ones, and remember it."""
        if not history.recommended:
            history.recommended.append((now, current))
        lowest = min(
            (n for t, n in history.recommended if t > now - self.up["stabilizationWindowSeconds"]), default=wanted
        )
        highest = max(
            (n for t, n in history.recommended if t > now - self.down["stabilizationWindowSeconds"]), default=wanted
        )
        history.recommended.append((now, wanted))
        result = max(current, min(wanted, lowest))
        result = min(result, max(wanted, highest))
        if result == wanted:
            return result, READY
        if wanted > result:
            return result, ("True", "ScaleUpStabilized", _LOWEST)
        return result, ("True", "ScaleDownStabilized", _HIGHEST)

    def limited(self, history: ScalingHistory, now: float, current: int, wanted: int) -> tuple[int, Verdict]:
        """Bound a recommendation by the policies and by the least and the most replicas."""
        if wanted > current:
            rate = max(self._limit(history, now, current, self.up, 1), current)
            if wanted > min(rate, self.most):
                return min(rate, self.most), _too_many(rate < self.most)
        elif wanted < current:
            rate = min(self._limit(history, now, current, self.down, -1), current)
            if wanted < max(rate, self.least):
                return max(rate, self.least), _too_few(rate > self.least)
        if wanted > self.most:
            return self.most, _too_many(False)
        return (self.least, _too_few(False)) if wanted < self.least else (wanted, WITHIN)

    def _limit(self, history: ScalingHistory, now: float, current: int, rule: JSON, sign: int) -> int:
        if rule["selectPolicy"] == "Disabled":
            return current
        limits: list[int] = []
        for policy in rule["policies"]:
            seconds, value = policy["periodSeconds"], policy["value"]
            start = current - history.added(now, seconds, 1) + history.added(now, seconds, -1)
            if policy["type"] == "Pods":
                limits.append(start + sign * value)
            else:
                part = start * (1 + sign * value / 100)
                limits.append(math.ceil(part) if sign > 0 else math.floor(part))
        most_change = max if (rule["selectPolicy"] == "Max") is (sign > 0) else min
        return most_change(limits)


def _given(rule: JSON | None) -> JSON:
    return {name: value for name, value in (rule or {}).items() if value is not None}


def _too_many(by_rate: bool) -> Verdict:
    if by_rate:
        return "True", "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"
    return "True", "TooManyReplicas", "the desired replica count is more than the maximum replica count"


def _too_few(by_rate: bool) -> Verdict:
    if by_rate:
        return "True", "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"
    return "True", "TooFewReplicas", "the desired replica count is less than the minimum replica count"
