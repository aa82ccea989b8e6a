"""Go's ways of writing strings and numbers, which is what klog's output is made of."""

from __future__ import annotations

import json
from decimal import Decimal

_SHORT = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def quote(text: str) -> str:
    """``strconv.Quote``: printable characters stand for themselves."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def quote_ascii(data: bytes) -> str:
    """``%+q`` of bytes: valid UTF-8 beyond ASCII is written as code points, everything else as bytes."""
    text = data.decode("utf-8", "surrogateescape")
    return '"' + "".join(char if " " <= char <= "~" and char not in '"\\' else _escape(char) for char in text) + '"'


def _escaped(char: str) -> str:
    return char if char.isprintable() and char not in '"\\' else _escape(char)


def _escape(char: str) -> str:
    code = ord(char)
    if code in _SHORT:
        return _SHORT[code]
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte that is not UTF-8, which Python keeps as a surrogate
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """A float as Go's ``encoding/json`` writes it: no ".0", and an exponent only for the very large and very small."""
    if value != value or value in (float("inf"), float("-inf")):
        return quote(str(value))
    if value and not 1e-6 <= abs(value) < 1e21:
        mantissa, _, exponent = repr(value).partition("e")
        return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].lstrip('0')}"
    return plain_number(value)


def plain_number(value: float) -> str:
    """A float in full, without exponent."""
    text = repr(value)
    if "e" in text:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


def compact_json(value: object) -> str:
    """``encoding/json`` of JSON's own types: no spaces, keys in order, and nothing that a browser takes for HTML."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact_json(key)}:{compact_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(compact_json, value)) + "]"
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False).translate(_HTML)
