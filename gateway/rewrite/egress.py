"""The last look at bytes that leave: is there an ID of the upstream service in them?

Deliberately a second opinion. It shares the definition with `gateway/rewrite/outbound.py` (the prefixes of
`gateway/ids/kinds.py`) and no code and no table: it finds shapes with a pattern of its own, and knows by key names of its
own where users and models speak. What it finds must never have been there, so a finding ends the answer and alerts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gateway.ids.kinds import PREFIXES


class Found(StrEnum):
    RAW_SHAPE = "raw_shape"
    """Something of raw shape outside what users and models say."""
    TOUCHED = "touched"
    """A raw ID that this request knows, wherever it stands."""
    UNREADABLE = "unreadable"
    """Bytes that cannot be parsed and may hide something."""


@dataclass(frozen=True, slots=True)
class Finding:
    """For the audit log: what, and its prefix; never the ID."""

    what: Found
    prefix: str = ""


_UUID: Final = rb"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
_TAIL: Final = rb"(?:[0-9A-Za-z]{20,64}|" + _UUID + rb")(?![0-9A-Za-z_-])"
# Two patterns, because `re` runs to the next `_` six times faster than to the next of two characters.
_SUSPECTS: Final = (re.compile(rb"_" + _TAIL), re.compile(rb"-" + _TAIL))
_BEFORE: Final = re.compile(rb"[0-9A-Za-z_-]*\Z")
_TUNED: Final = b"ft:"
_NAMES: Final = re.compile(rb"(?<![0-9A-Za-z_-])(?i:ft):[0-9A-Za-z][0-9A-Za-z._:-]{15,250}[0-9A-Za-z]")
_PREFIXES: Final = frozenset(prefix.encode() for prefix in PREFIXES)
_LONGEST_PREFIX: Final = max(map(len, _PREFIXES))
_MOST_CLEARED: Final = 256
_ESCAPE: Final = re.compile(
    rb"\\(?:u00[2-7]|/|(?:[bfnrt]|u[0-9A-Fa-f]{4})(?:[a-z][0-9a-z_-]{0,10}[_-][0-9A-Za-z-]{20}|[Ff][Tt]:))"
)
"""An escape that spells a character of an ID, or may stand right before one and so hide where it begins (`\\nresp_…`)."""
_DIGIT: Final = re.compile(rb"[0-9]")
_MANY: Final = 256
_MUCH_BYTES: Final = 64 * 1024
_LINES: Final = re.compile(rb"\r\n|\r|\n")
_EVENTS: Final = re.compile(rb"(?>\r\n|\r|\n)(?:\r\n|\r|\n)")

_NONE: Final[frozenset[str]] = frozenset()
_TREES: Final = frozenset(
    {
        "metadata", "attributes", "arguments", "parameters", "output_schema", "input_schema", "schema", "format",
        "response_format", "filters", "user_location", "logprobs", "queries", "keys", "env", "commands", "functions",
        "allowed_tools", "require_approval", "allowed_domains",
        "domain_secrets", "source", "agent", "summary_text", "wandb",
    }
)  # fmt: skip
"""Keys below which everything is the user's, the model's or a third party's."""

_TEXTS: Final = frozenset(
    {
        "text", "delta", "refusal", "transcript", "code", "logs", "stdout", "stderr", "command", "diff", "input", "output",
        "output_text", "content", "instructions", "name", "namespace", "title", "description", "prompt", "search_query",
        "revised_prompt", "reason", "result", "author", "recipient", "file_url", "server_label", "server_url",
        "server_description", "authorization", "image_url", "file_data", "data", "partial_image_b64", "b64_json",
        "audio", "input_audio", "embedding", "obfuscation",
        "encrypted_content", "fingerprint", "user", "input_user", "prompt_cache_key", "safety_identifier",
        "continuation_id", "skills", "user_provided_suffix",
        "call_id", "tool_call_id", "caller_id", "stream_id", "event_id", "custom_id", "connector_id",
    }
)  # fmt: skip
"""Keys whose strings are theirs, or tokens that address nothing; objects below them are looked into."""

