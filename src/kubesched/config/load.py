"""From a configuration file to a usable configuration, or to a list of everything that is wrong with the file.

The steps are kube-scheduler's: read, decode strictly, convert old versions, complete with defaults, validate. Each step
continues past the errors of the one before, so that all mistakes are reported together.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.config import legacy
from kubesched.config.args import ARGS, Args
from kubesched.config.custom_args import with_custom_args
from kubesched.config.decode import decode
from kubesched.config.defaults import complete
from kubesched.config.errors import ConfigError, Problem, suggest
from kubesched.config.read import read
from kubesched.config.types import (
    API_VERSION,
    KIND,
    SECTIONS,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
)
from kubesched.config.validation import REMOVED, validate, validate_names, validate_profiles

DEFAULT_SCHEDULER_NAME = "default-scheduler"


class Loaded(msgspec.Struct, frozen=True):
    """A completed configuration and its warnings."""

    config: KubeSchedulerConfiguration
    warnings: list[str]


def default(features: Features = DEFAULT_FEATURES) -> KubeSchedulerConfiguration:
    """The default configuration."""
    return load({"apiVersion": API_VERSION, "kind": KIND}, features=features).config


def load(
    text: str | bytes | dict[str, object],
    source: str = "<config>",
    known_plugins: Collection[str] | None = None,
    points: Mapping[str, frozenset[str]] | None = None,
    args_types: Mapping[str, type | None] | None = None,
    features: Features = DEFAULT_FEATURES,
) -> Loaded:
    """Load a KubeSchedulerConfiguration; ConfigError lists everything that is wrong with it.

    With ``known_plugins``, any other plugin name is an error. With ``points``, which has the extension points of each
    plugin, so is everything else that would prevent building the profiles. ``args_types`` are the structs for the
    arguments of external plugins.
    """
    known = known_plugins if known_plugins is not None else points
    problems: list[Problem] = []
    warnings: list[str] = []
    tree = _tree(text, source, problems, warnings)
    version = _version(tree, problems)
    if version != "v1":
        tree = legacy.drop_old_fields(tree, version, warnings)
        known = None if known is None else {*known, *REMOVED}
    written = _decode(tree, version, problems)
    problems += _unrelated(validate_names(written.profiles, known, points, version == "v1"), problems)
    warnings += _warnings(written.profiles, known)
    current = written if version == "v1" else legacy.modernize(written, version, warnings)
    config = complete(current, legacy.default_plugins(version), features)
    problems += _unrelated(validate(config, features), problems)
    problems += _unrelated(validate_profiles(config.profiles, points), problems)
    if args_types:
        config, found = with_custom_args(config, args_types)
        problems += _unrelated(found, problems)
    if problems:
        raise ConfigError(source, problems)
    return Loaded(config, [f"{source}: {warning}" for warning in warnings])


def _unrelated(found: Iterable[Problem], problems: Sequence[Problem]) -> list[Problem]:
    """The problems that are not about a field that already has one: such a field has its default, or is wrong for that
    reason."""
    return [each for each in found if not any(problem.concerns(each.path) for problem in problems)]


# --- reading ----------------------------------------------------------------------------------------------------------


def _tree(
    text: str | bytes | dict[str, object], source: str, problems: list[Problem], warnings: list[str]
) -> dict[str, object]:
    tree = text if isinstance(text, dict) else read(text, problems, warnings)
    if not isinstance(tree, dict):
        raise ConfigError(source, problems or [Problem("", f"expected an object of apiVersion {API_VERSION}", tree)])
    return tree


def _version(tree: dict[str, object], problems: list[Problem]) -> str:
    """The version of the file; v1 if it does not say, so that the rest can still be checked."""
    kind, api_version = tree.get("kind"), tree.get("apiVersion")
    if kind != KIND:
        problems.append(Problem("kind", f"must be {KIND}", kind))
    if api_version == API_VERSION:
        return "v1"
    if isinstance(api_version, str) and api_version in legacy.VERSIONS:
        return legacy.VERSIONS[api_version]
    problems.append(Problem("apiVersion", f"must be {API_VERSION}", api_version))
    return "v1"


# --- decoding ---------------------------------------------------------------------------------------------------------


def _decode(tree: dict[str, object], version: str, problems: list[Problem]) -> KubeSchedulerConfiguration:
    body = _presence(_without_type(tree))
    config = decode(KubeSchedulerConfiguration, body, "", problems) or KubeSchedulerConfiguration()
    profiles = [_with_args(each, f"profiles[{i}]", version, problems) for i, each in enumerate(config.profiles)]
    return replace(config, profiles=tuple(profiles))


def _without_type(tree: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in tree.items() if name not in ("apiVersion", "kind")}


def _presence(tree: dict[str, object]) -> dict[str, object]:
    """Fill in defaults that depend on whether the file has a field at all, which a struct cannot show."""
    profiles = tree.get("profiles")
    profiles = [{}] if profiles is None or profiles == [] else profiles
    if isinstance(profiles, list) and len(profiles) == 1 and isinstance(profiles[0], dict):
        only = profiles[0]
        if only.get("schedulerName") is None:
            profiles = [only | {"schedulerName": DEFAULT_SCHEDULER_NAME}]
    tree = tree | {"profiles": profiles}
    if tree.get("enableProfiling") is False and tree.get("enableContentionProfiling") is None:
        tree["enableContentionProfiling"] = False
    return tree


def _with_args(profile: KubeSchedulerProfile, path: str, version: str, problems: list[Problem]) -> KubeSchedulerProfile:
    types = ARGS if version == "v1" else legacy.LEGACY_ARGS
    configs = [
        _typed(config, types[config.name], f"{path}.pluginConfig[{index}].args", version, problems)
        if config.name in types and config.args is not None
        else config
        for index, config in enumerate(profile.plugin_config)
    ]
    return replace(profile, plugin_config=tuple(configs))


def _typed(config: PluginConfig, cls: type[Args], path: str, version: str, problems: list[Problem]) -> PluginConfig:
    args = config.args
    if isinstance(args, dict):
        versions = [API_VERSION] if version == "v1" else [API_VERSION, *legacy.VERSIONS]
        for name, allowed in (("kind", [cls.__name__]), ("apiVersion", versions)):
            if args.get(name) not in (None, "", *allowed):
                problems.append(Problem(f"{path}.{name}", f"must be {allowed[0]} for {config.name}", args[name]))
        args = _without_type(args)
    return replace(config, args=decode(cls, args, path, problems))


# --- warnings ---------------------------------------------------------------------------------------------------------


def _warnings(profiles: Iterable[KubeSchedulerProfile], known: Collection[str] | None) -> Iterator[str]:
    for path, name, enabling in _mentions(profiles):
        if not enabling and known is not None and name not in {"*", *known}:
            yield f"{path}: no plugin is named {name}, so this has no effect; {suggest(name, known)}".rstrip("; ")


def _mentions(profiles: Iterable[KubeSchedulerProfile]) -> Iterator[tuple[str, str, bool]]:
    """Every place where a plugin is named, the name, and whether the place enables it."""
    for index, profile in enumerate(profiles):
        for section in SECTIONS:
            path = f"profiles[{index}].plugins.{section}"
            for number, plugin in enumerate(profile.plugins[section].enabled):
                yield f"{path}.enabled[{number}]", plugin.name, True
            for number, plugin in enumerate(profile.plugins[section].disabled):
                yield f"{path}.disabled[{number}]", plugin.name, False
        for number, config in enumerate(profile.plugin_config):
            yield f"profiles[{index}].pluginConfig[{number}]", config.name, False
