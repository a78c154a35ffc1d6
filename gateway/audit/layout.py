"""What an export consists of: names, lines and the manifest, as docs/audit-format.md describes them. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gateway.audit.checkpoint import VerifierKey, log_name, public_key, seal_note, unseal_note
from gateway.audit.tree import HASH_BYTES, MAX_SIZE, Frontier, Proof

FORMAT: Final = "coatcheck-audit-export/1"
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.sig"
"""A signed note whose text is `STATEMENT` and the SHA-256 of the manifest's bytes in hexadecimal, a line each."""
STATEMENT: Final = "coatcheck audit export"
HEAD: Final = "checkpoint"
"""The signed note of the checkpoint that covers all events of the export."""
EARLIER: Final = "checkpoints"
"""Further signed notes, an empty line between them: of a range those that lie within it, of a selection at most one."""
UNFINISHED: Final = "unfinished.json"
"""There while an export is being made."""

SEGMENT_EVENTS: Final = 10_000
MAX_LINE_BYTES: Final = 16 * 1024
"""An event of 4 KiB, 63 hashes of a proof, and what stands around them."""
_SEGMENT_NAME: Final = re.compile(r"events-[0-9]{12}\.jsonl")
_HEXADECIMAL: Final = re.compile("[0-9a-f]{64}")
_HASH: Final = rb'"[A-Za-z0-9+/]{43}="'
LINE: Final = re.compile(
    rb'\{"seq":([1-9][0-9]{0,18}),"leaf":(%b)(?:,"proof":\[((?:%b(?:,%b)*)?)\])?,"(event|bytes)":'
    % (_HASH, _HASH, _HASH)
)
"""All of a line before the event: number, leaf in quotes, proof, and which of two forms follows."""


class Unusable(ValueError):
    """What is given is no export, proof, key or anchor of this format, so that nothing can be said about a log."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of lines, in the order of the log."""

    name: str
    first: int
    """Sequence number of its first event."""
    last: int
    count: int
    sha256: str
    """Hex, of the file."""


@dataclass(frozen=True, slots=True)
class Manifest:
    origin: str
    """Of the log's newest epoch."""
    selection: bool
    """False: all events from `first` to `last`. True: those of them that `query` finds, each with its own proof."""
    first: int
    last: int
    """`first` - 1 where there are none."""
    count: int
    made_us: int
    """UTC, microseconds since 1970."""
    query: tuple[tuple[str, str], ...] = ()
    """What was asked for, as in the console's URL; for people."""
    before: Frontier = field(default_factory=Frontier)
    """Of the events below `first`; empty in a selection."""
    consistency: Proof = ()
    """To the tree of the head: of a range from that of its last event, of a selection from the checkpoint in `EARLIER`."""
    segments: tuple[Segment, ...] = ()
    earlier: str = ""
    """SHA-256 of the file `EARLIER` in hexadecimal; empty: there is none."""

    @property
    def ends_by_choice(self) -> bool:
        """Whether it was asked to end before the log does."""
        return any(name == "until" for name, _ in self.query)

    def to_bytes(self) -> bytes:
        """JSON with sorted keys, for people in lines."""
        fields = {
            "format": FORMAT,
            "origin": self.origin,
            "kind": "selection" if self.selection else "range",
            "first": self.first,
            "last": self.last,
            "count": self.count,
            "made": self.made_us,
            "query": [list(pair) for pair in self.query],
            "before": [_base64(one) for one in self.before.hashes],
            "consistency": [_base64(one) for one in self.consistency],
            "checkpoints": self.earlier,
            "segments": [
                {"name": one.name, "first": one.first, "last": one.last, "count": one.count, "sha256": one.sha256}
                for one in self.segments
            ],
        }
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Raises Unusable where something that `to_bytes` writes is not there."""
        try:
            fields = orjson.loads(data)
            if fields["format"] != FORMAT:
                raise Unusable(f"the manifest is not of the format {FORMAT}")
            selection = {"range": False, "selection": True}[fields["kind"]]
            before = () if selection else tuple(map(_hash, fields["before"]))
            manifest = cls(
                origin=fields["origin"],
                selection=selection,
                first=_number(fields["first"]),
                last=_number(fields["last"]),
                count=_number(fields["count"]),
                made_us=_number(fields["made"]),
                query=tuple(map(_pair, fields["query"])),
                before=Frontier() if selection else Frontier(_number(fields["first"]) - 1, before),
                consistency=tuple(map(_hash, fields["consistency"])),
                segments=tuple(map(_segment, fields["segments"])),
                earlier=_earlier(fields["checkpoints"]),
            )
            log_name(manifest.origin)
            if not 0 < manifest.first <= manifest.last + 1:
                raise ValueError("not a range")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise error if isinstance(error, Unusable) else Unusable("the manifest cannot be read") from None
        return manifest

    def lists_earlier(self, notes: str) -> bool:
        """Whether that is what the file of earlier checkpoints held."""
        return self.earlier == (_digest(notes.encode()) if notes else "")

    def sign(self, seed: bytes) -> str:
        """The content of `SIGNATURE`."""
        return seal_note(f"{STATEMENT}\n{_digest(self.to_bytes())}\n", public_key(log_name(self.origin), seed), seed)

    def is_signed(self, data: bytes, note: str, keys: Iterable[VerifierKey]) -> bool:
        """Whether `note` is what the log's own key says of the file that this was read from."""
        text, signers = unseal_note(note, keys) or ("", frozenset())
        return log_name(self.origin) in signers and text == f"{STATEMENT}\n{_digest(data)}\n"


