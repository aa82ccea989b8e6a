"""Some objects with all their fields, to pass on to extenders or to replace: our Structs have only the fields that
scheduling reads.

A whole object takes many times the memory of its Struct, so only the wanted ones are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from kubesched.api import objects as api

Wanted = Callable[[api.Object], bool]
REPLACED: dict[type[api.Object], Wanted] = {
    api.ResourceClaim: lambda claim: isinstance(claim, api.ResourceClaim) and claim.status.allocation is None
}
"""Objects that the scheduler writes so often that it should replace instead of patch them."""

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


class WholeObjects:
    """The newest JSON of some objects; `wanted` selects them for each kind.

    The JSON has the form in which a Go program sends a typed object: without kind and apiVersion. Pods and resource
    claims are without managedFields.
    """

    def __init__(self, wanted: Mapping[type[api.Object], Wanted]) -> None:
        self._wanted = wanted
        self._kept: dict[type[api.Object], dict[str, tuple[str, bytes]]] = {kind: {} for kind in wanted}

    def __contains__(self, kind: type[api.Object]) -> bool:
        """Whether objects of a kind may be kept."""
        return kind in self._kept

    def __call__(self, obj: api.Object) -> bytes | None:
        """The whole object, if it is kept. It may be newer than `obj`."""
        uid, data = self._kept.get(type(obj), {}).get(obj.key, ("", b""))
        return data if data and uid == obj.uid else None

    def find(self, kind: type[api.Object], key: str) -> bytes | None:
        """The whole object with this key, if it is kept."""
        return self._kept.get(kind, {}).get(key, ("", None))[1]

    def put(self, obj: api.Object, data: bytes | msgspec.Raw) -> None:
        """Keep the JSON of an object that was added or updated, if it is wanted."""
        kept = self._kept[type(obj)]
        if self._wanted[type(obj)](obj):
            kept[obj.key] = (obj.uid, _trimmed(obj, data))
        else:
            kept.pop(obj.key, None)

    def drop(self, kind: type[api.Object], key: str) -> None:
        """Forget an object that was deleted."""
        self._kept[kind].pop(key, None)

    def keep_only(self, kind: type[api.Object], keys: set[str]) -> None:
        """Forget all objects of a kind except these."""
        self._kept[kind] = {key: kept for key, kept in self._kept[kind].items() if key in keys}


def _trimmed(obj: api.Object, data: bytes | msgspec.Raw) -> bytes:
    fields = _decoder.decode(data)
    fields.pop("kind", None)
    fields.pop("apiVersion", None)
    if isinstance(obj, api.Pod | api.ResourceClaim):
        metadata = _decoder.decode(fields["metadata"])
        if metadata.pop("managedFields", None) is not None:
            fields["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(fields)
