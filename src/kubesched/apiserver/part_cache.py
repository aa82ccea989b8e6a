"""Keys under which results are cached that depend on one part of an object alone.

Pods from one template have the same spec. What the type check, the defaults and the validation make of it is computed
once for all of them.
"""

from __future__ import annotations

from kubesched.apiserver.storage.store import encode
from kubesched.base.types import JSON

ENTRIES = 1024
"""How many results each cache holds."""
_LONGEST = 16 << 10
"""Bytes. Longer parts are not cached, so that clients cannot fill the memory."""


def key_of(part: JSON) -> bytes | None:
    """The encoding of a part; None if its results must not be cached.

    Equal encodings mean equal parts, except that NaN, which YAML can contain, is encoded as null.
    """
    data = encode(part)
    return data if len(data) <= _LONGEST and b"null" not in data else None
