"""URLs: ``url('https://example.com:80/path').getHost()``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, quote

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.values import register

library = Library()
define = library.define

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.ASCII | re.DOTALL)
_BAD_HOST = re.compile(r"[ \"<>\\^`{|}\x00-\x1f\x7f]")
_PATH_SAFE = "$&+,/:;=@-_.~!'()*%[]"


@dataclass(frozen=True, slots=True)
class URL:
    scheme: str
    host: str
    path: str
    query: str
    text: str


register(URL, "kubernetes.URL")


def parse_url(text: str) -> URL:
    """Read an absolute URL or an absolute path. Raises ValueError with the words of Go's net/url."""
    if not text:
        raise ValueError("empty url")
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError("net/url: invalid control character in URL")
    scheme, rest = _scheme(text)
    rest, _, _fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise ValueError("invalid URI for request")
        return URL(scheme, "", "", query, text)
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    if bad := _BAD_ESCAPE.search(rest):
        raise ValueError(f'invalid URL escape "{bad[0]}"')
    return URL(scheme, host, rest, query, text)


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if match:
        return match[1].lower(), text[match.end() :]
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    return "", text


def _host(authority: str) -> str:
    host = authority.rpartition("@")[2]
    if host.startswith("["):
        closing = host.rfind("]")
        if closing < 0:
            raise ValueError("missing ']' in host")
        port = host[closing + 1 :]
    else:
        port = host[host.rfind(":") :] if ":" in host else ""
        if bad := _BAD_HOST.search(host):
            raise ValueError(f'invalid character "{bad[0]}" in host name')
    if port and not re.fullmatch(r":[0-9]*", port):
        raise ValueError(f'invalid port "{port}" after host')
    return host


@define(string_to_url="url(string) -> url")
def url(text: str) -> URL:
    try:
        return parse_url(text)
    except ValueError as error:
        raise EvaluationError(f'URL parse error during conversion from string: parse "{text}": {error}') from None


@define(is_url_string="isURL(string) -> bool")
def is_url(text: str) -> bool:
    try:
        parse_url(text)
    except ValueError:
        return False
    return True


@define(url_get_scheme="url.getScheme() -> string")
def get_scheme(value: URL) -> str:
    return value.scheme


@define(url_get_host="url.getHost() -> string")
def get_host(value: URL) -> str:
    return value.host


def _split(host: str) -> tuple[str, str]:
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name, port.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port


@define(url_get_hostname="url.getHostname() -> string")
def get_hostname(value: URL) -> str:
    return _split(value.host)[0]


@define(url_get_port="url.getPort() -> string")
def get_port(value: URL) -> str:
    return _split(value.host)[1]


@define(url_get_escaped_path="url.getEscapedPath() -> string")
def get_escaped_path(value: URL) -> str:
    return quote(value.path, safe=_PATH_SAFE)


@define(url_get_query="url.getQuery() -> map(string, list(string))")
def get_query(value: URL) -> dict[str, list[str]]:
    return parse_qs(value.query, keep_blank_values=True)