_BELOW: Final = {
    "action": frozenset({"query", "url", "pattern", "working_directory"}),
    "operation": frozenset({"path"}),
    "sources": frozenset({"url"}),
    "tool_calls": frozenset({"id"}),
    "pending_safety_checks": frozenset({"id", "message"}),
    "acknowledged_safety_checks": frozenset({"id", "message"}),
    "words": frozenset({"word"}),
    "transcription": frozenset({"keywords"}),
    "tracing": frozenset({"group_id", "workflow_name"}),
    "body": frozenset({"stop", "suffix"}),
}
"""More such keys, below one key: what the model wants looked at, and IDs that are tokens of one call."""

_PARTS: Final = {
    "url_citation": frozenset({"url"}),
    "image_url": frozenset({"url"}),
    "file": frozenset({"filename"}),
}
"""The same, below a key that is the type of the object that it stands in."""

_MAPS: Final = frozenset({"variables"})
"""Objects whose keys are the user's: every string directly below is theirs."""

_LABELLING: Final = frozenset({"labels", "passing_labels"})
_BY_TYPE: Final = {
    "url_citation": frozenset({"url"}),
    "input_file": frozenset({"filename"}),
    "mcp": frozenset({"headers"}),
    "mcp_call": frozenset({"error"}),
    "mcp_list_tools": frozenset({"tools", "error"}),
    "local_shell_call_output": frozenset({"output"}),
    "function": frozenset({"function"}),
    "custom": frozenset({"custom"}),
    "string_check": frozenset({"reference"}),
    "text_similarity": frozenset({"reference"}),
    "score_model": _LABELLING,
    "label_model": _LABELLING,
    "multi": frozenset({"calculate_output"}),
}
"""More such keys, in objects of one type."""


def scan(
    data: bytes,
    *,
    issued: Container[str],
    touched: Collection[bytes],
    verify: Callable[[str], bool],
    quoted: Container[str] = frozenset(),
    cleared: set[bytes] | None = None,
) -> Finding | None:
    """What must not leave in `data`: a JSON document, or whole server-sent events.

    `issued`: opaque IDs of this answer; `touched`: raw IDs of this request; `verify`: whether a text is an opaque ID of
    this deployment; `quoted`: what the client itself sent and an error message repeats; `cleared`: a memory for the scans
    of one stream, whose events show the same IDs again and again. Cheap where nothing is found.
    """
    if (known := _first_of(touched, data)) is not None:
        return Finding(Found.TOUCHED, _prefix_of(known))
    suspect = _suspect(data, issued, verify, quoted, set() if cleared is None else cleared)
    if suspect is None and not (b"\\" in data and _ESCAPE.search(data)):
        return None
    return _read(data, _Reader([raw.decode() for raw in touched], issued, verify, quoted))


def _suspect(
    data: bytes, issued: Container[str], verify: Callable[[str], bool], quoted: Container[str], cleared: set[bytes]
) -> bytes | None:
    """The prefix of something of raw shape in `data` that is neither an ID of ours nor the client's own word. What is
    ours stays so: `cleared` has it with all that tells what it is."""
    for pattern in _SUSPECTS:
        match = pattern.search(data)
        while match is not None:  # half of what `finditer` costs where there is one or none
            start, end = match.span()
            match = pattern.search(data, end)
            # With the longest prefix and one character more before it: enough to know it by, the same ID often follows.
            around = data[max(0, start - _LONGEST_PREFIX) : end]
            if around in cleared:
                continue
            tail_at = len(around) - (end - start) + 1
            tail = around[tail_at:]
            head = _BEFORE.search(around, 0, tail_at)
            prefix = head.group() if head else b""
            if prefix in _PREFIXES and (b"-" in tail or _DIGIT.search(tail)):
                text = (prefix + tail).decode("ascii")
                if text not in issued and text not in quoted and not verify(text):
                    return prefix
            if len(cleared) < _MOST_CLEARED:
                cleared.add(around)
    for name in _NAMES.findall(data) if _TUNED in data.lower() else ():
        text = name.decode("ascii")
        if text not in issued and text not in quoted and not verify(text):
            return _TUNED
    return None


