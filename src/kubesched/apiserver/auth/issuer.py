"""OpenID discovery: where others find the key that service account tokens are signed with."""

from __future__ import annotations

from kubesched.apiserver.auth.tokens import ISSUER, Tokens
from kubesched.apiserver.storage.store import encode
from kubesched.apiserver.wire.request import ApiRequest, ApiResponse
from kubesched.apiserver.wire.status import NoSuchPageError

_KEYS_PATH = "/openid/v1/jwks"
_HEADERS = {"Cache-Control": "public, max-age=3600"}


class Issuer:
    """Serves the two documents of the issuer of tokens."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def handle(self, request: ApiRequest, _parts: list[str]) -> ApiResponse:
        """The document at a path."""
        if request.path == "/.well-known/openid-configuration":
            return ApiResponse(body=encode(_configuration(request.headers.get("host", ""))), headers=_HEADERS)
        if request.path == _KEYS_PATH:
            keys = encode({"keys": [self._tokens.public_key()]})
            return ApiResponse(body=keys, content_type="application/jwk-set+json", headers=_HEADERS)
        raise NoSuchPageError


def _configuration(host: str) -> dict[str, str | list[str]]:
    return {
        "issuer": ISSUER,
        "jwks_uri": f"https://{host}{_KEYS_PATH}",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
