"""Sealed blobs (`encrypted_content`): opaque to the client, checked when they come back.

They look like Fernet tokens (https://github.com/fernet/spec): version 0x80, 8 bytes of time, which makes all of them
begin with `gAAAAA`, then bytes that mean nothing here, and a MAC over it all.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from typing import Any


class Sealer:
    """Makes and opens blobs. The content stays in memory; a blob is its name and a proof that nobody edited it."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._contents: dict[str, Any] = {}

    def seal(self, content: Any = None) -> str:
        """A blob of about 180 characters that opens to `content`."""
        payload = b"\x80" + int(time.time()).to_bytes(8, "big") + secrets.token_bytes(96)
        blob = base64.urlsafe_b64encode(payload + self._mac(payload)).decode()
        self._contents[blob] = content
        return blob

    def genuine(self, blob: str) -> bool:
        """Whether every character is as it was issued."""
        try:
            data = base64.b64decode(blob, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return False
        return blob in self._contents and hmac.compare_digest(data[-32:], self._mac(data[:-32]))

    def open(self, blob: str) -> Any:
        """What was sealed. Raises `KeyError` for a blob of somebody else."""
        return self._contents[blob]

    def _mac(self, payload: bytes) -> bytes:
        return hmac.digest(self._key, payload, hashlib.sha256)
