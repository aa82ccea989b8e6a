"""Reading and merging kubeconfig files.

A wrong kubeconfig is the first problem of many new installations. So every error names the file, the field and the
value, and ends with what to do. Secret values are never shown, neither in a message nor in a `repr`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from kubesched.base.documents import DocumentError, DocumentLimitError, read_yaml

T = TypeVar("T")
EXTENSION = "kubesched"
"""The name of our extension of a cluster. Its field `scheduler` is the address of the scheduler's secure port."""


class KubeconfigError(ValueError):
    """A kubeconfig cannot be used. The message names the place and the problem, and says what to do."""

    def __init__(self, file: str, place: str, problem: str, hint: str) -> None:
        super().__init__(": ".join(part for part in (file, place, f"{problem}; {hint}") if part))
        self.file = file
        self.place = place
        self.problem = problem
        self.hint = hint


# --- the file, as it is written ---------------------------------------------------------------------------------------


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Most field names of a kubeconfig have dashes. The exceptions are named explicitly."""


class NamedExtension(_Section, frozen=True, kw_only=True):
    name: str = ""
    extension: Any = None
    """Its form is up to the program that defines the extension."""


class KubeconfigCluster(_Section, frozen=True, kw_only=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[NamedExtension, ...] = ()


class ExecVariable(_Section, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""

    def __repr__(self) -> str:
        return f"ExecVariable(name={self.name!r}, value=…)"


class Exec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A command that returns credentials."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""

    def __repr__(self) -> str:
        return f"Exec(command={self.command!r}, …)"


class KubeconfigUser(_Section, frozen=True, kw_only=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    username: str = ""
    password: str = ""
    auth_provider: dict[str, Any] | None = None
    exec: Exec | None = None

    def __repr__(self) -> str:
        return "User(…)"


class KubeconfigContext(_Section, frozen=True, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Section, frozen=True, kw_only=True):
    name: str = ""
    cluster: KubeconfigCluster = KubeconfigCluster()


class _NamedUser(_Section, frozen=True, kw_only=True):
    name: str = ""
    user: KubeconfigUser = KubeconfigUser()


class _NamedContext(_Section, frozen=True, kw_only=True):
    name: str = ""
    context: KubeconfigContext = KubeconfigContext()


class _File(_Section, frozen=True, kw_only=True):
    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()
    current_context: str = ""


# --- several files as one ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConfigEntry(Generic[T]):
    """A part of a kubeconfig, and its file. Paths in the part are relative to that file."""

    file: str
    place: str
    value: T

    def wrong(self, field: str, problem: str, hint: str) -> KubeconfigError:
        """The error to raise for a field of this part."""
        return KubeconfigError(self.file, f"{self.place}.{field}" if field else self.place, problem, hint)

    def path(self, value: str) -> str:
        """A path in this part, made absolute."""
        return os.path.normpath(Path(self.file).absolute().parent / value) if value else ""


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Clusters, users and contexts by name. If two files define a name, the first definition is used."""

    files: tuple[str, ...] = ()
    clusters: Mapping[str, ConfigEntry[KubeconfigCluster]] = field(default_factory=dict)
    users: Mapping[str, ConfigEntry[KubeconfigUser]] = field(default_factory=dict)
    contexts: Mapping[str, ConfigEntry[KubeconfigContext]] = field(default_factory=dict)
    current_context: str = ""


def merge(configs: Iterable[Kubeconfig]) -> Kubeconfig:
    """Merge kubeconfigs. Earlier ones take precedence."""
    files: list[str] = []
    clusters: dict[str, ConfigEntry[KubeconfigCluster]] = {}
    users: dict[str, ConfigEntry[KubeconfigUser]] = {}
    contexts: dict[str, ConfigEntry[KubeconfigContext]] = {}
    current = ""
    for config in configs:
        files.extend(config.files)
        clusters = {**config.clusters, **clusters}
        users = {**config.users, **users}
        contexts = {**config.contexts, **contexts}
        current = current or config.current_context
    return Kubeconfig(tuple(files), clusters, users, contexts, current)


def load_file(path: str) -> Kubeconfig:
    """Load one file. Raises FileNotFoundError if it does not exist."""
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KubeconfigError(path, "", f"cannot be read: {error.strerror}", "make it readable for this user") from None
    return parse(text, path)


def load_files(paths: Iterable[str]) -> Kubeconfig:
    """Load and merge files. Files that do not exist are skipped, as KUBECONFIG may name files that will exist later."""
    configs = []
    for path in dict.fromkeys(paths):
        if path:
            try:
                configs.append(load_file(path))
            except FileNotFoundError:
                continue
    return merge(configs)


def parse(text: bytes, file: str) -> Kubeconfig:
    """Parse a kubeconfig in YAML or JSON. `file` is its name in errors, and paths in it are relative to that."""
    content = _decode(_read_yaml(text, file), file)
    return Kubeconfig(
        files=(file,),
        clusters=_by_name(file, "clusters", "cluster", ((item.name, item.cluster) for item in content.clusters)),
        users=_by_name(file, "users", "user", ((item.name, item.user) for item in content.users)),
        contexts=_by_name(file, "contexts", "context", ((item.name, item.context) for item in content.contexts)),
        current_context=content.current_context,
    )


def _by_name(file: str, section: str, part: str, items: Iterable[tuple[str, T]]) -> dict[str, ConfigEntry[T]]:
    result: dict[str, ConfigEntry[T]] = {}
    for name, value in items:
        if name in result:
            hint = "give each its own name"
            raise KubeconfigError(file, section, f"two entries have the name {name!r}", hint)
        result[name] = ConfigEntry(file, f'{section}["{name}"].{part}', value)
    return result


def _read_yaml(text: bytes, file: str) -> object:
    try:
        tree: object = read_yaml(text)
    except DocumentLimitError as error:
        raise KubeconfigError(file, "", str(error), "name a kubeconfig file") from None
    except DocumentError as error:
        # The parser's message quotes the text, which may be a token.
        place = f"line {error.line}, column {error.column}" if error.line else ""
        raise KubeconfigError(file, place, "not valid YAML", "correct the file there") from None
    return tree


_HINT = "see kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig"


def _decode(tree: object, file: str) -> _File:
    if tree is None:
        return _File()
    try:
        content = msgspec.convert(_without_nulls(tree), _File)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).replace("`", "").partition(" - at $")
        text = problem[:1].lower() + problem[1:]
        raise KubeconfigError(file, place.removeprefix("."), text, _HINT) from None
    if content.kind not in ("", "Config") or content.api_version not in ("", "v1"):
        problem = f"expected apiVersion v1 and kind Config, got {content.api_version!r} and {content.kind!r}"
        raise KubeconfigError(file, "kind", problem, "name a kubeconfig file")
    return content


def _without_nulls(value: object) -> object:
    """kubectl writes `args: null` and the like, which means that the field is not set."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value if item is not None]
    return value
