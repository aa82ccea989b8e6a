"""Reads clusters from files and text, whatever wrote them.

It takes the output of ``kubectl get -o json``, JSON and YAML with any number of documents, folders of them, our own
snapshots and recordings, and the files of kube-scheduler-simulator, kwok and simkube; compressed or not. The format is
recognised by its content. Every problem is collected, with file and place.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubesched.api.decoding import InvalidObject, decode_as, kind_of
from kubesched.base.documents import read_yaml_documents
from kubesched.snapshots import neighbours
from kubesched.snapshots.contents import Contents, Item, Key
from kubesched.snapshots.recording import is_recording, read_recording
from kubesched.snapshots.versions import Raw

SUFFIXES = (".json", ".yaml", ".yml", ".jsonl", ".json.gz", ".jsonl.gz", ".sktrace")
MANIFESTS = (".json", ".yaml", ".yml")
GZIP = b"\x1f\x8b"
_BOLT = slice(16, 20), b"\xed\xda\x0c\xed"
"""Where a database of etcd says what it is, and how."""
_JSON = re.compile(rb"\s*(\[\s*)?\{\s*\"")
MOST_BYTES = 4 << 30
"""The largest file that is read, after decompression."""
MOST_SHOWN = 60
"""Characters of a document that is no object, in the message about it."""
_TOOLS = ("kustomization.yaml", "kustomization.yml", "Chart.yaml", "values.yaml")
"""Files that stand beside manifests and are none."""


class ManifestError(ValueError):
    """Objects that cannot be read: every problem, with the file and the field."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class _List(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Report(msgspec.Struct):
    objects: list[msgspec.Raw]


def load(*paths: str | Path) -> Contents:
    """Everything in files and folders. Raises `ManifestError` with all problems."""
    reader = Reader()
    for path in paths:
        reader.read_path(Path(path))
    return reader.finish()


class Reader:
    """Collects what files and texts have; `finish` raises for everything that was wrong."""

    def __init__(self) -> None:
        self.contents = Contents()
        self.problems: list[str] = []
        self._latest: dict[Key, Item] = {}
        """The objects as the patches of a recording have left them."""

    def finish(self) -> Contents:
        """All contents. Raises `ManifestError` if anything was wrong."""
        if self.problems:
            raise ManifestError(self.problems)
        return self.contents

    def read_path(self, path: Path) -> None:
        """Read a file, or all files of a folder and its subfolders that may have objects."""
        if path.suffix == ".py":
            hint = f"run it first, kubesched simulate {path} -o json > end.json, and give that"
            self.problems.append(f"{path}: a scenario and no cluster; {hint}")
            return
        if not path.is_dir():
            self.read_text(path.read_bytes(), str(path))
            return
        files = sorted(each for each in path.rglob("*") if each.name.endswith(SUFFIXES) and each.is_file())
        files = [each for each in files if each.name not in _TOOLS]
        if not files:
            self.problems.append(f"{path}: no {', '.join(MANIFESTS)} file is in this folder")
        for file in files:
            self.read_text(file.read_bytes(), str(file))

    def read_text(self, text: bytes, where: str) -> None:
        """Read the content of a file."""
        try:
            text, whole = decompressed(text)
            text = neighbours.with_times(text)
            place, sign = _BOLT
            if text[place] == sign:
                raise ValueError("a database of etcd; kwokctl snapshot save --format k8s writes what can be read here")
            if neighbours.is_simkube(text):
                self.contents.add(neighbours.simkube(text))
            elif is_recording(text):
                self.contents.add(read_recording(text, where))
            elif not whole:
                raise ValueError("the compressed file is cut off")
            else:
                self._read_documents(text, where)
        except (InvalidObject, ValueError, RecursionError) as error:
            self.problems.append(_at(where, " ".join(str(error).split())))
        except MemoryError:
            self.problems.append(_at(where, "there is not enough memory to read it"))

    def read_object(self, data: Raw, where: str, list_of: tuple[str, str] = ("", "")) -> None:
        """Take one object; of a List, its items."""
        try:
            version, kind = kind_of(data)
            version, kind = version or list_of[0], kind or list_of[1]
            if kind.endswith("List") and _has_items(data):
                # The items of a PodList have no kind of their own.
                self._read_items(data, where, ("", "") if kind == "List" else (version, kind.removesuffix("List")))
            elif not kind and _is_report(data):
                found: Any = decode_as(_Report, data).objects if isinstance(data, bytes) else data["objects"]
                for index, each in enumerate(found):
                    raw = bytes(each) if isinstance(each, msgspec.Raw) else each
                    self.read_object(raw, f"{where} objects[{index}]".lstrip())
            elif not kind and neighbours.is_export(data):
                self.contents.add(neighbours.export(_decoded(data), where))
            elif neighbours.is_patch(version, kind):
                if not self._latest:
                    self._latest = {each.key: each for each in self.contents.items}
                neighbours.patch(self.contents, self._latest, _decoded(data), where)
            else:
                self.contents.items.append(Item.read(version, kind, data, where))
        except (InvalidObject, ValueError) as error:
            self.problems.append(_at(where, str(error)))

    def _read_documents(self, text: bytes, where: str) -> None:
        problem = ""
        if text.lstrip()[:1] in (b"{", b"["):
            try:
                # Objects stay text until they are needed: a snapshot may have hundreds of megabytes.
                is_list = text.lstrip()[:1] == b"["
                raw = msgspec.json.decode(text, type=list[msgspec.Raw]) if is_list else [_one_value(text)]
            except (msgspec.DecodeError, RecursionError) as error:
                # Or several JSON values one after the other, or a YAML flow mapping.
                problem = f"not valid JSON: {error}" if _JSON.match(text) else ""
            else:
                for each in raw:
                    self.read_object(bytes(each), where)
                return
        try:
            documents = _json_values(text) or read_yaml_documents(text)
        except (ValueError, RecursionError) as error:
            self.problems.append(_at(where, problem or f"not valid YAML or JSON: {' '.join(str(error).split())}"))
            return
        for number, document in enumerate(documents, 1):
            here = f"{where}, document {number}" if len(documents) > 1 else where
            for each in document if isinstance(document, list) else [document]:
                if isinstance(each, Mapping):
                    self.read_object(each, here)
                elif each is not None:
                    why = f"expected an object with apiVersion and kind, got {_shortened(repr(each))}"
                    self.problems.append(_at(here, why))

    def _read_items(self, data: Raw, where: str, list_of: tuple[str, str]) -> None:
        items: Any = decode_as(_List, data).items if isinstance(data, bytes) else data.get("items")
        if not isinstance(items, list | tuple | None):
            raise InvalidObject("List", "", "items", f"expected a list, got {items!r}")
        for index, item in enumerate(items or ()):
            raw = bytes(item) if isinstance(item, msgspec.Raw) else item
            self.read_object(raw, f"{where} items[{index}]".lstrip(), list_of)


