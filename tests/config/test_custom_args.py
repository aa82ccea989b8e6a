"""Arguments of external plugins: decoded into their structs, with every mistake reported at its place in the file."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubesched.config.errors import ConfigError
from kubesched.config.load import load
from kubesched.config.types import API_VERSION, KIND


class Rule(msgspec.Struct, rename="camel"):
    max_count: int
    note: str = ""


class QuietArgs(msgspec.Struct, rename="camel"):
    label_key: str = "resting"
    share: float = 0.5
    rules: list[Rule] = []
    by_zone: dict[str, Rule] = {}
    extra: Rule | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError("share must be between 0 and 1")


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    foo: int = 0


TYPES: dict[str, type] = {"Quiet": QuietArgs, "Needy": Rule, "Strict": Strict}


def loaded(args: object, *enabled: str, plugin: str = "Quiet") -> Any:
    """The decoded arguments of a file with these."""
    profile: dict[str, object] = {
        "plugins": {"filter": {"enabled": [{"name": name} for name in (plugin, *enabled)]}},
        "pluginConfig": [{"name": "NodeAffinity", "args": {}}, {"name": plugin, "args": args}],
    }
    tree: dict[str, object] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
    config = load(tree, args_types=TYPES).config
    return config.profiles[0].args_of(plugin)


def problems(args: object, *enabled: str, plugin: str = "Quiet") -> list[str]:
    """What is wrong with a file with these arguments."""
    with pytest.raises(ConfigError) as caught:
        loaded(args, *enabled, plugin=plugin)
    return [str(each) for each in caught.value.problems]


def test_arguments_become_the_struct() -> None:
    """Field names are the file's, nested structs included."""
    assert loaded({"labelKey": "x", "rules": [{"maxCount": 3}]}) == QuietArgs("x", rules=[Rule(3)])


@pytest.mark.parametrize("args", [None, {}, {"apiVersion": "v1", "kind": "QuietArgs"}])
def test_what_is_left_out_has_its_default(args: object) -> None:
    """Nothing need be given; saying what they are is allowed as it is for upstream's arguments."""
    assert loaded(args) == QuietArgs()


def test_an_enabled_plugin_without_an_entry_gets_the_defaults() -> None:
    """The struct is there, not None."""
    tree: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Quiet"}]}}}],
    }
    assert load(tree, args_types=TYPES).config.profiles[0].args_of("Quiet") == QuietArgs()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"labelKey": 5}, "profiles[0].pluginConfig[1].args.labelKey: expected str, got 5"),
        ({"rules": [{"maxCount": "x"}]}, 'profiles[0].pluginConfig[1].args.rules[0].maxCount: expected int, got "x"'),
        ({"rules": [{}]}, "profiles[0].pluginConfig[1].args.rules[0]: object missing required field maxCount"),
        ({"labelKy": "x"}, "profiles[0].pluginConfig[1].args.labelKy: unknown field; did you mean labelKey?"),
        (
            {"extra": {"maxCount": 1, "zzz": 2}},
            "profiles[0].pluginConfig[1].args.extra.zzz: unknown field; the fields here are maxCount, note",
        ),
        (
            {"byZone": {"a": {"maxCount": 1, "zzz": 2}}},
            'profiles[0].pluginConfig[1].args.byZone["a"].zzz: unknown field; the fields here are maxCount, note',
        ),
        ({"share": 2.0}, "profiles[0].pluginConfig[1].args: share must be between 0 and 1"),
        (
            {"byZone": {"a": {"maxCount": "x"}}},
            "profiles[0].pluginConfig[1].args.byZone[].maxCount: expected int, got str",
        ),
        ([], "profiles[0].pluginConfig[1].args: expected object, got []"),
    ],
)
def test_a_mistake_has_its_place(args: object, said: str) -> None:
    """The path leads to the field, and the message is the struct's own."""
    assert problems(args) == [said]


def test_all_mistakes_are_told() -> None:
    """Unknown fields and wrong values together."""
    assert len(problems({"labelKey": 5, "a": 1, "b": 2})) == 3


def test_a_strict_struct_says_it_once() -> None:
    """Where msgspec would refuse an unknown field too, there is one message, with the hint."""
    said = "profiles[0].pluginConfig[1].args.fo: unknown field; did you mean foo?"
    assert problems({"fo": 1}, plugin="Strict") == [said]


def test_a_plugin_that_cannot_do_without() -> None:
    """Required fields must be given where the plugin is enabled; the hint says where."""
    (said,) = problems({}, "Needy")
    assert said == (
        "profiles[0].pluginConfig: Needy cannot do without arguments: object missing required field maxCount; "
        "add an entry to pluginConfig with name: Needy and its args"
    )
