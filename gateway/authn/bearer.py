"""The one credential of a request: `Authorization: Bearer …` (RFC 6750 section 2.1). Pure.

A request with two credentials has two readings, and the one that a proxy before us or a client meant need not be ours; so
it is refused, whichever of them are good.
"""

from __future__ import annotations

from typing import Final

from gateway.authn.verdict import Why, refused
from gateway.errors import Problem, Reason

Headers = tuple[tuple[bytes, bytes], ...]
"""As the guard took them: names in lower case, in the order of arrival."""

_OTHER_CREDENTIALS: Final = frozenset({b"api-key", b"x-api-key", b"x-goog-api-key", b"proxy-authorization"})
"""Headers in which clients of OpenAI and its kin send keys. They are not read, only counted."""
_PROTOCOL_KEY: Final = b"openai-insecure-api-key."
"""The WebSocket sub-protocol in which a browser sends its key."""


def bearer_token(headers: Headers) -> bytes:
    """The token; a browser's WebSocket has no header for it, and names it among its sub-protocols. Raises Problem: 400 for
    more than one credential, 401 for none or another scheme."""
    authorization: bytes | None = None
    named: list[bytes] = []
    others = 0
    for name, value in headers:
        if name == b"authorization":
            if authorization is not None:
                raise Problem(Reason.AMBIGUOUS_CREDENTIALS)
            authorization = value
        elif name in _OTHER_CREDENTIALS:
            others += 1
        elif name == b"sec-websocket-protocol":
            offered = [protocol.strip() for protocol in value.split(b",")]
            named += [one[len(_PROTOCOL_KEY) :] for one in offered if one.lower().startswith(_PROTOCOL_KEY)]
    if len(named) + others > (authorization is None):
        raise Problem(Reason.AMBIGUOUS_CREDENTIALS)
    if authorization is None:
        if not named:
            raise refused(Why.NO_CREDENTIAL)
        authorization = b"Bearer " + named[0]
    scheme, _, token = authorization.partition(b" ")
    token = token.strip(b" \t")
    if b"," in token:
        raise Problem(Reason.AMBIGUOUS_CREDENTIALS)
    if scheme.lower() != b"bearer" or not token or b" " in token:
        raise refused(Why.NO_CREDENTIAL)
    return token
