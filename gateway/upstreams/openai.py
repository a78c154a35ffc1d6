"""OpenAI: which headers go to it, and which of its headers reach a client. Both are allow-lists; what is not named here stays.

Sources: https://platform.openai.com/docs/api-reference (authentication, debugging requests); for what the SDKs read of an
answer, `_base_client.py` of `openai`.
"""

import re
from collections.abc import Iterable

from gateway.upstreams.answer import Headers
from gateway.upstreams.credentials import UpstreamCredential

USER_AGENT = b"coatcheck"

# Values of OpenAI-Beta whose surfaces this gateway serves.
_BETA = frozenset({b"responses_multi_agent=v1"})

_OCTETS = b"application/octet-stream"
_MEDIA_TYPES = frozenset(
    {
        b"application/json", b"application/jsonl", b"application/x-ndjson", b"application/sdp", b"application/zip",
        b"audio/aac", b"audio/flac", b"audio/mpeg", b"audio/ogg", b"audio/opus", b"audio/pcm", b"audio/wav",
        b"image/jpeg", b"image/png", b"image/webp", b"text/event-stream", b"text/plain", b"video/mp4", _OCTETS,
    }
)  # fmt: skip

_SECONDS = re.compile(rb"[0-9]{1,8}(?:\.[0-9]{1,6})?")
# Each header that passes, and the whole of what its value may be. No value has room for an identifier.
_TO_CLIENT = {
    b"retry-after": _SECONDS,
    b"retry-after-ms": _SECONDS,
    b"x-should-retry": re.compile(rb"true|false"),
    b"openai-poll-after-ms": _SECONDS,
    b"openai-version": re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
}


def request_headers(
    credential: UpstreamCredential,
    *,
    content_type: bytes | None = None,
    accept: bytes = b"application/json",
    beta: Iterable[bytes] = (),
    idempotency_key: bytes | None = None,
    traceparent: bytes | None = None,
    safety_identifier: bytes | None = None,
) -> Headers:
    """The headers of a request to OpenAI, names in lower case.

    Nothing is taken from the client's headers but what the caller passes: `content_type` and `accept` of the rebuilt
    body and the route, `beta` the client's OpenAI-Beta values (lists are split, unknown ones dropped), and
    `idempotency_key` in its per-tenant form. `safety_identifier`: the end user of a socket, which has no body to say so in.
    """
    key = credential.api_key.encode()
    headers = [
        (b"api-key", key) if credential.api_key_header else (b"authorization", b"Bearer " + key),
        (b"user-agent", USER_AGENT),
        (b"accept", accept),
    ]
    if content_type is not None:
        headers.append((b"content-type", content_type))
    if credential.organization is not None:
        headers.append((b"openai-organization", credential.organization.encode()))
    if credential.project is not None:
        headers.append((b"openai-project", credential.project.encode()))
    known = dict.fromkeys(value.strip() for line in beta for value in line.split(b",") if value.strip() in _BETA)
    if known:
        headers.append((b"openai-beta", b",".join(known)))
    if idempotency_key is not None:
        headers.append((b"idempotency-key", idempotency_key))
    if traceparent is not None:
        headers.append((b"traceparent", traceparent))
    if safety_identifier is not None:
        headers.append((b"openai-safety-identifier", safety_identifier))
    return tuple(headers)


def answer_headers(headers: Headers) -> Headers:
    """Those of an answer's headers that a client may see. A header that comes twice is dropped: which of the two would count?"""
    names = [name for name, _ in headers]
    shown: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name == b"content-type":
            if names.count(name) == 1:
                shown.append((name, media_type(value)))
        elif (form := _TO_CLIENT.get(name)) is not None and form.fullmatch(value) and names.count(name) == 1:
            shown.append((name, value))
    return tuple(shown)


def media_type(value: bytes) -> bytes:
    """A Content-Type without parameters (but UTF-8, which the text types keep); an unknown type is shown as octets."""
    essence, _, parameters = value.partition(b";")
    known = essence.strip().lower()
    if known not in _MEDIA_TYPES:
        return _OCTETS
    utf8 = parameters.strip().lower().replace(b'"', b"") == b"charset=utf-8"
    return known + b"; charset=utf-8" if utf8 and known.startswith(b"text/") else known
