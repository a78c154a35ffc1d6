"""The words that the stand-in is told, for the canary: which there are, and with which values."""

from __future__ import annotations

from gateway.demo.stand_in.faults import SPOILERS
from gateway.demo.stand_in.items import BUILDERS
from gateway.demo.stand_in.words import MODIFIERS

VALUES: dict[str, tuple[str, ...]] = {
    "at": ("1:2:3:17:40:400:1000",),
    "calls": ("2",),
    "cut": ("3", "700"),
    "cut_clean": ("3", "700"),
    "delay": ("0.0001",),
    "delta": ("3", "200"),
    "eol": ("crlf", "cr"),
    "error_event": ("0", "4"),
    "flood": ("1",),
    "hang": ("", "4"),
    "numbers": ("", "extreme"),
    "polls": ("3",),
    "plant": ("a coat",),
    "redirect": ("301", "307"),
    "say": ("hello",),
    "slow": ("0.05",),
    "split": ("41",),
    "status": ("400", "401", "403", "404", "409", "422", "429", "500", "502", "503"),
    "words": ("3",),
}
"""What a word is played with; every other one stands alone."""

SILENT = frozenset({"hang", "never_finish"})
"""Words after which nothing comes: the client leaves."""

ITEMS = ", ".join(word for word in BUILDERS if word not in ("refusal", "compaction"))
INCLUDE = [
    "file_search_call.results",
    "code_interpreter_call.outputs",
    "web_search_call.action.sources",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]


def every_word() -> list[str]:
    return [
        f"{word}={value}" if value else word
        for word in (*BUILDERS, *MODIFIERS, *SPOILERS)
        for value in VALUES.get(word, ("",))
    ]
