"""Reads Kubernetes objects from what people have: structs, dicts, JSON or YAML text, files, folders.

The output of ``kubectl get -o json`` is a List; its items are read. Kinds that scheduling does not read are counted and
ignored. Everything that is wrong is reported together, with file and field.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.decoding import InvalidObject, decode_as, kind_of
from kubesched.base.documents import read_yaml_documents
from kubesched.client.endpoints import endpoint_of

Source = api.Object | Mapping[str, Any] | str | bytes
"""An object: a struct, a dict, or JSON or YAML text."""

SUFFIXES = (".json", ".yaml", ".yml")
DEFAULT_NAMESPACE = "default"
_KNOWN = {kind for _, kind in api.KINDS}
_Raw = bytes | Mapping[str, Any]


class ManifestError(ValueError):
    """Objects that cannot be read: every problem, with the file and the field."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class Manifests:
    """Collects objects; `finish` raises for everything that was wrong."""

    def __init__(self) -> None:
        self.objects: list[api.Object] = []
        self.ignored: Counter[str] = Counter()
        """Kinds that scheduling does not read, and how many objects of each there were."""
        self._problems: list[str] = []

    def read(self, source: Source, where: str = "") -> None:
        """Read an object, or text with any number of them."""
        if isinstance(source, api.Object):
            self.objects.append(completed(source))
        elif isinstance(source, Mapping):
            self._take(source, where)
        elif isinstance(source, str | bytes):
            self._read_text(source if isinstance(source, bytes) else source.encode(), where)
        else:
            found = type(source).__name__
            raise TypeError(f"expected an object, a dict or the text of a manifest, got {found}: {source!r}")

    def read_path(self, path: Path) -> None:
        """Read a file, or all JSON and YAML files of a folder and its subfolders."""
        if not path.is_dir():
            self._read_text(path.read_bytes(), str(path))
            return
        files = sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file())
        if not files:
            self._problems.append(f"{path}: no {', '.join(SUFFIXES)} file is in this folder")
        for file in files:
            self._read_text(file.read_bytes(), str(file))

    def finish(self) -> list[api.Object]:
        """All objects; raises `ManifestError` if anything was wrong."""
        if self._problems:
            raise ManifestError(self._problems)
        return self.objects

    def _read_text(self, text: bytes, where: str) -> None:
        if text.lstrip()[:1] in (b"{", b"["):
            try:
                # Straight into structs: a snapshot may have hundreds of megabytes.
                raw = msgspec.json.decode(text, type=list[msgspec.Raw] | msgspec.Raw)
            except (msgspec.DecodeError, RecursionError):
                pass  # several JSON values one after the other, or a YAML flow mapping
            else:
                for each in raw if isinstance(raw, list) else [raw]:
                    self._take(bytes(each), where)
                return
        try:
            documents = _json_values(text) or read_yaml_documents(text)
        except (ValueError, RecursionError) as error:
            self._problems.append(_at(where, f"not valid YAML or JSON: {' '.join(str(error).split())}"))
            return
        for number, document in enumerate(documents, 1):
            here = f"{where}, document {number}" if len(documents) > 1 else where
            for each in document if isinstance(document, list) else [document]:
                if isinstance(each, Mapping):
                    self._take(each, here)
                elif each is not None:
                    self._problems.append(_at(here, f"expected an object with apiVersion and kind, got {each!r}"))

    def _take(self, data: _Raw, where: str, list_of: tuple[str, str] = ("", "")) -> None:
        try:
            version, kind = kind_of(data)
            version, kind = version or list_of[0], kind or list_of[1]
            if kind.endswith("List"):
                self._take_items(data, where, (version, "" if kind == "List" else kind.removesuffix("List")))
            elif (cls := api.KINDS.get((version, kind))) is not None:
                self.objects.append(completed(decode_as(cls, data)))
            elif kind and kind not in _KNOWN:
                self.ignored[kind] += 1
            else:
                api.decode(data)  # raises, and says which apiVersion the kind has
        except InvalidObject as error:
            self._problems.append(_at(where, str(error)))

    def _take_items(self, data: _Raw, where: str, list_of: tuple[str, str]) -> None:
        items: Any = decode_as(_List, data).items if isinstance(data, bytes) else data.get("items")
        if not isinstance(items, list | tuple | None):
            raise InvalidObject("List", "", "items", f"expected a list, got {items!r}")
        for index, item in enumerate(items or ()):
            raw = bytes(item) if isinstance(item, msgspec.Raw) else item
            self._take(raw, f"{where} items[{index}]".lstrip(), list_of if list_of[1] else ("", ""))


def read_objects(sources: Iterable[Source]) -> Manifests:
    """The objects of several sources; raises `ManifestError` with everything that is wrong."""
    return _collected(sources, lambda manifests, source: manifests.read(source))


def read_paths(paths: Iterable[Path]) -> Manifests:
    """The objects in files and folders; raises `ManifestError` with everything that is wrong."""
    return _collected(paths, Manifests.read_path)


def read_pods(source: Source | Iterable[Source]) -> list[api.Pod]:
    """The pods of a source or of several; any other kind is an error."""
    several = not isinstance(source, api.Object | Mapping | str | bytes)
    manifests = read_objects(source if several else [source])  # type: ignore[list-item, arg-type]
    others = [each.kind for each in manifests.objects if not isinstance(each, api.Pod)] + list(manifests.ignored)
    if others:
        raise ManifestError([f"expected a Pod, got a {others[0]}; of a workload, give the pod of its spec.template"])
    return [each for each in manifests.objects if isinstance(each, api.Pod)]


def read_pod(source: Source) -> api.Pod:
    """The one pod of a source."""
    pods = read_pods(source)
    if len(pods) != 1:
        raise ManifestError([f"expected one Pod, got {len(pods)}"])
    return pods[0]


def completed(obj: api.Object) -> api.Object:
    """The object with the namespace that kubectl would give it."""
    if obj.metadata.namespace or not endpoint_of(type(obj)).namespaced:
        return obj
    return replace(obj, metadata=replace(obj.metadata, namespace=DEFAULT_NAMESPACE))


def _collected(sources: Iterable[Any], read: Callable[[Manifests, Any], None]) -> Manifests:
    manifests = Manifests()
    for each in sources:
        read(manifests, each)
    manifests.finish()
    return manifests


def _json_values(text: bytes) -> list[Any]:
    """JSON values written one after the other, as ``kubectl get -o json`` does when called twice; else nothing."""
    decoder, rest = json.JSONDecoder(), text.decode().strip()
    found = []
    while rest:
        try:
            value, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        found.append(value)
        rest = rest[end:].lstrip()
    return found


def _at(where: str, problem: str) -> str:
    return f"{where}: {problem}" if where else problem
