"""Checks that many kinds share: names that must be set, choices, numbers, references, addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from kubesched.api.quantity import canonical, nanos
from kubesched.apiserver.validation.naming import path_segment_errors, subdomain_errors
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.base.types import JSON

Check = Callable[[JSON, Problems], None]
Comparison = Callable[[JSON, JSON, Problems], None]
NameErrors = Callable[[str], Iterable[str]]

_CIDR_RULE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_ADDRESS_RULE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def each(items: Sequence[Any] | None, path: str) -> Iterator[tuple[Any, str]]:
    """Items with their paths."""
    return ((item, f"{path}[{index}]") for index, item in enumerate(items or ()))


def check_name(text: str | None, errors: NameErrors, path: str, problems: Problems) -> None:
    """Check a name, if it is set."""
    for error in errors(text) if text else ():
        problems.invalid(path, text, error)


def check_set_name(text: str | None, errors: NameErrors, path: str, problems: Problems) -> None:
    """Check a name that may be absent, but not empty."""
    for error in errors(text) if text is not None else ():
        problems.invalid(path, text, error)


def require_name(text: str | None, errors: NameErrors, path: str, problems: Problems, detail: str = "") -> None:
    """Check a name that must be set."""
    if not text:
        problems.required(path, detail)
    check_name(text, errors, path, problems)


def check_choice(value: str | None, known: Iterable[str], path: str, problems: Problems, detail: str = "") -> None:
    """Check a value that must be one of a few."""
    if not value:
        problems.required(path, detail)
    elif value not in known:
        problems.unsupported(path, value, known)


def check_reference(reference: JSON, group_field: str, path: str, problems: Problems) -> None:
    """Check a reference by group, kind and name."""
    check_set_name(reference.get(group_field), subdomain_errors, f"{path}.{group_field}", problems)
    for field in ("kind", "name"):
        require_name(reference.get(field), path_segment_errors, f"{path}.{field}", problems)


def is_negative(amount: str | int | None) -> bool:
    """Whether a quantity is set and negative."""
    return amount is not None and nanos(amount) < 0


def check_amount(amount: str | int | None, path: str, problems: Problems) -> None:
    """Check that a quantity, if set, is not negative."""
    if amount is not None and is_negative(amount):
        problems.invalid(path, canonical(amount), "must be greater than or equal to 0")


def too_long(path: str, limit: int, problems: Problems) -> None:
    problems.add("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def too_many(items: list[Any], limit: int, path: str, problems: Problems) -> bool:
    """Report a list that is too long. Returns whether it is."""
    if len(items) <= limit:
        return False
    noun = "item" if limit == 1 else "items"
    problems.add("FieldValueTooMany", path, f"Too many: {len(items)}: must have at most {limit} {noun}")
    return True


# --- addresses --------------------------------------------------------------------------------------------------------


def _without_zeros(text: str) -> str:
    """An IPv4 address or range without leading zeros, which upstream reads but refuses."""
    return text if ":" in text else "/".join(_stripped(part) for part in text.split("/"))


def _stripped(text: str) -> str:
    return ".".join(part.lstrip("0") or "0" if part.isascii() and part.isdigit() else part for part in text.split("."))


def check_address(text: str, path: str, problems: Problems, *, canonical: bool = False) -> bool:
    """Check an IP address of either version. Returns whether it is one."""
    plain = _without_zeros(text)
    try:
        address = ip_address(plain)
    except ValueError:
        problems.invalid(path, text, _ADDRESS_RULE)
        return False
    if plain != text:
        problems.invalid(path, text, "must not have leading 0s")
    elif address.version == 6 and address.ipv4_mapped is not None:
        problems.invalid(path, text, "must not be an IPv4-mapped IPv6 address")
    elif canonical and str(address) != text:
        problems.invalid(path, text, f'must be in canonical form ("{address}")')
    else:
        return True
    return False


def check_range(
    text: str, path: str, problems: Problems, *, canonical: bool = False
) -> IPv4Network | IPv6Network | None:
    """Check a range of addresses, such as 10.0.0.0/8. Returns it if it can be read."""
    plain = _without_zeros(text)
    try:
        if not plain.partition("/")[2].isdigit():
            raise ValueError(text)
        found = ip_network(plain, strict=False)
    except ValueError:
        problems.invalid(path, text, _CIDR_RULE)
        return None
    address = ip_address(plain.partition("/")[0])
    if plain != text:
        problems.invalid(path, text, "must not have leading 0s in IP or prefix length")
    elif address.version == 6 and address.ipv4_mapped is not None:
        problems.invalid(path, text, "must not have an IPv4-mapped IPv6 address")
    elif address != found.network_address:
        problems.invalid(path, text, "must not have bits set beyond the prefix length")
    elif canonical and str(found) != text:
        problems.invalid(path, text, f'must be in canonical form ("{found}")')
    return found


def check_endpoint_address(text: str, path: str, problems: Problems) -> None:
    """Check that an address can be that of an endpoint."""
    try:
        address = ip_address(_without_zeros(text))
    except ValueError:
        problems.invalid(path, text, "must be a valid IP address")
        return
    if address.is_unspecified:
        problems.invalid(path, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        problems.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        problems.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if text.startswith("224.0.0.") or (address.version == 6 and address.packed[:2] == b"\xff\x02"):
        problems.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


# --- updates ----------------------------------------------------------------------------------------------------------


def fixed(*paths: str) -> Comparison:
    """The fields at these paths cannot be changed."""

    def compare(old: JSON, new: JSON, problems: Problems) -> None:
        for path in paths:
            before, after = value_at(old, path), value_at(new, path)
            if before != after:
                problems.invalid(path, after, IMMUTABLE)

    return compare


def value_at(obj: JSON, path: str) -> Any:
    """The value at a path of plain fields; None if there is none."""
    value: Any = obj
    for part in path.split("."):
        value = (value or {}).get(part)
    return value