def unwrapped(value: object) -> list[object]:
    """The objects in a List, each with its kind; of any other value, the value itself."""
    if not isinstance(value, dict) or not str(value.get("kind")).endswith("List") or "items" not in value:
        return [value]
    reader = Reader()
    reader.read_object(value, "")
    return [each.body() for each in reader.contents.items] if not reader.problems else [value]


def decompressed(data: bytes) -> tuple[bytes, bool]:
    """The data, decompressed if it is in gzip's format, and whether it is whole: of a file that was cut off, what
    there is."""
    if not data.startswith(GZIP):
        return data, True
    parts: list[bytes] = []
    left = MOST_BYTES
    while data:
        stream = zlib.decompressobj(wbits=31)
        try:
            parts.append(stream.decompress(data, left))
        except zlib.error as error:
            raise ValueError(f"cannot be decompressed: {error}") from None
        left -= len(parts[-1])
        if left <= 0 or stream.unconsumed_tail:
            raise ValueError(f"more than {MOST_BYTES:,} bytes after decompression")
        data = stream.unused_data
    return b"".join(parts), stream.eof


def _is_report(data: Raw) -> bool:
    """Whether it is what `kubesched simulate -o json` prints."""
    if isinstance(data, bytes):
        return b'"virtualSeconds"' in data and b'"objects"' in data
    return "virtualSeconds" in data and isinstance(data.get("objects"), list)


def _has_items(data: Raw) -> bool:
    """Whether it is a list indeed: a custom kind may be called BlockList."""
    if isinstance(data, bytes):
        return b'"items"' in data or data.rstrip().endswith(b'List"}')
    return "items" in data or data.get("kind") == "List"


def _decoded(data: Raw) -> Mapping[str, Any]:
    if isinstance(data, bytes):
        found: Mapping[str, Any] = msgspec.json.decode(data)
        return found
    return data


_one_value = msgspec.json.Decoder(msgspec.Raw).decode


def _json_values(text: bytes) -> list[Any]:
    """JSON values written one after the other, as ``kubectl get -o json`` does when called twice; else nothing."""
    decoder, rest, place = json.JSONDecoder(), text.decode().strip(), 0
    found = []
    while place < len(rest):
        try:
            value, place = decoder.raw_decode(rest, place)
        except (ValueError, RecursionError):
            return []
        found.append(value)
        while place < len(rest) and rest[place].isspace():
            place += 1
    return found


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _at(where: str, problem: str) -> str:
    return f"{where}: {problem}" if where else problem
