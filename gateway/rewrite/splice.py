"""Write decisions into the bytes of a JSON document, and leave every other byte as it came.

Numbers (`1.0`, 2⁶³+1), escapes, spacing and key order are not ours to change, so the document is never written anew.
Two ways give the same bytes. The fast one replaces by pattern, after it has made sure that nothing can hide: no escape
spells an ASCII character, no key was given twice, and every value to edit stands as often as the walk has met it.
The exact one goes through the tokens (RFC 8259) and the parsed value side by side; a document in which they do not
agree (a key given twice) is not used at all.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

import orjson

from gateway.errors import Problem, Reason
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.sift import Holder, Key

_HIDING: Final = re.compile(rb"\\(?:u00[2-7]|/)")
"""Escapes of characters that an ID may have. Whether the backslash is itself escaped does not matter: it only costs."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|-?[0-9][0-9.eE+-]*', re.DOTALL)
_UNIT: Final = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|[\x00-\x7f]|[\xc0-\xff][\x80-\xbf]+", re.DOTALL
)


class Edit(NamedTuple):
    """One value to write in place of another, whole."""

    holder: Holder
    key: Key
    old: Any
    new: Any


def parse(body: bytes) -> Any:
    """The value of a JSON document. Raises Problem(UPSTREAM_BAD_ANSWER)."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return _parse_leniently(body)


def _parse_leniently(body: bytes) -> Any:
    """orjson refuses half a surrogate pair, which models do write, and numbers beyond a double: valid JSON, both."""
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None


def _refuse(name: str) -> None:
    raise ValueError(name)


def splice(body: bytes, document: Any, edits: list[Edit], table: IdTable) -> bytes:
    """`body` with `edits` made and every touched ID replaced. `document` is `body` parsed, and `edits` point into it.

    Raises Problem(UPSTREAM_BAD_ANSWER) where the document is ambiguous.
    """
    if hides(body) or not _keys_are_unique(body, document):
        return splice_exactly(body, document, edits, table)
    counts: dict[bytes, list[Any]] = {}
    for edit in edits:
        if type(edit.old) is not str or type(edit.new) is not str:
            return splice_exactly(body, document, edits, table)
        old, new = orjson.dumps(edit.old), orjson.dumps(edit.new)
        seen = counts.setdefault(old, [new, 0])
        if seen[0] != new or not old.isascii() or b"\\" in old or b"\\" in new:
            return splice_exactly(body, document, edits, table)
        seen[1] += 1
    if any(body.count(old) != count for old, (_, count) in counts.items()):
        return splice_exactly(body, document, edits, table)
    for old, (new, _) in counts.items():
        body = body.replace(old, new)
    return table.replace(body)


def hides(body: bytes) -> bool:
    """Whether an escape may spell a character of an ID, so that bytes do not show what is said."""
    return b"\\" in body and _HIDING.search(body) is not None


def _keys_are_unique(body: bytes, document: Any) -> bool:
    """A key given twice is lost in parsing, and its quotation marks with it. Only where nothing `hides`."""
    try:
        again = orjson.dumps(document)
    except TypeError:  # half a surrogate pair, or an integer beyond 64 bits
        return False
    return again == body or again.count(b'"') == body.count(b'"')


def splice_exactly(body: bytes, document: Any, edits: list[Edit], table: IdTable) -> bytes:
    """The same as `splice`, token by token."""
    try:
        return _Splicer(body, edits, table).run(document)
    except (RecursionError, StopIteration):
        raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None


class _Splicer:
    def __init__(self, body: bytes, edits: list[Edit], table: IdTable) -> None:
        self.body = body
        self.table = table
        self.edits = {(id(edit.holder), edit.key): edit for edit in edits}
        self.tokens = _TOKEN.finditer(body)
        self.spans: list[tuple[int, int, bytes]] = []

    def run(self, document: Any) -> bytes:
        self.value(None, 0, document)
        if next(self.tokens, None) is not None:
            raise Problem(Reason.UPSTREAM_BAD_ANSWER)
        pieces, at = [], 0
        for start, end, text in self.spans:
            pieces += [self.body[at:start], text]
            at = end
        return b"".join([*pieces, self.body[at:]])

    def take(self, first: bytes) -> re.Match[bytes]:
        """The next token, which must begin with one of `first`."""
        token = next(self.tokens)
        if token.group()[:1] not in first:
            raise Problem(Reason.UPSTREAM_BAD_ANSWER)
        return token

    def value(self, holder: Holder | None, key: Key, value: Any) -> None:
        edit = self.edits.get((id(holder), key))
        before = len(self.spans)
        if isinstance(value, str):
            start, end = self.text(b'"')
        elif isinstance(value, dict):
            start = self.take(b"{").start()
            for name, member in value.items():
                self.text(b'"')
                self.value(value, name, member)
            end = self.take(b"}").end()
        elif isinstance(value, list):
            start = self.take(b"[").start()
            for index, element in enumerate(value):
                self.value(value, index, element)
            end = self.take(b"]").end()
        elif value is None or isinstance(value, bool):
            return
        else:
            start, end = self.take(b"-0123456789").span()
        if edit is not None:
            del self.spans[before:]
            self.spans.append((start, end, self.table.replace(_written(edit.new))))

    def text(self, first: bytes) -> tuple[int, int]:
        token = self.take(first)
        said = token.group()
        written = self.hidden(said) if hides(said) else self.table.replace(said)
        if written != said:
            self.spans.append((*token.span(), written))
        return token.span()

    def hidden(self, token: bytes) -> bytes:
        """`token` with touched IDs replaced also where escapes spell them; other characters keep their spelling."""
        text: str = json.loads(token)
        units = _UNIT.findall(token[1:-1])
        if len(units) != len(text):
            raise Problem(Reason.UPSTREAM_BAD_ANSWER)
        for one in self.table.touched:
            at = text.find(one.raw)
            while at >= 0:
                units[at : at + len(one.raw)] = [bytes([character]) for character in one.text_bytes]
                text = text[:at] + one.text + text[at + len(one.raw) :]
                at = text.find(one.raw, at + len(one.text))
        return b'"' + b"".join(units) + b'"'


def _written(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # half a surrogate pair
        return json.dumps(value).encode()