def _read(data: bytes, reader: _Reader) -> Finding | None:
    try:
        return reader.value(json.loads(data))
    except (ValueError, RecursionError):
        pass
    for event in _EVENTS.split(data.removeprefix(b"\xef\xbb\xbf")):
        said = []
        for line in _LINES.split(event):
            field, _, value = line.partition(b":")
            if field == b"data":
                said.append(value.removeprefix(b" "))
            elif finding := reader.unparsed(line):
                return finding
        content = b"\n".join(said)
        try:
            finding = reader.value(json.loads(content)) if content else None
        except (ValueError, RecursionError):
            finding = reader.unparsed(content)
        if finding:
            return finding
    return None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads decoded strings, so that escapes hide nothing."""

    touched: list[str]
    issued: Container[str]
    verify: Callable[[str], bool]
    quoted: Container[str]

    def value(
        self, value: Any, key: str = "", texts: frozenset[str] = _NONE, *, theirs: bool = False, inside: bool = False
    ) -> Finding | None:
        """`theirs`: a string here is a user's or a model's; `inside`: and so is all below; `texts`: more keys in an object
        here whose strings are."""
        if isinstance(value, str):
            return self.text(value, shape=not theirs)
        if isinstance(value, list):
            each = (self.value(one, key, texts, theirs=theirs, inside=inside) for one in value)
            return next(filter(None, each), None)
        if isinstance(value, dict):
            tag = value.get("type")
            trees = _BY_TYPE.get(tag, _NONE) if isinstance(tag, str) else _NONE
            for name, member in value.items():
                below = inside or name in _TREES or name in trees
                said = below or key in _MAPS or name in _TEXTS or name in texts
                more = (_PARTS if name == tag else _BELOW).get(name, _NONE)
                found = self.text(name, shape=not inside) or self.value(member, name, more, theirs=said, inside=below)
                if found:
                    return found
        return None

    def unparsed(self, data: bytes) -> Finding | None:
        """What is no JSON. An escape in it may spell what nobody can see here."""
        finding = self.text(data.decode("utf-8", "replace"), shape=True)
        return finding or (Finding(Found.UNREADABLE) if _ESCAPE.search(data) else None)

    def text(self, text: str, *, shape: bool) -> Finding | None:
        for raw in self.touched:
            if raw in text:
                return Finding(Found.TOUCHED, _prefix_of(raw.encode()))
        if shape:
            prefix = _suspect(text.encode("utf-8", "replace"), self.issued, self.verify, self.quoted, set())
            if prefix is not None:
                return Finding(Found.RAW_SHAPE, prefix.decode())
        return None


def _first_of(touched: Collection[bytes], data: bytes) -> bytes | None:
    """One of `touched` that stands in `data`. Many in much are looked for together: where the first characters of some do."""
    if len(touched) < _MANY or len(data) < _MUCH_BYTES:
        return next((raw for raw in touched if raw in data), None)
    starts = b"|".join(re.escape(start) for start in sorted({raw[:4] for raw in touched}))
    wanted, sizes = frozenset(touched), {len(raw) for raw in touched}
    for found in re.finditer(b"(?=" + starts + b")", data):
        at = found.start()
        for size in sizes:
            if (raw := data[at : at + size]) in wanted:
                return raw
    return None


def _prefix_of(raw: bytes) -> str:
    return max((prefix for prefix in _PREFIXES if raw.startswith(prefix)), key=len, default=b"").decode()
