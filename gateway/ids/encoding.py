"""Bytes for hashing, and fixed-width base62 with one spelling."""

from __future__ import annotations

from struct import error as StructError
from struct import unpack
from typing import Final

ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_PAIRS: Final = tuple(high + low for high in ALPHABET for low in ALPHABET)
# Two digits a step: half the divisions of a big integer, and a table of 3,844 strings.
_PAIR_BASE: Final = len(_PAIRS)
# The way back is by the pair's two bytes as a number: a third faster than a dictionary of strings.
_PAIR_VALUES: Final = [-1] * 0x10000
for _value, _pair in enumerate(_PAIRS):
    _PAIR_VALUES[int.from_bytes(_pair.encode(), "big")] = _value

_PREPARED: Final = 256
_SIZES: Final = tuple(size.to_bytes(4, "big") for size in range(_PREPARED))


def lp(*parts: bytes | str) -> bytes:
    """Each part as its length (4 bytes, big-endian) and its bytes, so that no two lists of parts give the same bytes.

    Text is UTF-8. A lone surrogate, which JSON can carry, is encoded like any other code point instead of raising.
    """
    out = []
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        size = len(data)
        out.append(_SIZES[size] if size < _PREPARED else size.to_bytes(4, "big"))
        out.append(data)
    return b"".join(out)


def base62(data: bytes, width: int) -> str:
    """`data` as a big-endian number in exactly `width` digits of `ALPHABET`; ValueError if odd or too narrow."""
    number = int.from_bytes(data, "big")
    pairs = []
    for _ in range(width // 2):
        number, pair = divmod(number, _PAIR_BASE)
        pairs.append(_PAIRS[pair])
    if number or width % 2:
        raise ValueError("base62 needs an even width that holds the number")
    pairs.reverse()
    return "".join(pairs)


def unbase62(text: str, size: int) -> bytes | None:
    """The `size` bytes that `base62` writes as `text`; None for any other character or a number beyond `size` bytes.

    At a given width the digits of a number are unique, so each value has one spelling.
    """
    number = 0
    try:
        for pair in unpack(f">{len(text) // 2}H", text.encode("ascii")):
            value = _PAIR_VALUES[pair]
            if value < 0:
                return None
            number = number * _PAIR_BASE + value
        return number.to_bytes(size, "big")
    except (UnicodeEncodeError, StructError, OverflowError):
        return None
