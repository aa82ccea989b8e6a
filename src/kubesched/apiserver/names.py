"""Random names and UIDs for new objects."""

from __future__ import annotations

from random import Random

# Upstream's alphabet: without vowels no words come out, and no character is easily misread.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_BASE = 58
_FIXED_BITS = 0xF << 76 | 0b11 << 62
_VERSION_4 = 4 << 76 | 0b10 << 62
"""The bits of a UUID that are not random, and their values."""


def safe_name(text: str) -> str:
    """A text, such as a hash in decimal, in characters that suit names. Same result as upstream."""
    return "".join(_SUFFIX_ALPHABET[ord(character) % len(_SUFFIX_ALPHABET)] for character in text)


class NameGenerator:
    """Names and UIDs of one cluster. With a seeded generator they are the same in every run."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def suffix(self) -> str:
        """Five random characters."""
        return "".join(self._random.choices(_SUFFIX_ALPHABET, k=5))

    def name(self, base: str) -> str:
        """The name made from a `generateName`."""
        return base[:_MAX_GENERATED_BASE] + self.suffix()

    def uid(self) -> str:
        """A random UUID. It does not come from the system's generator, which costs a system call per object, nor from
        `uuid.UUID`, which takes five times as long."""
        digits = f"{self._random.getrandbits(128) & ~_FIXED_BITS | _VERSION_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
