"""IP addresses and networks: ``cidr('10.0.0.0/8').containsIP('10.1.2.3')``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.values import register

library = Library()
define = library.define

_PARSE = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True)
class IP:
    address: IPv4Address | IPv6Address

    @property
    def cost_size(self) -> int:
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class CIDR:
    address: IPv4Address | IPv6Address
    bits: int

    @property
    def cost_size(self) -> int:
        return -(-self.bits // 8)

    @property
    def network(self) -> IPv4Network | IPv6Network:
        return ip_network(f"{self.address}/{self.bits}", strict=False)

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"


register(IP, "net.IP")
register(CIDR, "net.CIDR")


def _address(text: str) -> IPv4Address | IPv6Address:
    """Read an address. Raises ValueError with the words of Go's netip."""
    try:
        return ip_address(text)
    except ValueError:
        raise ValueError(f'ParseAddr("{text}"): {_reason(text)}') from None


def _reason(text: str) -> str:
    if ":" in text:
        return "address string too short" if re.fullmatch(r"[0-9a-fA-F:]*", text) else "unexpected character"
    if "." not in text:
        return "unable to parse IP"
    fields = text.split(".")
    for field in fields[:4]:
        if not field:
            return "IPv4 field must have at least one digit"
        if not (field.isascii() and field.isdigit()):
            return "unexpected character"
        if len(field) > 1 and field[0] == "0":
            return "IPv4 field has octet with leading zero"
        if len(field) > 3 or int(field) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"


def parse_ip(text: str) -> IP:
    try:
        address = _address(text)
    except ValueError as error:
        raise EvaluationError(f'IP Address "{text}" parse error during conversion from string: {error}') from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return IP(address)


def parse_cidr(text: str) -> CIDR:
    prefix, slash, bits = text.rpartition("/")
    where = f'{_PARSE}{_PARSE}netip.ParsePrefix("{text}"): '
    if not slash:
        raise EvaluationError(f"{where}no '/'")
    try:
        address = _address(prefix)
    except ValueError as error:
        raise EvaluationError(f"{where}{error}") from None
    if not re.fullmatch(r"0|[1-9][0-9]{0,2}", bits, re.ASCII):
        raise EvaluationError(f'{where}bad bits after slash: "{bits}"')
    if int(bits) > address.max_prefixlen:
        raise EvaluationError(f"{where}prefix length out of range")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'{_PARSE}IPv4-mapped IPv6 address "{text}" is not allowed')
    return CIDR(address, int(bits))


define(string_to_ip="ip(string) -> ip")(parse_ip)
define(string_to_cidr="cidr(string) -> cidr")(parse_cidr)


@define(is_ip="isIP(string) -> bool")
def is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except EvaluationError:
        return False
    return True


@define(is_cidr="isCIDR(string) -> bool")
def is_cidr(text: str) -> bool:
    try:
        parse_cidr(text)
    except EvaluationError:
        return False
    return True


@define(ip_is_canonical="ip::isCanonical(string) -> bool")
def is_canonical(text: str) -> bool:
    return str(parse_ip(text).address) == text


@define(ip_family="ip.family() -> int")
def family(value: IP) -> int:
    return value.address.version


@define(ip_is_unspecified="ip.isUnspecified() -> bool")
def is_unspecified(value: IP) -> bool:
    return value.address.is_unspecified


@define(ip_is_loopback="ip.isLoopback() -> bool")
def is_loopback(value: IP) -> bool:
    return value.address.is_loopback


@define(ip_is_link_local_multicast="ip.isLinkLocalMulticast() -> bool")
def is_link_local_multicast(value: IP) -> bool:
    if isinstance(value.address, IPv4Address):
        return value.address in ip_network("224.0.0.0/24")
    return value.address in ip_network("ff02::/16") or int(value.address) >> 112 & 0xFF0F == 0xFF02


@define(ip_is_link_local_unicast="ip.isLinkLocalUnicast() -> bool")
def is_link_local_unicast(value: IP) -> bool:
    return value.address.is_link_local


@define(ip_is_global_unicast="ip.isGlobalUnicast() -> bool")
def is_global_unicast(value: IP) -> bool:
    """Go's meaning: private addresses count as global."""
    address = value.address
    if address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local:
        return False
    return str(address) != "255.255.255.255"


@define(ip_to_string="string(ip) -> string")
def ip_text(value: IP) -> str:
    return str(value.address)


@define(cidr_to_string="string(cidr) -> string")
def cidr_text(value: CIDR) -> str:
    return str(value)


@define(cidr_contains_ip_ip="cidr.containsIP(ip) -> bool")
def contains_ip(value: CIDR, other: IP) -> bool:
    return other.address in value.network


@define(cidr_contains_ip_string="cidr.containsIP(string) -> bool")
def contains_ip_text(value: CIDR, other: str) -> bool:
    if not is_ip(other):
        raise EvaluationError("no such overload")
    return contains_ip(value, parse_ip(other))


@define(cidr_contains_cidr="cidr.containsCIDR(cidr) -> bool")
def contains_cidr(value: CIDR, other: CIDR) -> bool:
    return value.bits <= other.bits and other.address in value.network


@define(cidr_contains_cidr_string="cidr.containsCIDR(string) -> bool")
def contains_cidr_text(value: CIDR, other: str) -> bool:
    return contains_cidr(value, parse_cidr(other))


@define(cidr_ip="cidr.ip() -> ip")
def cidr_ip(value: CIDR) -> IP:
    return IP(value.address)


@define(cidr_prefix_length="cidr.prefixLength() -> int")
def prefix_length(value: CIDR) -> int:
    return value.bits


@define(cidr_masked="cidr.masked() -> cidr")
def masked(value: CIDR) -> CIDR:
    return CIDR(value.network.network_address, value.bits)
