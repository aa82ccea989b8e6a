"""What feature gates change in a configuration."""

from __future__ import annotations

import pytest

from kubesched.base.features import Features
from kubesched.config.args import DynamicResourcesArgs, VolumeBindingArgs
from kubesched.config.errors import ConfigError
from kubesched.config.load import load
from kubesched.config.types import API_VERSION, KIND

TREE: dict[str, object] = {"apiVersion": API_VERSION, "kind": KIND}
SCORING = Features(storage_capacity_scoring=True)


def _with_shape(*points: tuple[int, int]) -> dict[str, object]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return TREE | {"profiles": [{"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": shape}}]}]}


def _volume_binding(tree: dict[str, object], features: Features) -> VolumeBindingArgs:
    args = load(tree, features=features).config.profiles[0].args_of("VolumeBinding")
    assert isinstance(args, VolumeBindingArgs)
    return args


@pytest.mark.parametrize("on", [True, False])
def test_node_declared_features_is_a_default_plugin_only_with_its_gate(on: bool) -> None:
    """The gate decides whether the plugin is enabled by default; the rest of the list stays."""
    config = load(TREE, features=Features(node_declared_features=on)).config
    names = [plugin.name for plugin in config.profiles[0].plugins.multi_point.enabled]
    assert len(names) == 19 + on
    assert ("NodeDeclaredFeatures" in names) is on


def test_storage_capacity_scoring_brings_a_default_shape() -> None:
    """With the gate on, VolumeBinding prefers emptier storage unless the file says otherwise."""
    points = [(point.utilization, point.score) for point in _volume_binding(TREE, SCORING).shape]
    assert points == [(0, 10), (100, 0)]
    assert _volume_binding(_with_shape((0, 0), (100, 10)), SCORING).shape[1].score == 10
    assert _volume_binding(TREE, Features()).shape == ()


def test_a_shape_needs_its_gate_and_must_be_in_order() -> None:
    """A shape is refused while the gate is off, and validated while it is on."""
    with pytest.raises(ConfigError, match="needs the feature gate StorageCapacityScoring"):
        load(_with_shape((0, 0), (100, 10)))
    with pytest.raises(ConfigError, match="sorted in increasing order"):
        load(_with_shape((50, 0), (10, 10)), features=SCORING)


def _timeouts(features: Features, **args: str) -> DynamicResourcesArgs:
    profile = {"pluginConfig": [{"name": "DynamicResources", "args": args}]}
    found = load({**TREE, "profiles": [profile]}, features=features).config.profiles[0].args_of("DynamicResources")
    assert isinstance(found, DynamicResourcesArgs)
    return found


@pytest.mark.parametrize(
    ("features", "field"),
    [
        (Features(dra_scheduler_filter_timeout=False), "filterTimeout"),
        (Features(dra_device_binding_conditions=False), "bindingTimeout"),
        (Features(dra_resource_claim_device_status=False), "bindingTimeout"),
    ],
)
def test_timeouts_for_devices_need_their_gates(features: Features, field: str) -> None:
    """A timeout has a default with its gates on; with one of them off it has none and is an error."""
    defaults = _timeouts(Features())
    assert (str(defaults.filter_timeout), str(defaults.binding_timeout)) == ("10s", "10m0s")
    kept = "binding_timeout" if field == "filterTimeout" else "filter_timeout"
    without = _timeouts(features)
    assert [getattr(without, name) is None for name in ("filter_timeout", "binding_timeout")].count(True) == 1
    assert getattr(without, kept) is not None
    with pytest.raises(ConfigError, match=rf"{field}.*needs the feature gate"):
        _timeouts(features, **{field: "20s"})
