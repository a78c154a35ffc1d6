"""Server-sent events over bytes (https://html.spec.whatwg.org/multipage/server-sent-events.html): split and translate.

Lines end in CR, LF or CRLF, an event ends in a blank line, and a byte order mark may stand at the beginning. What comes
out does not depend on how the input was cut into chunks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from gateway.errors import Problem, Reason
from gateway.ids.shape import find_raw
from gateway.rewrite.events import EventTranslator, Place
from gateway.rewrite.id_table import IdTable, Minted, Touched
from gateway.rewrite.speech import Utterance
from gateway.surfaces.spec import Spec

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""An event of one generated image is some megabytes."""

# The first group is atomic: the CR and the LF of one CRLF are no blank line.
_BOUNDARY: Final = re.compile(rb"(?>\r\n|\n|\r)(?:\r\n|\n|\r)")
_LINE: Final = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")
# A delta as the service writes it, its keys in this order. Everything that stands in it is in the pattern, no character
# is escaped, and the only strings that are free are the item's ID and the text.
_PLAIN: Final = re.compile(
    rb'(event: (response\.[a-z_.]{1,60}\.delta)\ndata: \{"type": ?"\2", ?"sequence_number": ?)[0-9]+'
    rb'(, ?"item_id": ?"([A-Za-z0-9_-]{16,128})", ?"output_index": ?[0-9]+(?:, ?"content_index": ?[0-9]+)?'
    rb'(?:, ?"summary_index": ?[0-9]+)?, ?"delta": ?")[^"\\]*"(?:, ?"logprobs": ?\[\])?'
    rb'(?:, ?"obfuscation": ?"[A-Za-z0-9]{0,15}")?\}\n\n'
)
_PLAIN_END: Final = re.compile(rb'"(?:, ?"logprobs": ?\[\])?(?:, ?"obfuscation": ?"[A-Za-z0-9]{0,15}")?\}\n\n')
_BOM: Final = b"\xef\xbb\xbf"
_DONE: Final = b"[DONE]"
_LONGEST_NAME: Final = 100
"""Bytes of an event's name that is remembered."""


class Splitter:
    """Bytes in, events out, each with the line ends that belong to it: the joined output is the input.

    A CR that ends a chunk may be half of a CRLF. The event goes out without waiting, and the LF follows on its own.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._pending = bytearray()
        self._after_cr = False

    @property
    def between(self) -> bool:
        """Whether what comes next begins an event."""
        return not self._pending and not self._after_cr

    @property
    def waiting_bytes(self) -> int:
        """Of an event that is not complete."""
        return len(self._pending)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that `chunk` completes. Raises Problem(UPSTREAM_BAD_ANSWER) for one that is too long."""
        events: list[bytes] = []
        if not chunk:
            return events
        if self._after_cr:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                events.append(b"\n")
                chunk = chunk[1:]
        pending = self._pending
        if pending:
            seen = len(pending)
            pending += chunk
            if _BOUNDARY.search(pending, max(0, seen - 3)) is None:
                self._check(len(pending))
                return events
            chunk = bytes(pending)
            pending.clear()
        rest = _split(chunk, events)
        self._check(len(rest))
        pending += rest
        self._after_cr = not rest and bool(events) and events[-1].endswith(b"\r")
        return events

    def _check(self, size: int) -> None:
        if size > self._max:
            raise Problem(Reason.UPSTREAM_BAD_ANSWER)


def _split(data: bytes, events: list[bytes]) -> bytes:
    """Append the events of `data`; return what follows the last."""
    if b"\r" not in data:
        *whole, rest = data.split(b"\n\n")
        events += [event + b"\n\n" for event in whole]
        return rest
    at = 0
    for boundary in _BOUNDARY.finditer(data):
        events.append(data[at : boundary.end()])
        at = boundary.end()
    return data[at:]


class Out(NamedTuple):
    """Bytes to send, in order. `minted`: records that must be written before these bytes leave. `touched`: the raw IDs
    that were known when they were written, for the egress scan. `terminal`: they hold the stream's last event; `failed`: in it
    the upstream says that it failed."""

    data: bytes
    touched: tuple[bytes, ...]
    minted: tuple[Minted, ...] = ()
    terminal: bool = False
    failed: bool = False


class _Lane(NamedTuple):
    """What all plain deltas of one text have in common: bytes before the sequence number, and between it and the text."""

    head: bytes
    middle: bytes
    item: Touched
    place: Place
    utterance: Utterance


