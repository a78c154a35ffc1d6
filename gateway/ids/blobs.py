"""Replay blobs (`encrypted_content` and its kin) bound to whom they were given.

The service decrypts such a blob for its whole organization, so a stolen one would replay another tenant's reasoning, and for no
other one, so it goes back to the upstream that made it. Outbound each takes a suffix `.cc1.<K_cap version>.<p|t>.<MAC>`, whose
MAC says all of that; inbound a blob without a good one is refused.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final, Literal

from gateway.ids.encoding import base62, lp
from gateway.names import Owner, TenantId

Scope = Literal["p", "t"]
"""`p`: of a private root, only its owner may replay it. `t`: of a root that the whole tenant sees."""

_MAC_BYTES: Final = 16
_MAC_CHARS: Final = 22
_SUFFIX: Final = re.compile(rf"\.cc1\.([1-9][0-9]{{0,2}})\.([pt])\.([0-9A-Za-z]{{{_MAC_CHARS}}})\Z")
_SUFFIX_CHARS: Final = len(".cc1.255.p.") + _MAC_CHARS


def seal_blob(
    cap_key: bytes, version: int, tenant: TenantId, scope: Scope, owner: Owner, blob: str, *, project: str
) -> str:
    """`blob` and its suffix (at most 33 characters). `cap_key` is K_cap of `version` (1 to 255); `project`: the upstream's."""
    whose = _whose(tenant, scope, owner, project)
    return f"{blob}.cc1.{version}.{scope}.{_mac(cap_key, version, whose, blob)}"


def open_blob(
    cap_keys: Mapping[int, bytes], tenant: TenantId, owner: Owner, sealed: str, *, project: str
) -> str | None:
    """The blob, if it was sealed for this tenant in this upstream project, and for this very owner where it is private; else
    None."""
    suffix = _SUFFIX.search(sealed, max(0, len(sealed) - _SUFFIX_CHARS))
    if not suffix or (cap_key := cap_keys.get(version := int(suffix[1]))) is None:
        return None
    blob, scope = sealed[: suffix.start()], suffix[2]
    if not hmac.compare_digest(suffix[3], _mac(cap_key, version, _whose(tenant, scope, owner, project), blob)):
        return None
    return blob


def _whose(tenant: TenantId, scope: str, owner: Owner, project: str) -> bytes:
    return lp(tenant, scope, lp(owner.issuer, owner.subject) if scope == "p" else b"", project)


def _mac(cap_key: bytes, version: int, whose: bytes, blob: str) -> str:
    message = lp("coatcheck blob 1", bytes([version]), whose, blob)
    return base62(hmac.digest(cap_key, message, "sha256")[:_MAC_BYTES], _MAC_CHARS)
