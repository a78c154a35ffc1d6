"""Server-sent events as bytes, and all the legal and illegal ways to cut them (WHATWG HTML, 9.2)."""

from __future__ import annotations

from itertools import pairwise

from gateway.demo.stand_in.fidelity import encode
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.scripts import Script

_LINE_ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}


def render(event: Json, script: Script, extra_lines: tuple[str, ...] = ()) -> bytes:
    """One event with its blank line."""
    space = "" if "no_space" in script else " "
    lines = list(extra_lines)
    if "no_event" not in script and "type" in event:
        lines.append(f"event:{space}{event['type']}")
    pretty = "multi_data" in script
    data = encode(event, escape_ids="escape" in script, pretty=pretty).decode()
    lines += [f"data:{space}{line}" for line in data.split("\n")]
    return _joined(lines, script)


def comment(text: str, script: Script) -> bytes:
    """A comment line; alone it dispatches nothing."""
    return f": {text}".encode() + _LINE_ENDS[script.text("eol", "lf")]


def blank_line(script: Script) -> bytes:
    """An empty line, which some clients take for an empty event."""
    return _LINE_ENDS[script.text("eol", "lf")]


def done(script: Script) -> bytes:
    """The end of a stream whose events have no type."""
    return _joined(["data: [DONE]"], script)


def error(message: str, script: Script, sequence_number: int, *, typed: bool) -> bytes:
    """The `error` event that ends a stream in the middle; in a stream without types, an error object."""
    if not typed:
        return render({"error": {"message": message, "type": "server_error", "param": None, "code": None}}, script)
    value = {"type": "error", "code": "server_error", "message": message, "param": None}
    return render({**value, "sequence_number": sequence_number}, script)


def split(data: bytes, script: Script) -> list[bytes]:
    """The writes for `data`: `split=N` bytes each, or cut at given offsets (`at=3:17:40`), else one."""
    size = script.count("split")
    if size > 0:
        return [data[start : start + size] for start in range(0, len(data), size)]
    offsets = [0, *(int(one) for one in script.text("at").split(":") if one), len(data)]
    return [data[start:end] for start, end in pairwise(offsets) if start < end]


def _joined(lines: list[str], script: Script) -> bytes:
    end = _LINE_ENDS[script.text("eol", "lf")]
    return end.join(line.encode() for line in lines) + end + end
