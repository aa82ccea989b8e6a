"""How much each client of a server may have under way."""

from __future__ import annotations

RETRY_SECONDS = 1
"""When a refused client may try again."""


class ClientLimit:
    """Counts what each client has under way, and says when one has reached the limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._counts: dict[str, int] = {}

    def enter(self, client: str) -> bool:
        """Count one more. False, and nothing is counted, if the client has reached the limit."""
        count = self._counts.get(client, 0)
        if count >= self.most:
            return False
        self._counts[client] = count + 1
        return True

    def leave(self, client: str) -> None:
        """Count one less."""
        count = self._counts[client] - 1
        if count:
            self._counts[client] = count
        else:
            del self._counts[client]
