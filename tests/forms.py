"""Forms as clients write them, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BOUNDARY = "----a-boundary-7"


@dataclass(frozen=True, slots=True)
class Form:
    """A body that is a form, where a test has JSON otherwise."""

    content: bytes
    content_type: str = f"multipart/form-data; boundary={BOUNDARY}"


def text(name: str, value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + data + b"\r\n"


def file(name: str, data: bytes, filename: str = "notes.txt", media_type: str = "text/plain") -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
    return f"{head}Content-Type: {media_type}\r\n\r\n".encode() + data + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


def form(*parts: bytes) -> Form:
    """The parts in this order, and the end."""
    return Form(b"".join(parts) + END)


def uploaded(data: bytes = b"notes", purpose: str = "user_data", filename: str = "notes.txt") -> Form:
    """What `POST /files` takes, the texts first."""
    return form(text("purpose", purpose), file("file", data, filename))


def spelt(value: Mapping[str, Any]) -> Form:
    """The form that spells `value`: its bytes are files, everything else is text."""
    parts = list(_parts("", value))
    return form(*[file(name, leaf) if isinstance(leaf, bytes) else text(name, str(leaf)) for name, leaf in parts])


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case dict():
            for key, member in value.items():
                yield from _parts(f"{name}[{key}]" if name else key, member)
        case list():
            for number, element in enumerate(value):
                step = str(number) if isinstance(element, dict | list) else ""
                yield from _parts(f"{name}[{step}]", element)
        case _:
            yield name, value
