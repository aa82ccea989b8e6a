"""How an object is named in a log: by namespace and name, never in full."""

from __future__ import annotations

from typing import NamedTuple


class KRef(NamedTuple):
    """An object known only by name, as klog's function of that name makes it.

    In text it looks like a plain string; in JSON it is an object, which is why upstream tells the two apart.
    """

    namespace: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
