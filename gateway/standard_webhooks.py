"""What goes to a receiver of a tenant's is signed as Standard Webhooks 1.0.0 says
(https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md). Pure.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - says what follows
"""Signature scheme: base64 of 24 to 64 random bytes follows."""
SECRET_BYTES: Final = 32
GONE: Final = 410
"""The receiver's answer by which it says that it wants no more."""


def message_id(receiver: str, content: bytes) -> str:
    """The same for the same content to the same receiver, so that what goes again is known again."""
    return f"msg_{hashlib.sha256(receiver.encode() + content).hexdigest()[:32]}"


def headers(id_: str, secrets: Sequence[bytes], body: bytes, now_s: int) -> tuple[tuple[str, str], ...]:
    """With a signature by each of `secrets`: while one takes the place of another, both are good."""
    return (
        ("content-type", "application/json"),
        ("webhook-id", id_),
        ("webhook-timestamp", str(now_s)),
        ("webhook-signature", " ".join(sign(secret, id_, now_s, body) for secret in secrets)),
    )


def sign(secret: bytes, id_: str, now_s: int, body: bytes) -> str:
    """Scheme `v1`: HMAC-SHA256 over ID, time and body."""
    return f"v1,{base64.b64encode(hmac.digest(secret, f'{id_}.{now_s}.'.encode() + body, 'sha256')).decode()}"


def show_secret(secret: bytes) -> str:
    return SECRET_PREFIX + base64.b64encode(secret).decode()
