"""Validation of names, with upstream's messages."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PERCENT = re.compile(r"[0-9]+%")
_MOST, _MAX_DIGITS = 2**63 - 1, 19
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or"
    " 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for"
    " validation is '[0-9]+%')"
)
ENVIRONMENT_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_MAX_LABEL, _MAX_SUBDOMAIN, _MAX_PORT_NAME = 63, 253, 15
_HOST_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_HOST_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    " '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_WILDCARD = re.compile(rf"\*\.{_SUBDOMAIN.pattern}")
_WILDCARD_RULE = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower"
    " case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used"
    f" for validation is '{_WILDCARD.pattern}')"
)
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def label_errors(name: str) -> Iterator[str]:
    """The problems of a DNS label, such as the name of a container or namespace."""
    if len(name) > _MAX_LABEL:
        yield f"must be no more than {_MAX_LABEL} characters"
    if not _LABEL.fullmatch(name):
        yield "must not contain dots" if _SUBDOMAIN.fullmatch(name) else _LABEL_RULE


def subdomain_errors(name: str) -> Iterator[str]:
    """The problems of a DNS subdomain, such as the names of most objects."""
    if len(name) > _MAX_SUBDOMAIN:
        yield f"must be no more than {_MAX_SUBDOMAIN} characters"
    if not _SUBDOMAIN.fullmatch(name):
        yield _SUBDOMAIN_RULE


_SEARCH = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_SEARCH_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start"
    " and end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    f" '{_SEARCH.pattern}')"
)


def search_errors(name: str) -> Iterator[str]:
    """The problems of a domain to search for hosts, which may have underscores."""
    if len(name) > _MAX_SUBDOMAIN:
        yield f"must be no more than {_MAX_SUBDOMAIN} characters"
    if not _SEARCH.fullmatch(name):
        yield _SEARCH_RULE


def host_label_errors(name: str) -> Iterator[str]:
    """The problems of a DNS label that starts with a letter, such as a version."""
    if len(name) > _MAX_LABEL:
        yield f"must be no more than {_MAX_LABEL} characters"
    if not _HOST_LABEL.fullmatch(name):
        yield _HOST_LABEL_RULE


def host_errors(name: str) -> Iterator[str]:
    """The problems of a host name whose first part may be a star."""
    if "*" not in name:
        yield from subdomain_errors(name)
        return
    if len(name) > _MAX_SUBDOMAIN:
        yield f"must be no more than {_MAX_SUBDOMAIN} characters"
    if not _WILDCARD.fullmatch(name):
        yield _WILDCARD_RULE


def qualified_host_errors(name: str, least: int) -> Iterator[str]:
    """The problems of a domain with at least so many parts."""
    if errors := ",".join(subdomain_errors(name)):
        yield errors
    elif name.count(".") < least - 1:
        yield f"should be a domain with at least {_NUMBERS[least]} segments separated by dots"


_NUMBERS = {2: "two", 3: "three"}


def domain_path_errors(name: str) -> Iterator[tuple[str, str]]:
    """The problems of a domain and a path, such as example.com/controller: the wrong part and what is wrong."""
    host, _, path = name.partition("/")
    if not host or not path:
        yield name, 'must be a domain-prefixed path (such as "acme.io/foo")'
        return
    for error in subdomain_errors(host):
        yield host, error
    if not _PATH.fullmatch(path):
        yield path, f"Invalid path (regex used for validation is '{_PATH.pattern}')"


def path_segment_errors(name: str) -> Iterator[str]:
    """The problems of a name that only has to fit between two slashes of a path."""
    if name in (".", ".."):
        yield f"may not be '{name}'"
    for character in "/%":
        if character in name:
            yield f"may not contain '{character}'"


def port_name_errors(name: str) -> Iterator[str]:
    """The problems of the name of a port."""
    if len(name) > _MAX_PORT_NAME:
        yield f"must be no more than {_MAX_PORT_NAME} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def config_key_errors(key: str) -> Iterator[str]:
    """The problems of a key in a ConfigMap or Secret."""
    if len(key) > _MAX_SUBDOMAIN:
        yield f"must be no more than {_MAX_SUBDOMAIN} characters"
    if not _CONFIG_KEY.fullmatch(key):
        yield _CONFIG_KEY_RULE


def is_percent(text: str) -> bool:
    return _PERCENT.fullmatch(text) is not None


def percentage(text: str) -> int:
    """The number in a text such as 25%, at most the largest of Go's: Python refuses to read thousands of digits."""
    digits = text[:-1].lstrip("0") or "0"
    return min(int(digits), _MOST) if len(digits) <= _MAX_DIGITS else _MOST


def is_environment_name(name: str) -> bool:
    return all(" " <= character <= "~" and character != "=" for character in name)
