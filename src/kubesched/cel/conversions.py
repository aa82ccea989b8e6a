"""Conversions between types: ``int('7')``, ``string(1.5)``, ``type(x)``."""

import re
from decimal import Decimal

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.standard import checked_int, checked_timestamp, checked_uint
from kubesched.cel.times import duration_text, parse_duration, parse_timestamp, timestamp_text
from kubesched.cel.values import MAX_INT, MAX_UINT, MIN_INT, NANOS, Duration, Timestamp, TypeValue, Uint, name_of

library = Library()
define = library.define

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}\Z", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)\Z", re.ASCII | re.IGNORECASE
)
_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}


def failed(source: str, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{source}' to '{target}'")


@define(
    bool_to_bool="bool(bool) -> bool",
    int64_to_int64="int(int) -> int",
    uint64_to_uint64="uint(uint) -> uint",
    double_to_double="double(double) -> double",
    string_to_string="string(string) -> string",
    bytes_to_bytes="bytes(bytes) -> bytes",
    timestamp_to_timestamp="timestamp(timestamp) -> timestamp",
    duration_to_duration="duration(duration) -> duration",
    to_dyn="dyn(A) -> dyn",
)
def identity(value: object) -> object:
    return value


@define(type="type(A) -> type(A)")
def type_value(value: object) -> TypeValue:
    return TypeValue(name_of(type(value)))


@define(string_to_bool="bool(string) -> bool")
def bool_of(text: str) -> bool:
    if text not in _BOOLS:
        raise failed("string", "bool")
    return _BOOLS[text]


@define(uint64_to_int64="int(uint) -> int")
def int_of_uint(value: Uint) -> int:
    return checked_int(int(value))


@define(double_to_int64="int(double) -> int")
def int_of_double(value: float) -> int:
    if not MIN_INT < value < MAX_INT:
        raise EvaluationError("integer overflow")
    return int(value)


@define(string_to_int64="int(string) -> int")
def int_of_string(text: str) -> int:
    if not _INTEGER.match(text) or not MIN_INT <= int(text) <= MAX_INT:
        raise failed("string", "int")
    return int(text)


@define(timestamp_to_int64="int(timestamp) -> int")
def int_of_timestamp(value: Timestamp) -> int:
    return value.nanos // NANOS


@define(duration_to_int64="int(duration) -> int")
def int_of_duration(value: Duration) -> int:
    return value.nanos


@define(int64_to_uint64="uint(int) -> uint")
def uint_of_int(value: int) -> Uint:
    return checked_uint(value)


@define(double_to_uint64="uint(double) -> uint")
def uint_of_double(value: float) -> Uint:
    if not 0 <= value < MAX_UINT:
        raise EvaluationError("unsigned integer overflow")
    return Uint(int(value))


@define(string_to_uint64="uint(string) -> uint")
def uint_of_string(text: str) -> Uint:
    if not _INTEGER.match(text) or text[0] in "+-" or int(text) > MAX_UINT:
        raise failed("string", "uint")
    return Uint(int(text))


@define(int64_to_double="double(int) -> double", uint64_to_double="double(uint) -> double")
def double_of_number(value: int) -> float:
    return float(value)


@define(string_to_double="double(string) -> double")
def double_of_string(text: str) -> float:
    if not _FLOAT.match(text):
        raise failed("string", "double")
    value = float(text)
    if value in (float("inf"), float("-inf")) and "inf" not in text.lower():
        raise failed("string", "double")
    return value


@define(bool_to_string="string(bool) -> string")
def string_of_bool(value: bool) -> str:
    return "true" if value else "false"


@define(int64_to_string="string(int) -> string", uint64_to_string="string(uint) -> string")
def string_of_int(value: int) -> str:
    return str(int(value))


@define(double_to_string="string(double) -> string")
def string_of_double(value: float) -> str:
    """As Go prints it: the shortest digits that read back, with an exponent below 1e-4 and from 1e6 on."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text, power = "".join(map(str, digits)), int(exponent) + len(digits) - 1
    minus = "-" if sign else ""
    if -4 <= power < 6:
        return minus + format(Decimal(repr(abs(value))).normalize(), "f")
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{minus}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


@define(bytes_to_string="string(bytes) -> string")
def string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


@define(string_to_bytes="bytes(string) -> bytes")
def bytes_of_string(text: str) -> bytes:
    return text.encode()


@define(timestamp_to_string="string(timestamp) -> string")
def string_of_timestamp(value: Timestamp) -> str:
    return timestamp_text(value)


@define(duration_to_string="string(duration) -> string")
def string_of_duration(value: Duration) -> str:
    return duration_text(value)


@define(string_to_timestamp="timestamp(string) -> timestamp")
def timestamp_of_string(text: str) -> Timestamp:
    value = parse_timestamp(text)
    if value is None:
        raise failed("string", "google.protobuf.Timestamp")
    return value


@define(int64_to_timestamp="timestamp(int) -> timestamp")
def timestamp_of_int(seconds: int) -> Timestamp:
    return checked_timestamp(seconds * NANOS)


@define(string_to_duration="duration(string) -> duration")
def duration_of_string(text: str) -> Duration:
    value = parse_duration(text)
    if value is None:
        raise failed("string", "google.protobuf.Duration")
    return value


@define(int64_to_duration="duration(int) -> duration")
def duration_of_int(nanos: int) -> Duration:
    return Duration(nanos)
