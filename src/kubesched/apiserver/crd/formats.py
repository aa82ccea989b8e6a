"""The formats of strings that a schema can ask for.

Upstream also checks numbers of books and credit cards, and colours as rgb(...). Those are accepted here, and so are
formats that upstream does not know either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_network

from kubesched.cel.formats import FORMATS

_UNIT = "ns|nanos?(?:econds?)?|us|µs|μs|micros?(?:econds?)?|ms|millis?(?:econds?)?|s|secs?|seconds?|m|mins?|minutes?"
_UNIT += "|h|hrs?|hours?|d|days?|w|wks?|weeks?"
_DURATION = re.compile(rf"[+-]?(?:\d+(?:\.\d*)?\s*(?:{_UNIT})\s*)+|0|P[0-9YMWDTHS.]+")
_LABEL = "[a-zA-Z0-9](?:[-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}|(?:{_LABEL}\.)+[a-zA-Z]{{2,63}}")
_EMAIL = re.compile(r"[^@]*[^@\s]@[^@\s]+")
_MAC = re.compile(
    r"([0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}([:-][0-9A-Fa-f]{2}){0,2})|([0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}"
)
_HEX = "[0-9a-fA-F]"
_VARIANT = f"-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"
_PATTERNS = {
    "bsonobjectid": f"{_HEX}{{24}}",
    "hexcolor": f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})",
    "ssn": "[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}",
    "uuid3": f"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}",
    "uuid4": f"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}{_VARIANT}",
    "uuid5": f"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}{_VARIANT}",
}


def fits(text: str, name: str) -> bool:
    """Whether a text has the format of this name."""
    check = _FORMATS.get(name)
    return check is None or check(text)


def _pattern(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _parser(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def _is_cidr(text: str) -> bool:
    return "/" in text and _parser(lambda each: ip_network(each, strict=False))(text)


def _in_cel(name: str) -> Callable[[str], bool]:
    """A format that expressions can ask for too."""
    return lambda text: not FORMATS[name].errors(text.upper() if name == "datetime" else text)


_FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": lambda text: bool(text) and _in_cel("byte")(text),
    "cidr": _is_cidr,
    "date": _in_cel("date"),
    "date-time": _in_cel("datetime"),
    "datetime": _in_cel("datetime"),
    "duration": _pattern(_DURATION),
    "email": _pattern(_EMAIL),
    "hostname": _pattern(_HOSTNAME),
    "ipv4": _parser(IPv4Address),
    "ipv6": _parser(IPv6Address),
    "k8s-long-name": _in_cel("dns1123Subdomain"),
    "k8s-short-name": _in_cel("dns1123Label"),
    "mac": _pattern(_MAC),
    "uri": _in_cel("uri"),
    "uuid": _in_cel("uuid"),
    **{name: _pattern(re.compile(pattern)) for name, pattern in _PATTERNS.items()},
}
