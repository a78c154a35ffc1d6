"""All the words that a script may hold. An unknown one is refused, so that a slip in a test is seen."""

from __future__ import annotations

from gateway.demo.stand_in.faults import SPOILERS
from gateway.demo.stand_in.items import BUILDERS
from gateway.demo.stand_in.scripts import Script

MODIFIERS = {
    "annotations": "the message cites a file, a path and a URL",
    "at": "A:B:…: every write is cut at these offsets",
    "bom": "the stream begins with a byte order mark",
    "calls": "N: calls the first N functions",
    "close": "the connection is closed without an answer",
    "close_reason": "TEXT: what the close of a socket says, in place of an ID and the organization",
    "close_socket": "N: the socket is closed with code N after the response",
    "comments": "a comment line before every event",
    "conversation_id": "the response names its conversation a second time, in a field of that name",
    "cut": "N: the connection is closed inside event N, or after N bytes of JSON",
    "cut_clean": "N: the same, but ended as if it were complete",
    "delay": "S: seconds between writes",
    "delta": "N: characters in a delta; 8 unless told",
    "eol": "lf, crlf or cr: the line ends of the stream",
    "drop_after": "the connection is closed after a whole answer that did not say so",
    "error_event": "N: an error event in place of what follows event N",
    "escape": "the underscore of each ID is written as \\u005f",
    "failed": "the response ends as failed",
    "flood": "N: N more text deltas of 10,000 bytes",
    "goodbye": "the answer says that the connection will be closed",
    "hang": "no answer at all, or =N: silence after event N",
    "incomplete": "the response ends as incomplete",
    "keepalive": "a comment with a blank line before every event",
    "mcp_broken": "the MCP server fails",
    "multi_data": "the JSON of an event over several data lines",
    "never_finish": "all events, then silence without an end",
    "no_event": "events without an event line",
    "no_length": "JSON in chunks instead of a content length",
    "no_message": "no message at the end",
    "no_obfuscation": "deltas without padding",
    "no_space": "no space after the colon of a line",
    "numbers": "number tokens and escapes that must not change; =extreme: also those that many parsers refuse",
    "one_write": "the whole stream in one write",
    "plant": "ID: puts an ID where third parties write",
    "polls": "N: how many reads complete a background response",
    "pretty": "indented JSON",
    "quote": "the model quotes the raw IDs that it was sent and those of its answer",
    "recall": "the model quotes the ID of the first item that it ever saw",
    "say": "TEXT: what the model says",
    "slow": "S: seconds before the answer",
    "socket_limit": "the socket has been open for as long as one may: an error, and its close",
    "split": "N: writes of N bytes",
    "status": "N: the answer is that failure",
    "stranger": "the model makes up an ID that stands nowhere else",
    "unicode": "the message holds characters of two to four bytes",
    "unknown_events": "events of an unknown type with fresh IDs",
    "words": "N: N more words in the message",
}
"""Word → what it does to the answer that the items and faults make."""


def unknown_words(script: Script) -> list[str]:
    """The words of a script that mean nothing."""
    return [word for word, _ in script.words if word not in MODIFIERS and word not in BUILDERS and word not in SPOILERS]