def write_line(seq: int, leaf_hash: bytes, body: bytes, proof: Proof | None = None) -> bytes:
    """A line of a segment. The stored bytes stand in it as they are, or in base64 where they are no event."""
    path = b"" if proof is None else b',"proof":[%b]' % b",".join(b'"%b"' % _base64(one).encode() for one in proof)
    form = b'"event":%b' % body if is_plain(body) else b'"bytes":"%b"' % base64.b64encode(body)
    return b'{"seq":%d,"leaf":"%b"%b,%b}\n' % (seq, _base64(leaf_hash).encode(), path, form)


def is_plain(body: bytes) -> bool:
    """Whether it is a JSON object in the one spelling that the log writes: no spaces, sorted keys, none of them twice."""
    try:
        value = orjson.loads(body)
        return isinstance(value, dict) and orjson.dumps(value, option=orjson.OPT_SORT_KEYS) == body
    except (ValueError, TypeError):  # orjson refuses to write what is nested more than 254 deep with a TypeError
        return False


def segment_name(first: int) -> str:
    return f"events-{first:012}.jsonl"


def read_hashes(quoted: bytes) -> Proof | None:
    """The hashes of a line's proof; None where one is not in its only spelling."""
    try:
        return tuple(_hash(one[1:-1].decode()) for one in quoted.split(b",")) if quoted else ()
    except ValueError:
        return None


def _segment(fields: Any) -> Segment:
    name, sha256 = _string(fields["name"]), _string(fields["sha256"])
    if not _SEGMENT_NAME.fullmatch(name) or not _HEXADECIMAL.fullmatch(sha256):
        raise ValueError("not a segment's name or hash")
    return Segment(name, _number(fields["first"]), _number(fields["last"]), _number(fields["count"]), sha256)


def _pair(value: object) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("not a name and a value")
    return _string(value[0]), _string(value[1])


def _earlier(value: object) -> str:
    text = _string(value)
    if text and not _HEXADECIMAL.fullmatch(text):
        raise ValueError("not a hash")
    return text


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    return value


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_SIZE:
        raise ValueError("not a number")
    return value


def _hash(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("not a hash") from error
    if len(data) != HASH_BYTES or _base64(data) != text:
        raise ValueError("not a hash")
    return data


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
