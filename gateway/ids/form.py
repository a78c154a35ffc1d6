"""The opaque form: what clients hold instead of the service's IDs.

    <prefix> base62( hdr ‖ h[16] ‖ tag[8] )              the prefix and 34 characters, at most 64 together
    hdr = ID epoch (4 bits) ‖ tag-key version (4 bits)
    h   = HMAC-SHA256(K_prf, lp("coatcheck id h 1", deployment, upstream project, kind, raw))[:16]
    tag = HMAC-SHA256(K_tag, lp("coatcheck id tag 1", deployment, prefix, hdr, h))[:8]

`h` addresses the record under the tenant's key and tells nothing about the raw ID; the tag is the deployment's, so that
anything it did not mint is known before any look-up. An inert ID has the same form and no record:

    r = HMAC-SHA256(K_inert, lp(kind, raw))[:8]          h = r ‖ HMAC-SHA256(K_inert, lp(prefix, hdr, r))[:8]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from hmac import compare_digest
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.ids.encoding import base62, lp, unbase62
from gateway.ids.keys import IdentityKeys
from gateway.ids.kinds import KINDS, PREFIXES, kind_of_prefix
from gateway.ids.mac import Mac
from gateway.names import Kind, OpaqueId

H_BYTES: Final = 16
TAG_BYTES: Final = 8
TAIL_CHARS: Final = 34
MAX_CHARS: Final = 64
_TAG_AT: Final = 1 + H_BYTES
_SIZE: Final = _TAG_AT + TAG_BYTES
_HEADERS: Final = tuple(bytes([header]) for header in range(256))
_SIZED_HEADERS: Final = tuple(lp(header) for header in _HEADERS)
_SIZED_PREFIXES: Final = {prefix: lp(prefix) for prefix in PREFIXES}
_H_SIZE: Final = H_BYTES.to_bytes(4, "big")

_H_DOMAIN: Final = "coatcheck id h 1"
_TAG_DOMAIN: Final = "coatcheck id tag 1"

_GRAMMAR: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z]+)*[_-]|ft:")
# An item's unknown prefix is kept, because other servers name items as they like. Letters only and short, so that it
# cannot be a piece of the ID itself; a hyphenated UUID can begin with eight letters.
_UNKNOWN: Final = re.compile(r"(?![0-9a-f]{8}-[0-9a-f]{4}-)([a-z]{2,16}[_-])[A-Za-z0-9]")
_BARE_INERT: Final = "id_"
_CACHED_IDS: Final = 512


class Parsed(NamedTuple):
    """An ID whose tag is the deployment's. Which tenant's it is, and whether it opens, is not known yet."""

    prefix: str
    epoch: int
    tag_version: int
    h: bytes
    """16 bytes."""


class DeploymentForm:
    """Tags and verifies. `tag_keys`: version (0 to 15) → K_tag; an absent version is retired, and its IDs with it."""

    def __init__(self, deployment: str, tag_keys: Mapping[int, bytes], current: int) -> None:
        if current not in tag_keys or not all(0 <= version <= 15 for version in tag_keys):
            raise ValueError("tag-key versions are 0 to 15, and the current one has a key")
        self.deployment = deployment
        head = lp(_TAG_DOMAIN, deployment)
        self._macs = {version: Mac(key).after(head) for version, key in tag_keys.items()}
        self._current = current

    def mint(self, prefix: str, epoch: int, h: bytes) -> OpaqueId:
        """`prefix`, the header, `h` and the tag of the current version as an opaque ID."""
        header = epoch << 4 | self._current
        tag = _tag(self._macs[self._current], prefix, header, h)
        return OpaqueId(prefix + base62(_HEADERS[header] + h + tag, TAIL_CHARS))

    def header(self, epoch: int) -> bytes:
        """The byte that states both versions."""
        return _HEADERS[epoch << 4 | self._current]

    def verify(self, text: str) -> Parsed | None:
        """What `text` states, if this deployment wrote it, character by character; else None. Reads no store."""
        prefix = text[:-TAIL_CHARS]
        if len(text) > MAX_CHARS or not _GRAMMAR.fullmatch(prefix):
            return None
        data = unbase62(text[-TAIL_CHARS:], _SIZE)
        if data is None or (mac := self._macs.get(data[0] & 15)) is None:
            return None
        header, h = data[0], data[1:_TAG_AT]
        if not compare_digest(data[_TAG_AT:], _tag(mac, prefix, header, h)):
            return None
        return Parsed(prefix, header >> 4, header & 15, h)


def _tag(mac: Mac, prefix: str, header: int, h: bytes) -> bytes:
    """`mac` is prepared with domain and deployment; what follows is `lp(prefix, header, h)` of parts that stand ready."""
    sized = _SIZED_PREFIXES.get(prefix) or lp(prefix)
    return mac.digest(sized + _SIZED_HEADERS[header] + _H_SIZE + h)[:TAG_BYTES]


class TenantForm:
    """One tenant's IDs. `identity`: epoch (0 to 15) → keys; new IDs are of `current`, and only those open."""

    def __init__(self, form: DeploymentForm, identity: Mapping[int, IdentityKeys], current: int) -> None:
        if current not in identity or not all(0 <= epoch <= 15 for epoch in identity):
            raise ValueError("ID epochs are 0 to 15, and the current one has keys")
        self._form = form
        self._prf = Mac(identity[current].prf).after(lp(_H_DOMAIN, form.deployment))
        self._inert = {epoch: Mac(keys.inert) for epoch, keys in identity.items()}
        self._current = current
        # Streams name the same few IDs in every event: a hit costs a fiftieth of minting.
        self._cached = lru_cache(maxsize=_CACHED_IDS)(self._mint)

    def opaque(self, kind: Kind, raw: str, project: str) -> OpaqueId:
        """The opaque ID of `raw` in the upstream `project`: always the same one, whoever asks and on whatever route."""
        return self._cached(kind, raw, project)[0]

    def h(self, kind: Kind, raw: str, project: str) -> bytes:
        """The 16 bytes that address the record of `raw`."""
        return self._cached(kind, raw, project)[1]

    def inert(self, kind: Kind | None, raw: str) -> OpaqueId:
        """An ID that stands for `raw` and never opens, for a place where the service is not known to write one."""
        prefix = prefix_of(kind, raw)
        kind = kind or kind_of_prefix(prefix)
        r = self._keyed(self._current, kind.value if kind else "", raw)
        header = self._form.header(self._current)
        return self._form.mint(prefix, self._current, r + self._keyed(self._current, prefix, header, r))

    def is_inert(self, parsed: Parsed) -> bool:
        """Whether this tenant was given it as an inert ID. False for every other tenant's, inert or not."""
        if parsed.epoch not in self._inert:
            return False
        header = bytes([parsed.epoch << 4 | parsed.tag_version])
        r, check = parsed.h[:8], parsed.h[8:]
        return compare_digest(check, self._keyed(parsed.epoch, parsed.prefix, header, r))

    def is_current(self, parsed: Parsed) -> bool:
        """Whether it is of the living epoch. Another epoch's ID must not be looked up: its identity key was retired."""
        return parsed.epoch == self._current

    def _mint(self, kind: Kind, raw: str, project: str) -> tuple[OpaqueId, bytes]:
        h = self._prf.digest(lp(project, kind, raw))[:H_BYTES]
        return self._form.mint(prefix_of(kind, raw), self._current, h), h

    def _keyed(self, epoch: int, *parts: bytes | str) -> bytes:
        return self._inert[epoch].digest(lp(*parts))[:8]


def prefix_of(kind: Kind | None, raw: str) -> str:
    """The prefix that the opaque ID of `raw` takes: its own where the kind has it (without a kind: where the closed
    list has it), or where `raw` is an item's and has an unknown one; else the kind's canonical prefix."""
    if listed := _LISTED[kind].match(raw):
        return listed.group()
    if (kind is None or kind is Kind.ITEM) and (unknown := _UNKNOWN.match(raw)):
        return unknown.group(1)
    return KINDS[kind].canonical if kind else _BARE_INERT


def _any_of(prefixes: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(filter(_GRAMMAR.fullmatch, prefixes), key=len, reverse=True)
    return re.compile("|".join(longest_first))


_LISTED: Final[Mapping[Kind | None, re.Pattern[str]]] = MappingProxyType(
    {None: _any_of(PREFIXES), **{kind: _any_of(row.prefixes) for kind, row in KINDS.items()}}
)
