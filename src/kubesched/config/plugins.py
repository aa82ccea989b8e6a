"""Which plugin runs at which extension point, in which order and with which weight.

A profile names plugins in two ways: at single points, and through multiPoint at every point they have. This is where
the two become one list per point, by kube-scheduler's rules of precedence and order.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubesched.config.types import KubeSchedulerProfile, Plugins, Point

__all__ = ["Point", "ResolvedPlugins", "expand"]


class ResolvedPlugins(msgspec.Struct, frozen=True):
    """Plugin names per point, in the order in which they run, and the weights of those that score."""

    points: Mapping[Point, tuple[str, ...]]
    weights: Mapping[str, int]
    placement_weights: Mapping[str, int]

    def __getitem__(self, point: Point) -> tuple[str, ...]:
        return self.points[point]

    @property
    def score(self) -> tuple[tuple[str, int], ...]:
        """The scoring plugins in order, each with its weight."""
        return tuple((name, self.weights[name]) for name in self[Point.SCORE])

    @property
    def placement_score(self) -> tuple[tuple[str, int], ...]:
        return tuple((name, self.placement_weights[name]) for name in self[Point.PLACEMENT_SCORE])

    def names(self) -> tuple[str, ...]:
        """Every plugin that runs at some point, each once."""
        return tuple(dict.fromkeys(name for names in self.points.values() for name in names))


def expand(
    profile: KubeSchedulerProfile,
    points: Mapping[str, frozenset[str]],
    default_weights: Mapping[str, int] | None = None,
) -> ResolvedPlugins:
    """Which plugins run where in a completed profile, given the points that each plugin has.

    A plugin enabled without a weight gets its weight in ``default_weights``, or 1. Plugins that `validation` would
    refuse, such as names that are not in ``points``, are skipped.
    """
    # Each plugin's points are looked up once: a registry derives them from the class at every lookup.
    points = {name: points[name] for name in profile.plugins.names() if name in points}
    return ResolvedPlugins(
        {point: _at(point, profile.plugins, points) for point in Point},
        _weights(Point.SCORE, profile.plugins, points, default_weights or {}),
        _weights(Point.PLACEMENT_SCORE, profile.plugins, points, {}),
    )


def _at(point: Point, plugins: Plugins, points: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    explicit = _having(point, (plugin.name for plugin in plugins[point].enabled), points)
    off = {plugin.name for plugin in plugins[point].disabled}
    if "*" in off:
        return tuple(explicit)
    general = _having(point, (plugin.name for plugin in plugins.multi_point.enabled), points)
    general = {name: None for name in general if name not in off}
    overriding = [name for name in explicit if name in general]
    return tuple(dict.fromkeys([*overriding, *general, *explicit]))


def _having(point: Point, names: Iterable[str], points: Mapping[str, frozenset[str]]) -> dict[str, None]:
    return {name: None for name in names if point in points.get(name, ())}


def _weights(
    point: Point, plugins: Plugins, points: Mapping[str, frozenset[str]], default_weights: Mapping[str, int]
) -> dict[str, int]:
    """The weight at the point itself has precedence over multiPoint's, even if it is absent there and so is 1."""
    weights: dict[str, int] = {}
    for plugin in (*plugins[point].enabled, *plugins.multi_point.enabled):
        if point in points.get(plugin.name, ()):
            weights.setdefault(plugin.name, plugin.weight or default_weights.get(plugin.name, 1))
    return weights
