"""The formats of strings that a schema can ask for. Those that upstream does not know are accepted, as there."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address

from kubesched.cel.formats import FORMATS

_UNIT = "ns|nanos?(?:econds?)?|us|µs|μs|micros?(?:econds?)?|ms|millis?(?:econds?)?|s|secs?|seconds?|m|mins?|minutes?"
_UNIT += "|h|hrs?|hours?|d|days?|w|wks?|weeks?"
_DURATION = re.compile(rf"[+-]?(?:\d+(?:\.\d*)?\s*(?:{_UNIT})\s*)+|0|P[0-9YMWDTHS.]+")
_LABEL = "[a-zA-Z0-9](?:[-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}|(?:{_LABEL}\.)+[a-zA-Z]{{2,63}}")
_EMAIL = re.compile(r"[^@]*[^@\s]@[^@\s]+")
_BYTE = "[0-9A-Fa-f]{2}"
_MAC = re.compile(
    "|".join(f"{_BYTE}(?:{mark}{_BYTE}){{{more}}}" for mark in ":-" for more in (5, 7, 19))
    + "".join(rf"|(?:{_BYTE}{_BYTE}\.){{{more}}}{_BYTE}{_BYTE}" for more in (2, 3, 9))
)
_CREDIT_CARD = re.compile(
    "4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}"
)
_COLOUR = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_HEX = "[0-9a-fA-F]"
_VARIANT = f"-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"
_PATTERNS = {
    "bsonobjectid": f"{_HEX}{{24}}",
    "rgbcolor": rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)",
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


def _is_ip(text: str) -> bool:
    """Whether Go parses it: parts of an IPv4 address may begin with zeros, and there are no zones."""
    try:
        ip_address(re.sub(r"(?<![\w:])0+(?=\d)", "", text))
    except ValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    address, _, bits = text.rpartition("/")
    if not bits.isascii() or not bits.isdecimal():
        return False
    length = bits.lstrip("0") or "0"
    return _is_ip(address) and len(length) <= 3 and int(length) <= (128 if ":" in address else 32)


def _is_book_10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch("[0-9]{9}[0-9X]", digits, re.ASCII):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(number * value for number, value in enumerate(values, 1)) % 11 == 0


def _is_book_13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch("[0-9]{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if number % 2 else 1) for number, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]", "", text)
    if not _CREDIT_CARD.fullmatch(digits):
        return False
    doubled = (int(digit) * (2 if number % 2 else 1) for number, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _in_cel(name: str) -> Callable[[str], bool]:
    """A format that expressions can ask for too."""
    return lambda text: not FORMATS[name].errors(text.upper() if name == "datetime" else text)


_FORMATS: dict[str, Callable[[str], bool]] = {
    "byte": lambda text: bool(text) and _in_cel("byte")(text),
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _in_cel("date"),
    "date-time": _in_cel("datetime"),
    "datetime": _in_cel("datetime"),
    "duration": _pattern(_DURATION),
    "email": _pattern(_EMAIL),
    "hostname": _pattern(_HOSTNAME),
    "ipv4": lambda text: "." in text and _is_ip(text),
    "ipv6": lambda text: ":" in text and _is_ip(text),
    "isbn": lambda text: _is_book_10(text) or _is_book_13(text),
    "isbn10": _is_book_10,
    "isbn13": _is_book_13,
    "k8s-long-name": _in_cel("dns1123Subdomain"),
    "k8s-short-name": _in_cel("dns1123Label"),
    "mac": _pattern(_MAC),
    "uri": _in_cel("uri"),
    "uuid": _in_cel("uuid"),
    **{name: _pattern(re.compile(pattern)) for name, pattern in _PATTERNS.items()},
}