class StreamTranslator:
    """One stream. `spec`: what an event's JSON holds (`gateway.surfaces.responses.EVENT`)."""

    def __init__(self, spec: Spec, table: IdTable, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._table = table
        self._events = EventTranslator(spec, table)
        self._splitter = Splitter(max_event_bytes)
        self._first = True
        self._touched = table.raws
        self._outs: list[Out] = []
        self._pieces: list[bytes] = []
        self._lane: _Lane | None = None
        self._lanes: dict[tuple[bytes, bytes], _Lane] = {}
        self._run: list[bytes] = []
        self._run_items: set[Touched] = set()

    @property
    def waiting_bytes(self) -> int:
        """The same."""
        return self._splitter.waiting_bytes

    def feed(self, chunk: bytes) -> list[Out]:
        """What leaves when `chunk` comes: nothing, if no event is complete. Raises Problem(UPSTREAM_BAD_ANSWER), and then
        `drain` gives what leaves all the same."""
        alone = self.pass_alone(chunk)
        if alone is not None:
            return [alone]
        for event in self._splitter.feed(chunk):
            lane = self._lane
            if lane is None or not event.startswith(lane.head):
                lane = self._change_lane(event)
            if lane is None or not self._pass_plain(event, lane):
                self._read(event)
        return self.drain()

    def pass_alone(self, chunk: bytes) -> Out | None:
        """What leaves for a chunk that is one plain delta, like the one before and with nothing in its text to look at. None
        for any other, and then nothing has happened: `feed` takes it."""
        lane, events = self._lane, self._events
        if lane is None or not chunk.startswith(lane.head) or events.holding or not self._is_between():
            return None
        text = _text_of(chunk, lane)  # then the chunk is one event: it ends where that ends
        utterance = lane.utterance
        if text is None or utterance.open or not events.openings.has_no(text):
            return None
        utterance.read += len(text)
        return Out(chunk.replace(lane.item.raw_bytes, lane.item.text_bytes), self._touched)

    def _is_between(self) -> bool:
        """Whether nothing is under way: neither an event on its way in nor bytes on their way out."""
        return self._splitter.between and not (self._run or self._pieces or self._outs)

    def _change_lane(self, event: bytes) -> _Lane | None:
        """The lane of `event`, if it is a plain delta, for what follows."""
        plain = _PLAIN.fullmatch(event)
        if plain is None:
            return None
        head, _, middle, item = plain.groups()
        lane = self._lanes.get((head, middle))
        if lane is None:
            found = self._events.lane(event[event.index(b"{") :])
            if found is None:
                return None
            touched = self._table.everywhere[item.decode()]
            lane = self._lanes[head, middle] = _Lane(head, middle, touched, *found)
        self._lane = lane
        return lane

    def _pass_plain(self, event: bytes, lane: _Lane) -> bool:
        """Nearly all of a stream: an event that differs from the one before in its number, its text and its padding."""
        text = _text_of(event, lane)
        if text is None:
            other = self._change_lane(event)
            return other is not None and other is not lane and self._pass_plain(event, other)
        utterance, events = lane.utterance, self._events
        if not utterance.open and events.openings.has_no(text):
            utterance.read += len(text)
            heard = text
        else:
            heard = utterance.hear(text, events.openings)
        if heard != text or len(utterance.open) > utterance.free or events.holding:
            parsed = orjson.loads(event[event.index(b"{") :])
            events.hold(lane.place, utterance, parsed)
            if heard != text:
                self._translate(event, parsed, heard)
                return True
        self._first = False
        self._run.append(event)
        self._run_items.add(lane.item)
        return True

    def _read(self, event: bytes) -> None:
        """Any event. A delta in an unusual order or with escapes is still no more than a text and an ID."""
        start = event.find(b"\n") + 1 if event.startswith(b"event: ") else 0
        end = len(event) - 2
        if not event.startswith(b"data: {", start) or event.find(b"\n", start) != end or b"\r" in event:
            self._translate(event)
            return
        data = event[start + 6 : end]
        parsed = _loaded(data)
        heard = self._events.hear_plain(data, parsed)
        if (
            heard is not None
            and heard == parsed["delta"]
            and (not start or event[7 : start - 1] == parsed["type"].encode())
        ):
            self._first = False
            self._run.append(event)
            self._run_items.add(self._table.everywhere[parsed["item_id"]])
        else:
            self._translate_framed(event[:start], data, parsed, heard)

    def end(self) -> list[Out]:
        """The upstream closed: what was held back leaves; an event that is not complete does not (WHATWG 9.2.6)."""
        self._add([_framed(kind, data) for kind, data in self._events.release()])
        return self.drain()

    def _translate_framed(self, first: bytes, data: bytes, parsed: Any, heard: str | None) -> None:
        """An event as the service frames it: a name's line at most, and one of data. The same as `_translate`, which takes
        20 us more to tell lines apart."""
        name = first[7:-1][-256:].decode("utf-8", "replace")
        translated = self._events.translate(data, parsed, name=name, heard=heard)
        self._first = False
        if first:
            known = len(first) < _LONGEST_NAME and _is_harmless(first)
            first = self._table.replace(first) if known else self._table.scrub(first)
        written = b"%bdata: %b\n\n" % (first, translated.data)
        before = [_framed(kind, json) for kind, json in translated.before]
        self._add([*before, written], terminal=translated.terminal, failed=translated.failed)

    def _translate(self, event: bytes, parsed: Any = None, heard: str | None = None) -> None:
        lines = _LINE.findall(event)[:-1]
        fields = [self._field(line) for line, _ in lines]
        name = b"".join(value for field, _, value in fields if field == b"event")[-256:]
        at = [number for number, (field, _, _) in enumerate(fields) if field == b"data"]
        data = b"\n".join(fields[number][2] for number in at)
        written = [line + end for line, end in lines]
        others = list(range(len(lines)))
        before: tuple[tuple[str, bytes], ...] = ()
        terminal, failed = data.strip() == _DONE, False
        if terminal:
            before = self._events.release()
        elif data.lstrip()[:1] in (b"{", b"[", b'"'):
            translated = self._events.translate(data, parsed, name=name.decode("utf-8", "replace"), heard=heard)
            before, terminal, failed = translated.before, translated.terminal, translated.failed
            # A newline stands between tokens only, so each line keeps its own; an array that was emptied leaves fewer.
            pieces = translated.data.split(b"\n")
            pieces += [b""] * (len(at) - len(pieces))
            for number, piece in zip(at, pieces, strict=True):
                line, end = lines[number]
                written[number] = line[: fields[number][1]] + piece + end
            others = [number for number in others if number not in at]
        for number in others:
            written[number] = self._table.scrub(lines[number][0]) + lines[number][1]
        self._add([*(_framed(kind, json) for kind, json in before), *written], terminal=terminal, failed=failed)

    def _field(self, line: bytes) -> tuple[bytes, int, bytes]:
        """Name of a line's field, where its value begins, and the value."""
        start = len(_BOM) if self._first and line.startswith(_BOM) else 0
        self._first = False
        name, colon, value = line[start:].partition(b":")
        begin = start + len(name) + len(colon) + value.startswith(b" ")
        return name, begin, line[begin:]

    def _add(self, pieces: list[bytes], *, terminal: bool = False, failed: bool = False) -> None:
        self._flush_run()
        minted = self._table.take_new()
        if self._touched is not self._table.raws:
            self._close()
            self._touched = self._table.raws
        if minted or terminal:
            self._close()
            self._outs.append(Out(b"".join(pieces), self._touched, minted, terminal, failed))
        else:
            self._pieces += pieces

    def _flush_run(self) -> None:
        if self._run:
            data = b"".join(self._run)
            for item in self._run_items:
                data = data.replace(item.raw_bytes, item.text_bytes)
            self._pieces.append(data)
            self._run = []
            self._run_items = set()

    def _close(self) -> None:
        if data := b"".join(self._pieces):
            self._outs.append(Out(data, self._touched))
        self._pieces = []

    def drain(self) -> list[Out]:
        """What was ready before an event of the same chunk could not be read."""
        self._flush_run()
        self._close()
        outs, self._outs = self._outs, []
        return outs


def _text_of(event: bytes, lane: _Lane) -> str | None:
    """The text of a plain delta of `lane`, whose head it has; None for every other event."""
    number = len(lane.head)
    middle = event.find(b",", number)
    if not event.startswith(lane.middle, middle):
        return None
    start = middle + len(lane.middle)
    end = event.find(b'"', start)
    try:
        text = event[start:end].decode()
    except UnicodeDecodeError:
        return None
    # Not printable: a line end inside the event, or what JSON must escape.
    if "\\" in text or not (text.isprintable() and event[number:middle].isdigit() and _PLAIN_END.fullmatch(event, end)):
        return None
    return text


def _loaded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None  # read again, and refused, where every event is


@lru_cache(maxsize=256)
def _is_harmless(line: bytes) -> bool:
    """Whether nothing in a line has the raw shape. The same few names of events come all the time."""
    return not find_raw(line)


def _framed(kind: str, data: bytes) -> bytes:
    name = b"event: %b\n" % kind.encode() if kind else b""
    return b"%bdata: %b\n\n" % (name, data)
