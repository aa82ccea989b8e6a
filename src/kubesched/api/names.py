"""What Kubernetes accepts as a label key or value (and so as a resource name), with upstream's messages for the rest.

A selector with an invalid key is not just useless: upstream rejects it in a certain place with a certain text, and that
text ends up in events that people search for.
"""

import re
from functools import lru_cache

_LABEL_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_LABEL_KEY})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

_MAX_LABEL = 63
_MAX_SUBDOMAIN = 253

_LABEL_KEY_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_LABEL_KEY}')"
)
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character"
    f" (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_LABEL_VALUE}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character"
    f" (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


@lru_cache(maxsize=4096)
def label_key_errors(key: str) -> tuple[str, ...]:
    """What is wrong with a label key; nothing if it is valid."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return (
            f"a valid label key {_LABEL_KEY_RULE}"
            " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    errors = [f"prefix part {error}" for error in _prefix_errors(prefix)] if slash else []
    return (*errors, *(f"name part {error}" for error in _name_errors(name)))


def _prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    errors = []
    if len(prefix.encode()) > _MAX_SUBDOMAIN:
        errors.append(_too_long(_MAX_SUBDOMAIN))
    if not re.fullmatch(_SUBDOMAIN, prefix):
        errors.append(_SUBDOMAIN_RULE)
    return errors


def _name_errors(name: str) -> list[str]:
    errors = []
    if not name:
        errors.append("must be non-empty")
    elif len(name.encode()) > _MAX_LABEL:
        errors.append(_too_long(_MAX_LABEL))
    if not re.fullmatch(_LABEL_KEY, name):
        errors.append(_LABEL_KEY_RULE)
    return errors


@lru_cache(maxsize=4096)
def label_value_errors(value: str) -> tuple[str, ...]:
    """What is wrong with a label value; nothing if it is valid."""
    errors = []
    if len(value.encode()) > _MAX_LABEL:
        errors.append(_too_long(_MAX_LABEL))
    if not re.fullmatch(_LABEL_VALUE, value):
        errors.append(_LABEL_VALUE_RULE)
    return tuple(errors)
