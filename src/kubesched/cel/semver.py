"""Semantic versions: ``semver('1.2.3').isLessThan(semver('2.0.0'))``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.values import MAX_UINT, register

library = Library()

_NUMBER = re.compile(r"[0-9]*\Z", re.ASCII)
_WORD = re.compile(r"[0-9A-Za-z-]*\Z", re.ASCII)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version. Build metadata takes no part in comparisons."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    def _key(self) -> tuple[object, ...]:
        parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease)
        return self.major, self.minor, self.patch, not self.prerelease, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._key() == other._key()

    def __lt__(self, other: Semver) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @classmethod
    def parse(cls, text: str) -> Semver:
        """Read a version strictly. Raises ValueError with upstream's words."""
        if not text:
            raise ValueError("Version string empty")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise ValueError("No Major.Minor.Patch elements found")
        major, minor = _number("Major", parts[0]), _number("Minor", parts[1])
        rest, _, build = parts[2].partition("+")
        builds = tuple(build.split(".")) if "+" in parts[2] else ()
        patch, _, prerelease = rest.partition("-")
        prereleases = tuple(prerelease.split(".")) if "-" in rest else ()
        number = _number("Patch", patch)
        for part in prereleases:
            _check_prerelease(part)
        for part in builds:
            _check_build(part)
        return cls(major, minor, number, prereleases, builds)


register(Semver, "kubernetes.Semver")


def _number(part: str, text: str) -> int:
    if not _NUMBER.match(text):
        raise ValueError(f'Invalid character(s) found in {part.lower()} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'{part} number must not contain leading zeroes "{text}"')
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if not text:
        raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > MAX_UINT:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _check_prerelease(text: str) -> None:
    if not text:
        raise ValueError("Prerelease is empty")
    if _NUMBER.match(text):
        if len(text) > 1 and text[0] == "0":
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
        _unsigned(text)
    elif not _WORD.match(text):
        raise ValueError(f'Invalid character(s) found in prerelease "{text}"')


def _check_build(text: str) -> None:
    if not text:
        raise ValueError("Build meta data is empty")
    if not _WORD.match(text):
        raise ValueError(f'Invalid character(s) found in build meta data "{text}"')


def normalized(text: str) -> str:
    """Drop a leading ``v`` and leading zeroes, and add the numbers that are missing."""
    parts = [_without_zeroes(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_zeroes(part: str) -> str:
    if len(part) <= 1:
        return part
    rest = part.lstrip("0")
    return rest if rest and rest[0] in "0123456789" else f"0{rest}"


@library.define(string_to_semver="semver(string) -> semver", string_bool_to_semver="semver(string, bool) -> semver")
def semver(text: str, normalize: bool = False) -> Semver:
    try:
        return Semver.parse(normalized(text) if normalize else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


@library.define(is_semver_string="isSemver(string) -> bool", is_semver_string_bool="isSemver(string, bool) -> bool")
def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        Semver.parse(normalized(text) if normalize else text)
    except ValueError:
        return False
    return True


@library.define(semver_major="semver.major() -> int")
def major(version: Semver) -> int:
    return version.major


@library.define(semver_minor="semver.minor() -> int")
def minor(version: Semver) -> int:
    return version.minor


@library.define(semver_patch="semver.patch() -> int")
def patch(version: Semver) -> int:
    return version.patch


@library.define(semver_is_less_than="semver.isLessThan(semver) -> bool")
def less(version: Semver, other: Semver) -> bool:
    return version < other


@library.define(semver_is_greater_than="semver.isGreaterThan(semver) -> bool")
def greater(version: Semver, other: Semver) -> bool:
    return version > other


@library.define(semver_compare_to="semver.compareTo(semver) -> int")
def compare_to(version: Semver, other: Semver) -> int:
    return (version > other) - (version < other)
