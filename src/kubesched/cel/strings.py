"""The string functions: ``'a,b'.split(',')``, ``'HELLO'.lowerAscii()``."""

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library, no_such_overload

library = Library()
define = library.define

_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = {value: key for key, value in _LOWER.items()}
# What Go takes for white space. Python's strip() would also remove the separators U+001C to U+001F.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
#: The longest string that a function may build.
_MAX_RESULT = 10_000_000


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _bounded(text: str, parts: int, part: str) -> None:
    if len(text) + parts * len(part) > _MAX_RESULT:
        raise EvaluationError("result is too long")


@define(string_char_at_int="string.charAt(int) -> string")
def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


@define(
    string_index_of_string="string.indexOf(string) -> int",
    string_index_of_string_int="string.indexOf(string, int) -> int",
)
def index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise _out_of_range(start)
    if not part:
        return start
    return text.find(part, start)


@define(
    string_last_index_of_string="string.lastIndexOf(string) -> int",
    string_last_index_of_string_int="string.lastIndexOf(string, int) -> int",
)
def last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise _out_of_range(start)
    if not part:
        return start
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


@define(list_join="list(string).join() -> string", list_join_string="list(string).join(string) -> string")
def join(items: list[object], separator: str = "") -> str:
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) != len(items):
        raise no_such_overload("join", (list,))
    _bounded("".join(texts), len(texts), separator)
    return separator.join(texts)


@define(string_lower_ascii="string.lowerAscii() -> string")
def lower(text: str) -> str:
    return text.translate(_LOWER)


@define(string_upper_ascii="string.upperAscii() -> string")
def upper(text: str) -> str:
    return text.translate(_UPPER)


@define(
    string_replace_string_string="string.replace(string, string) -> string",
    string_replace_string_string_int="string.replace(string, string, int) -> string",
)
def replace(text: str, old: str, new: str, count: int = -1) -> str:
    _bounded(text, text.count(old), new)
    return text.replace(old, new, max(count, -1))


@define(
    string_split_string="string.split(string) -> list(string)",
    string_split_string_int="string.split(string, int) -> list(string)",
)
def split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, max(limit - 1, -1))
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


@define(
    string_substring_int="string.substring(int) -> string",
    string_substring_int_int="string.substring(int, int) -> string",
)
def substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise _out_of_range(start)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end > len(text):
        raise _out_of_range(end)
    return text[start:end]


@define(string_trim="string.trim() -> string")
def trim(text: str) -> str:
    return text.strip(_SPACE)


@define(strings_quote="strings::quote(string) -> string")
def quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(character, character) for character in text) + '"'
