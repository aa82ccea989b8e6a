"""Objects for the library: structs of the kinds that scheduling reads, from whatever people have.

`kubesched.snapshots` reads files and text. Here its objects become structs, and those of other kinds are counted.
Everything that is wrong is reported together, with file and field.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.decoding import InvalidObject, decode_as
from kubesched.client.endpoints import endpoint_of
from kubesched.snapshots.contents import Item
from kubesched.snapshots.reader import ManifestError, Reader

Source = api.Object | Mapping[str, Any] | str | bytes
"""An object: a struct, a dict, or JSON or YAML text."""

DEFAULT_NAMESPACE = "default"
_KNOWN = {kind for _, kind in api.KINDS}
_GROUPS = {version.rpartition("/")[0] for version, _ in api.KINDS}
_EARLY = re.compile(r"v\d+(alpha|beta)\d+")


class Manifests:
    """Collects objects; `finish` raises for everything that was wrong."""

    def __init__(self) -> None:
        self.objects: list[api.Object] = []
        self.ignored: Counter[str] = Counter()
        """Kinds that scheduling does not read, and how many objects of each there were."""
        self.items: list[Item] = []
        """All objects that were not structs, as they were read."""
        self._reader = Reader()
        self._problems: list[str] = []

    def read(self, source: Source, where: str = "") -> None:
        """Read an object, or text with any number of them."""
        if isinstance(source, api.Object):
            self._decode()  # what came before it
            self.objects.append(completed(source))
        elif isinstance(source, Mapping):
            self._reader.read_object(source, where)
        elif isinstance(source, str | bytes):
            self._reader.read_text(source if isinstance(source, bytes) else source.encode(), where)
        else:
            found = type(source).__name__
            raise TypeError(f"expected an object, a dict or the text of a manifest, got {found}: {source!r}")

    def read_path(self, path: Path) -> None:
        """Read a file, or a folder."""
        self._reader.read_path(path)

    def finish(self) -> Manifests:
        """Decode everything; of a recording, its end. Raises `ManifestError` if anything was wrong."""
        self._decode()
        problems = sorted([*self._problems, *self._reader.problems])
        if problems:
            raise ManifestError(problems)
        return self

    def _decode(self) -> None:
        found = self._reader.contents.at()
        self._reader.contents.items, self._reader.contents.changes = [], []
        self.items += found
        for each in found:
            try:
                self._take(each)
            except InvalidObject as error:
                self._problems.append(f"{each.where}: {error}" if each.where else str(error))

    def _take(self, item: Item) -> None:
        cls = api.KINDS.get((item.version, item.kind))
        if cls is not None:
            self.objects.append(completed(decode_as(cls, item.data)))
        elif item.kind and (item.kind not in _KNOWN or _is_other(item.version)):
            self.ignored[item.kind] += 1
        else:
            api.decode(item.data)  # raises, and says which apiVersion the kind has


def _is_other(version: str) -> bool:
    """Whether a kind that has the name of one that scheduling reads is another one indeed, as Knative's Service is, or
    an early form of it; else the version is a mistake.
    """
    group, _, name = version.rpartition("/")
    return group not in _GROUPS or _EARLY.fullmatch(name) is not None


def decoded(items: Iterable[Item]) -> list[api.Object]:
    """Objects that are valid, as structs."""
    manifests = Manifests()
    for each in items:
        manifests._take(each)
    return manifests.objects


def read_objects(sources: Iterable[Source]) -> Manifests:
    """The objects of several sources; raises `ManifestError` with everything that is wrong."""
    manifests = Manifests()
    for each in sources:
        manifests.read(each)
    return manifests.finish()


def read_paths(paths: Iterable[Path]) -> Manifests:
    """The objects in files and folders; raises `ManifestError` with everything that is wrong."""
    manifests = Manifests()
    for each in paths:
        manifests.read_path(each)
    return manifests.finish()


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
