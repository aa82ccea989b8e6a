"""Writing a completed configuration back, exactly as kube-scheduler does.

``--write-config-to`` and ``/configz`` show it, and people compare the two schedulers' files with diff. So keys are
sorted, empty values are omitted where upstream omits them, and strings are quoted where Go would quote them.
"""

import base64
import re
from collections.abc import Mapping

import msgspec
import yaml
from msgspec.structs import replace

from kubesched.base.documents import scalars_as_go
from kubesched.config.args import Args
from kubesched.config.duration import Duration
from kubesched.config.types import API_VERSION, KIND, KubeSchedulerConfiguration, KubeSchedulerProfile, Section


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    """The file that ``--write-config-to`` writes: arguments only of enabled plugins, and in order of their names."""
    tree = to_builtins(replace(config, profiles=tuple(_as_run(profile) for profile in config.profiles)))
    return yaml.dump(tree, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=2**31)


def to_builtins(config: KubeSchedulerConfiguration) -> dict[str, object]:
    """The configuration as the dicts, lists and scalars of its JSON form, as ``/configz`` shows it."""
    tree: dict[str, object] = {"apiVersion": API_VERSION, "kind": KIND, **_fields(config)}
    if not config.delay_cache_until_active:
        del tree["delayCacheUntilActive"]
    return tree


def without_secrets(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The configuration without private keys of extenders and tokens of plugins, which must not be shown."""
    extenders = tuple(
        replace(each, tls_config=replace(each.tls_config, key_data=b"")) if each.tls_config is not None else each
        for each in config.extenders
    )
    return replace(config, extenders=extenders, profiles=tuple(map(_without_tokens, config.profiles)))


def _without_tokens(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    """A profile in which plugins that know of secrets in their arguments have hidden them."""
    configs = tuple(
        replace(each, args=each.args.without_secrets()) if hasattr(each.args, "without_secrets") else each
        for each in profile.plugin_config
    )
    return replace(profile, plugin_config=configs)


def _as_run(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    enabled = set(profile.plugins.names())
    configs = [each for each in profile.plugin_config if each.name in enabled and each.args is not None]
    return replace(profile, plugin_config=tuple(sorted(configs, key=lambda each: each.name)))


def _builtin(value: object) -> object:
    match value:
        case Duration():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Args():
            return {"apiVersion": API_VERSION, "kind": type(value).__name__, **_fields(value)}
        case msgspec.Struct():
            return _fields(value)
        case Mapping():
            return {key: _builtin(item) for key, item in value.items()}
        case list() | tuple():
            return [_builtin(item) for item in value]
        case float() if value.is_integer():
            return int(value)
    return value


def _fields(struct: msgspec.Struct) -> dict[str, object]:
    omitting = isinstance(struct, Section) and struct.__struct_config__.omit_defaults
    values = ((field, getattr(struct, field.name)) for field in msgspec.structs.fields(struct))
    return {
        field.encode_name: _builtin(value)
        for field, value in values
        if value is not None and value != () and not (omitting and value == field.default)
    }


_STR = "tag:yaml.org,2002:str"


@scalars_as_go
class _Dumper(yaml.SafeDumper):
    """PyYAML with Go's style: double quotes around what would not read as a string, literal blocks, no anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # PyYAML's stubs leave this method untyped.
    plain = dumper.resolve(yaml.ScalarNode, text, (True, False)) == _STR  # type: ignore[no-untyped-call]  # PyYAML
    return dumper.represent_scalar(_STR, text, style="|" if "\n" in text else None if plain else '"')


_Dumper.add_representer(str, _string)
# Go reads these as strings but quotes them, for the sake of libraries that do not.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$"), None
)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:timestamp", re.compile(r"\d{4}-\d\d?-\d\d?([Tt ].*)?$"), None)
