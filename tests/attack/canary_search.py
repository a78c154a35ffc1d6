"""The search for raw IDs in whatever came out: as they are, packed, in other alphabets, backwards, split over pieces."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from gateway.ids.encoding import ALPHABET

_ANCHOR = 12
"""Bytes at a needle's end by which it is looked for. Shorter needles would be found by chance."""

SPOKEN = frozenset({"text", "delta", "code", "logs", "stdout", "stderr", "result", "content", "refusal", "transcript"})
"""Keys of strings in which the model, or what it ran, speaks."""

_TAIL = re.compile(r"(?:[a-z]+[_-])*([0-9A-Za-z-]{16,})\Z")


def forms(secret: str) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every form in which `secret` may not be seen."""
    yield "raw", secret.encode()
    yield "reversed", secret[::-1].encode()
    yield from _spelled("", secret.encode())
    if match := _TAIL.match(secret):
        tail = match[1]
        yield "tail", tail.encode()
        yield "reversed tail", tail[::-1].encode()
        yield "upper-case tail", tail.upper().encode()
        yield from _spelled("tail in ", tail.encode())
        digits = tail.replace("-", "")
        if re.fullmatch(r"(?:[0-9a-f]{2})+", digits):
            packed = bytes.fromhex(digits)
            yield "packed", packed
            yield "packed backwards", packed[::-1]
            yield from _spelled("packed in ", packed)


def _spelled(what: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    yield f"{what}hex", data.hex().encode()
    yield f"{what}base64", base64.b64encode(data).rstrip(b"=")
    yield f"{what}base64 for URLs", base64.urlsafe_b64encode(data).rstrip(b"=")
    yield f"{what}base32", base64.b32encode(data).rstrip(b"=")
    number, digits = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, len(ALPHABET))
        digits = ALPHABET[digit] + digits
    yield f"{what}base62", digits.encode()


class Search:
    """Finds any form of any of the secrets in one pass over the bytes."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._needles: dict[bytes, list[tuple[bytes, str]]] = {}
        for secret in secrets:
            for name, needle in forms(secret):
                if len(needle) >= _ANCHOR:
                    self._needles.setdefault(needle[-_ANCHOR:], []).append((needle, f"{secret} ({name})"))

    def __call__(self, data: bytes) -> set[str]:
        """What of the secrets stands in `data`, each with the form that it was found in."""
        found = set()
        needles = self._needles
        for at in range(len(data) - _ANCHOR + 1):
            if (candidates := needles.get(data[at : at + _ANCHOR])) is not None:
                end = at + _ANCHOR
                found |= {name for needle, name in candidates if data.endswith(needle, 0, end)}
        return found


def readings(received: bytes) -> list[bytes]:
    """An answer's bytes as they came, and as a client reads them: chunks joined, escapes resolved, deltas put together."""
    _, body = _parted(received)
    values = _values(body)
    read = [received, body, *("\n".join(_strings(value)).encode("utf-8", "surrogatepass") for value in values)]
    return [*read, *(text.encode("utf-8", "surrogatepass") for text in _in_pieces(values).values())]


def _parted(received: bytes) -> tuple[bytes, bytes]:
    """Head and body of an answer, the body's chunks joined."""
    head, _, body = received.partition(b"\r\n\r\n")
    return head, _joined(body) if b"transfer-encoding: chunked" in head.lower() else body


def _values(body: bytes) -> list[Any]:
    """The JSON values of a body: itself, or those of its events, or those of its lines."""
    return _read([body]) or _read(_events(body)) or _read(body.split(b"\n"))


def _read(parts: Iterable[bytes]) -> list[Any]:
    values = []
    for part in parts:
        try:
            values.append(json.loads(part))
        except ValueError:
            continue
    return values


def _in_pieces(values: list[Any]) -> dict[tuple[object, ...], str]:
    """The texts that run through the deltas of events, or through the chunks of a chat; the last word of each key names it."""
    deltas: dict[tuple[object, ...], str] = {}
    for value in values:
        if isinstance(value, dict):
            for name in ("delta", "obfuscation"):
                said = value.get(name)
                for member, piece in (said if isinstance(said, dict) else {"": said}).items():
                    key = (value.get("type"), value.get("item_id"), value.get("command_index"), member or name)
                    deltas[key] = deltas.get(key, "") + (piece if isinstance(piece, str) else "")
            for choice in value.get("choices") or ():
                for path, piece in _pieces(choice, ()):
                    deltas[path] = deltas.get(path, "") + piece
    return deltas


def said(received: bytes) -> tuple[str, str]:
    """What an answer has the model say, also where it ends in the middle of it, and everything else in it, each as one text."""
    head, body = _parted(received)
    values = _values(body)
    spoken = [text for key, text in _in_pieces(values).items() if key[-1] in SPOKEN]
    written = [head.decode("latin-1")]

    def walk(value: Any, name: str) -> None:
        if isinstance(value, str):
            (spoken if name in SPOKEN else written).append(value)
        elif isinstance(value, dict):
            for key, member in value.items():
                written.append(key)
                walk(member, key if isinstance(member, str) or name != "delta" else name)
        elif isinstance(value, list):
            for one in value:
                walk(one, name)

    for value in values:
        walk(value, "")
    return "\n".join(spoken), "\n".join(written)


def _pieces(value: Any, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:
    """Every string of a chunk's choice, with what tells the text that it is a piece of."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _pieces(member, (*path, value.get("index"), name))
    elif isinstance(value, list):
        for one in value:
            yield from _pieces(one, path)


def _joined(body: bytes) -> bytes:
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        try:
            length = int(size, 16)
        except ValueError:
            return whole + body
        whole, body = whole + rest[:length], rest[length + 2 :]
    return whole


def _events(body: bytes) -> Iterator[bytes]:
    for event in re.split(rb"(?:\r\n|\r|\n){2}", body):
        lines = [line[5:].lstrip(b" ") for line in re.split(rb"\r\n|\r|\n", event) if line.startswith(b"data:")]
        if lines:
            yield b"\n".join(lines)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _strings(member)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
