"""The IDs that the stand-in hands out, and the record of each one and where it was put.

Shapes are those seen in recorded traffic of the OpenAI API: items and responses carry 16 hex digits shared by
everything of one conversation, `00`, the Unix second of creation in 8 hex digits, and 24 random hex digits.
"""

from __future__ import annotations

import random
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
HEX = "0123456789abcdef"


class IdStyle(StrEnum):
    """How responses, conversations and items are named; all but the first are what other servers do."""

    HEX50 = "hex50"
    HEX48 = "hex48"
    HEX32 = "hex32"
    UUID = "uuid"
    BASE62 = "base62"
    BARE = "bare"  # no prefix at all: 32 hex digits
    SHORT = "short"  # 6 hex digits: too few to be known by their shape


class Exposure(StrEnum):
    """Whether a client may read an ID that was put into an answer."""

    NEVER = "never"
    CORRELATION = "correlation"  # call IDs and the like address nothing and may pass
    MODEL_TEXT = "model_text"  # the model's own words, an ID that stands nowhere else in request or answer


@dataclass(frozen=True, slots=True)
class Issued:
    """One raw ID with the place where it first stood."""

    raw: str
    place: str
    exposure: Exposure


_FIXED: dict[str, tuple[str, int]] = {
    "cntr_": (HEX, 48),
    "cfile_": (HEX, 32),
    "file-": (BASE62, 22),
    "vs_": (HEX, 32),
    "call_": (BASE62, 24),
    "req_": (HEX, 32),
    "org-": (BASE62, 24),
    "proj_": (BASE62, 24),
    "skill_": (HEX, 48),
    "pmpt_": (HEX, 48),
    "tunnel_": (HEX, 32),
    "chatcmpl-": (BASE62, 29),
    "cmpl-": (BASE62, 29),
    "modr-": (BASE62, 29),
    "audio_": (HEX, 32),
    "batch_": (HEX, 32),
    "cu_sc_": (HEX, 50),
    "vsfb_": (HEX, 32),
    "skillver_": (HEX, 48),
    "ftjob-": (BASE62, 24),
    "ftevent-": (BASE62, 24),
    "ftckpt_": (BASE62, 24),
}
"""Kinds whose shape does not follow the style: prefix → alphabet and length of the tail."""

_ATTACHABLE = frozenset({"file-", "vs_", "cntr_", "skill_", "pmpt_", "tunnel_", "audio_"})

_SHAPE = re.compile(
    r"(?<![A-Za-z0-9_-])"
    r"((?:resp|conv|msg|rs|fc|fco|ctc|ctco|ws|fs|ci|ig|mcp|mcpl|mcpr|mcpa|cu|cuo|lsh|lsho|sh|sho|apc|apco|tsc|tso|cmp|"
    r"cntr|cfile|vs|vsfb|skill|skillver|pmpt|tunnel|batch|proj|audio|ftckpt)_|file-|org-|chatcmpl-|ftjob-|ftevent-)"
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,64})"
    r"(?![A-Za-z0-9_-])"
)


def find_ids(text: str) -> list[str]:
    """Every substring of `text` that looks like a prefixed ID, in order of appearance, without repeats."""
    return list(dict.fromkeys(match.group(0) for match in _SHAPE.finditer(text)))


class RawIds:
    """Makes IDs and remembers them all. `issued` maps each raw ID to the record of where it first stood, `attachable`
    holds the files, vector stores, containers, skills, prompts and tunnels, which requests may name."""

    def __init__(
        self,
        style: IdStyle,
        *,
        seed: int | None = None,
        keep: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.style = style
        self.issued: dict[str, Issued] = {}
        self.attachable: set[str] = set()
        self._keep = keep
        self._random = random.Random(seed)  # IDs of a test double: speed matters, secrecy does not
        self._clock = clock

    def lineage(self) -> str:
        """16 fresh hex digits, shared by everything of one conversation."""
        return self.text(HEX, 16)

    def text(self, alphabet: str, length: int) -> str:
        """`length` random characters of `alphabet`, at least one of them a digit."""
        while True:
            if alphabet is HEX:
                made = f"{self._random.getrandbits(4 * length):0{length}x}"
            else:
                made = "".join(self._random.choices(alphabet, k=length))
            if any(character.isdigit() for character in made):
                return made

    def new(
        self,
        prefix: str,
        lineage: str | None = None,
        *,
        place: str = "",
        exposure: Exposure | None = None,
        style: IdStyle | None = None,
    ) -> str:
        """A fresh ID of the kind that `prefix` stands for, recorded in `issued`."""
        if prefix in _FIXED:
            alphabet, length = _FIXED[prefix]
            raw = prefix + self.text(alphabet, length)
            if prefix in _ATTACHABLE:
                self.attachable.add(raw)
        else:
            raw = self._styled(prefix, lineage or self.lineage(), style or self.style)
        if exposure is None:
            exposure = Exposure.CORRELATION if prefix == "call_" else Exposure.NEVER
        self.note(raw, place or prefix, exposure)
        return raw

    def note(self, raw: str, place: str, exposure: Exposure = Exposure.NEVER) -> str:
        """Records a string that the stand-in made by other means; returns it."""
        if self._keep:
            self.issued.setdefault(raw, Issued(raw, place, exposure))
        return raw

    def secrets(self) -> set[str]:
        """All that no client may ever read."""
        return {raw for raw, issued in list(self.issued.items()) if issued.exposure is Exposure.NEVER}

    def _styled(self, prefix: str, lineage: str, style: IdStyle) -> str:
        seconds = f"{int(self._clock()):08x}"
        match style:
            case IdStyle.HEX50:
                return f"{prefix}{lineage}00{seconds}{self.text(HEX, 24)}"
            case IdStyle.HEX48:
                return f"{prefix}{seconds}{self.text(HEX, 24)}{lineage}"
            case IdStyle.HEX32:
                return prefix + self.text(HEX, 32)
            case IdStyle.UUID:
                return prefix + str(uuid.UUID(int=self._random.getrandbits(128), version=4))
            case IdStyle.BASE62:
                return prefix + self.text(BASE62, 22)
            case IdStyle.BARE:
                return self.text(HEX, 32)
            case IdStyle.SHORT:
                return prefix + self.text(HEX, 6)
