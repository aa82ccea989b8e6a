"""Image names, and digests and sizes made up from them."""

from __future__ import annotations

import hashlib
from functools import lru_cache


def full_image(image: str) -> str:
    """Return an image's name with its tag, as a node lists it."""
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"


@lru_cache(maxsize=1024)
def image_digest(image: str) -> str:
    return hashlib.sha256(full_image(image).encode()).hexdigest()


@lru_cache(maxsize=1024)
def running_image(image: str) -> tuple[str, str]:
    """Return name and ID of an image in the status of a container that has started."""
    name = image.partition("@")[0].rpartition(":")[0] or image
    return full_image(image), f"{name}@sha256:{image_digest(image)}"


def image_size(image: str) -> int:
    """Return a size between 20 and 200 MB, always the same for an image."""
    return 20_000_000 + int(image_digest(image)[:8], 16) % 180_000_000


def does_not_exist(image: str) -> bool:
    """Whether the tag of an image says that it does not exist, so that pulling it fails."""
    return image.rpartition(":")[2] in ("non-existent", "nonexistent", "does-not-exist", "404")
