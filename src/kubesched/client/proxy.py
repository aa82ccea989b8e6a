"""Which proxy to use for a server, by the rules of Go programs for environment variables.

Requests to an address inside the cluster must not go to a company's proxy. So NO_PROXY is read as kube-scheduler reads
it: names with their subdomains, addresses and networks, each with or without a port.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

SOCKS = ("socks5", "socks5h")
SCHEMES = ("http", "https", *SOCKS)


def is_socks(address: str) -> bool:
    return urlsplit(address).scheme in SOCKS


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """The proxy for requests to `url`, or None. Raises ValueError if the environment names one that cannot be used."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    name = f"{parts.scheme}_proxy"
    proxy = env.get(name.upper()) or env.get(name) or ""
    if not proxy or _is_local(host) or _is_exempt(host, port, env.get("NO_PROXY") or env.get("no_proxy") or ""):
        return None
    found = proxy if "://" in proxy else f"http://{proxy}"
    if problem := what_is_wrong(found):
        raise ValueError(f"{name.upper()}: {problem}")
    return found


def what_is_wrong(address: str) -> str:
    """Why an address cannot be used as a proxy, or the empty string. It never shows credentials."""
    try:
        parts = urlsplit(address)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        return "it is not an address"
    if parts.scheme not in SCHEMES:
        return f"unsupported scheme {parts.scheme!r}, must be http, https, or socks5"
    return "" if host else "it names no host"


def _is_local(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_exempt(host: str, port: int, exempt: str) -> bool:
    return any(_matches(host.lower().rstrip("."), port, entry.strip().lower()) for entry in exempt.split(","))


def _matches(host: str, port: int, entry: str) -> bool:
    if entry in ("", "*"):
        return entry == "*"
    address = _address(host)
    if address is not None and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, entry_port = _split_port(entry)
    if entry_port and entry_port != str(port):
        return False
    if address is not None:
        return _address(name) == address
    # "example.com" matches itself and its subdomains; ".example.com" and "*.example.com" match only subdomains.
    domain = name.removeprefix("*")
    return host.endswith(domain) if domain.startswith(".") else host == domain or host.endswith(f".{domain}")


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""
