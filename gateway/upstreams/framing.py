"""What an answer's header block says about its body (RFC 9112 §6.3). Pure. Whatever could be read in two ways is refused.

llhttp, in its strict mode, has refused obs-fold, control bytes, repeated lengths and a length beside a transfer coding
already; this module does not lean on it for the rules that the gateway's safety rests on.
"""

from enum import Enum, auto

from gateway.upstreams.answer import Headers
from gateway.upstreams.failures import Reason

# Field values are visible ASCII, space and tab (RFC 9110 §5.5 without obs-text).
_FIELD_BYTES = b"\t" + bytes(range(0x20, 0x7F))
_SHAPING = frozenset({b"content-length", b"transfer-encoding", b"content-encoding"})
_NO_BODY = frozenset({204, 304})


class Framing(Enum):
    """How the end of a body is told: by the message itself, or by the end of the connection."""

    DELIMITED = auto()
    UNTIL_CLOSE = auto()


def framing_of(version: str, status: int, headers: Headers, max_header_bytes: int) -> Framing | Reason:
    """The framing of a final answer, or the reason why it is refused; header names are in lower case."""
    if version not in ("1.1", "1.0") or not 200 <= status <= 599:
        return Reason.MALFORMED
    block = b"".join(map(b"".join, headers))
    if len(block) + 4 * len(headers) > max_header_bytes:
        return Reason.HEADERS_TOO_LARGE
    if block.translate(None, _FIELD_BYTES):
        return Reason.HEADER_BYTES
    shaping = [field for field in headers if field[0] in _SHAPING]
    lengths = [value for name, value in shaping if name == b"content-length"]
    codings = [value.lower() for name, value in shaping if name == b"transfer-encoding"]
    if len(lengths) > 1 or (lengths and codings) or codings not in ([], [b"chunked"]) or (codings and version == "1.0"):
        return Reason.FRAMING
    if any(name == b"content-encoding" and value.lower() not in (b"identity", b"") for name, value in shaping):
        return Reason.CONTENT_CODING
    return Framing.DELIMITED if lengths or codings or status in _NO_BODY else Framing.UNTIL_CLOSE
