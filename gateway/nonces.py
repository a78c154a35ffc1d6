"""Nonces for the records: random, and cheap where one answer needs several."""

from __future__ import annotations

import os
from typing import Final

from gateway.ids.keys import NONCE_BYTES

_BLOCK: Final = 340 * NONCE_BYTES
"""Bytes fetched at a time, about 4 KiB. One call of the operating system costs as much as 20 nonces of a block."""

_ready: list[bytes] = []
# Two processes must not go on with the same block.
os.register_at_fork(after_in_child=_ready.clear)


def fresh_nonce(size: int = NONCE_BYTES) -> bytes:
    """`size` random bytes that nobody else was given."""
    if size != NONCE_BYTES:
        return os.urandom(size)
    while True:
        try:
            # One step, so that no two threads get the same.
            return _ready.pop()
        except IndexError:
            block = os.urandom(_BLOCK)
            _ready.extend(block[at : at + NONCE_BYTES] for at in range(0, _BLOCK, NONCE_BYTES))
