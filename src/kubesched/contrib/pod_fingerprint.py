"""Fingerprints of pods: how a NodeResourceTopology says which pods it includes.

The format is that of the agents: the XXH64 hashes of all pods, sorted and hashed again. A pod's hash is that of its
name, seeded with the hash of its namespace.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

PREFIX: Final = "pfp0v001"
_MASK: Final = 2**64 - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of pods, each given by its namespace and name, in any order."""
    hashes = sorted(_pod_hash(namespace, name) for namespace, name in pods)
    return f"{PREFIX}{xxh64(struct.pack(f'<{len(hashes)}Q', *hashes)):016x}"


@lru_cache(maxsize=1 << 16)
def _pod_hash(namespace: str, name: str) -> int:
    """Cached, because the same pods are hashed at every resync of their node."""
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(data: bytes, seed: int = 0) -> int:
    """The XXH64 hash of some bytes."""
    stripes, rest = divmod(len(data), 32)
    result = _of_stripes(data, stripes, seed) if stripes else (seed + _P5) & _MASK
    result = (result + len(data)) & _MASK
    position = len(data) - rest
    while len(data) - position >= 8:
        result ^= _round(0, int.from_bytes(data[position : position + 8], "little"))
        result = (_rotated(result, 27) * _P1 + _P4) & _MASK
        position += 8
    if len(data) - position >= 4:
        result ^= int.from_bytes(data[position : position + 4], "little") * _P1 & _MASK
        result = (_rotated(result, 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in data[position:]:
        result = _rotated(result ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    return _mixed(result)


def _of_stripes(data: bytes, count: int, seed: int) -> int:
    """The first part of the hash, over all whole stripes of 32 bytes."""
    lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
    for words in struct.iter_unpack("<4Q", data[: 32 * count]):
        lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
    result = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        result = ((result ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return result


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _mixed(value: int) -> int:
    """The last step: every bit of the input may change every bit of the result."""
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32
