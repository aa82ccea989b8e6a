"""Named formats: ``format.dns1123Label().validate('my-name')`` returns the errors, or nothing."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.cel.functions import Library
from kubesched.cel.regexes import compiled
from kubesched.cel.times import parse_timestamp
from kubesched.cel.urls import parse_url
from kubesched.cel.values import NONE, Optional, register

library = Library()

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UUID = "(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"

_ALNUM = "and must start and end with an alphanumeric character"
_RULES = {
    _LABEL: f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM} (e.g. "
    "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    _SUBDOMAIN: "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    f"{_ALNUM} (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')",
    _LABEL_1035: "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_LABEL_1035}')",
}


@dataclass(frozen=True, slots=True)
class Format:
    """A named format. ``pattern_cost`` is what its pattern adds to the cost of a validation."""

    name: str
    errors: Callable[[str], list[str]] = field(compare=False)
    pattern_cost: int = field(compare=False)


register(Format, "kubernetes.NamedFormat")


def _full(pattern: str, text: str) -> bool:
    return compiled(f"^(?:{pattern})$").search(text) is not None


def _name(pattern: str, limit: int, prefix: bool = False) -> Callable[[str], list[str]]:
    def errors(text: str) -> list[str]:
        # The prefix of a name may end with a dash: something valid follows it.
        if prefix and len(text) > 1 and text.endswith("-"):
            text = text[:-2] + "a"
        found = [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []
        return found if _full(pattern, text) else [*found, _RULES[pattern]]

    return errors


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except ValueError as error:
        return [f'parse "{text}": {error}']
    return []


def _uuid(text: str) -> list[str]:
    return [] if _full(_UUID, text) else ["does not match the UUID format"]


def _base64(text: str) -> list[str]:
    try:
        base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return [] if len(text) == 10 else ["invalid date"]


def _datetime(text: str) -> list[str]:
    return [] if parse_timestamp(text) is not None else ["invalid datetime"]


FORMATS: dict[str, Format] = {
    "dns1123Label": Format("DNS1123Label", _name(_LABEL, 63), 8),
    "dns1123Subdomain": Format("DNS1123Subdomain", _name(_SUBDOMAIN, 253), 15),
    "dns1035Label": Format("DNS1035Label", _name(_LABEL_1035, 63), 8),
    "qualifiedName": Format("QualifiedName", lambda text: list(label_key_errors(text)), 15),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _name(_LABEL, 63, prefix=True), 8),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _name(_SUBDOMAIN, 253, prefix=True), 15),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _name(_LABEL_1035, 63, prefix=True), 8),
    "labelValue": Format("LabelValue", lambda text: list(label_value_errors(text)), 10),
    "uri": Format("URI", _uri, 276),
    "uuid": Format("uuid", _uuid, 18),
    "byte": Format("byte", _base64, 21),
    "date": Format("date", _date, 18),
    "datetime": Format("datetime", _datetime, 18),
}


def _constants() -> None:
    for name, value in FORMATS.items():
        library.define(**{f"format.{name}": f"format::{name}() -> format"})(lambda value=value: value)


_constants()


@library.define(**{"format-named": "format::named(string) -> optional_type(format)"})
def named(name: str) -> Optional:
    return Optional(True, FORMATS[name]) if name in FORMATS else NONE


@library.define(**{"format-validate": "format.validate(string) -> optional_type(list(string))"})
def validate(value: Format, text: str) -> Optional:
    errors = value.errors(text)
    return Optional(True, errors) if errors else NONE
