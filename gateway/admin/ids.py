"""Raw IDs at the operator's hand: adopt existing ones under an owner, and show what an opaque ID stands for.

`adopt` is the only door by which a raw ID comes in, `show` the only one by which it goes out. Both are on record before
they answer. No other file of this package knows raw IDs.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Final

from gateway.admin.administration import AdminEvent, AdminInvalid, Administration, AdminMissing, AdminRefused
from gateway.authn.claims import is_name
from gateway.ids.kinds import KINDS, kind_of_prefix
from gateway.ids.shape import is_raw_shape
from gateway.mapping import Mapper, Opened
from gateway.names import Kind, OpaqueId, Owner, RawId, TenantId, Visibility
from gateway.stores.contract import Found, Lookup, Mode

_PREFIX: Final = re.compile(r"(?:[a-z][a-z0-9]*_)+|[a-z]+[-:]")


@dataclass(frozen=True, slots=True)
class Upstream:
    """Under which upstream key, and in which upstream project, the raw IDs live."""

    name: str
    project: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file of raw IDs: its number from 1, and the opaque ID or what is wrong with it."""

    number: int
    opaque: OpaqueId | None
    error: str = ""


async def adopt(admin: Administration, tenant: TenantId, raw: str, owner: Owner, upstream: Upstream) -> OpaqueId:
    """Records the raw ID of a root as a private object of `owner`, and returns the ID that they use from now on.

    The claim outside the tenants' slots comes first, so that of two tenants one gets it, whatever happens next. Doing it
    again for the same owner is fine. Raises AdminRefused where it is no ID of an object that can be adopted, another
    tenant holds it, or somebody else of this tenant does.
    """
    kind = _kind(raw)
    _check_owner(owner)
    mapper = await _mapper(admin, tenant, upstream)
    if mapper.verify(raw) is not None:
        raise AdminInvalid("this is an opaque ID of this deployment, not an ID of the service")
    root = mapper.root(kind, raw, owner=owner, visibility=Visibility.PRIVATE, parent=b"", now=int(time.time()))
    write = mapper.write_root(root, Mode.CREATE)
    claim, opaque = mapper.claim(write, raw), mapper.to_opaque(kind, raw)
    async with admin.recorded(tenant, AdminEvent.ID_ADOPT, targets=((kind, opaque),)) as recording:
        if not recording.begun.tenant_active:
            raise AdminRefused("the tenant is suspended")
        if not mapper.holds(claim, await admin.store.claim(claim.key, claim.value, claim.lifetime_s)):
            raise AdminRefused("another tenant holds this object")
        met = await recording.write(write)
        if met is not None:
            _check_same(mapper.to_raw(Lookup(kind, write.h), Found(met, None)), owner)
    return opaque


async def adopt_lines(
    admin: Administration, tenant: TenantId, lines: Iterable[str], owner: Owner | None, upstream: Upstream
) -> AsyncIterator[Line]:
    """Adopts one raw ID per line, `RAW` or `RAW ISSUER#SUBJECT`; `owner` is that of lines without one. Empty lines and
    those that open with `#` are passed over; a wrong line is told and does not stop the others."""
    for number, line in enumerate(lines, 1):
        raw, _, named = line.strip().partition(" ")
        if not raw or raw.startswith("#"):
            continue
        try:
            its_owner = Owner.parse(named.strip()) if named.strip() else owner
            if its_owner is None:
                raise AdminInvalid("no owner: write RAW ISSUER#SUBJECT, or give --owner")
            made = Line(number, await adopt(admin, tenant, raw, its_owner, upstream))
        except (AdminRefused, ValueError) as error:
            made = Line(number, None, str(error))
        yield made


@dataclass(frozen=True, slots=True)
class Shown:
    """What the operator asked for. The one value outside the request's way whose text holds a raw ID."""

    raw: RawId
    opened: Opened


async def show(admin: Administration, tenant: TenantId, opaque: str, upstream: Upstream) -> Shown:
    """What the tenant's opaque ID stands for. Raises AdminRefused where it is none of ours, or the tenant has no record."""
    mapper = await _mapper(admin, tenant, upstream)
    parsed = mapper.verify(opaque)
    if parsed is None:
        raise AdminMissing("this is no opaque ID of this deployment")
    kind = kind_of_prefix(parsed.prefix) or Kind.ITEM
    lookup = mapper.lookup(kind, parsed)
    async with admin.recorded(
        tenant, AdminEvent.ID_SHOW, targets=((kind, OpaqueId(opaque)),), lookups=(lookup,)
    ) as recording:
        opened = mapper.to_raw(lookup, recording.found[0])
        if opened is None:
            raise AdminMissing("this tenant has no record of it: another tenant's, expired, or an ID that never opens")
    return Shown(opened.raw, opened)


def _kind(raw: str) -> Kind:
    """The kind of a root's raw ID, by its prefix. Raises AdminRefused."""
    if not is_raw_shape(raw):
        raise AdminInvalid("this does not look like an ID of the service")
    prefix = _PREFIX.match(raw)
    kind = kind_of_prefix(prefix[0]) if prefix else None
    if kind is None:
        raise AdminInvalid("this is no ID of an object that can be owned")
    if KINDS[kind].roots:
        raise AdminInvalid(f"{kind.value} belongs to another object: adopt that one")
    if not KINDS[kind].served:
        raise AdminInvalid(f"{kind.value} is not served")
    return kind


def _check_same(opened: Opened | None, owner: Owner) -> None:
    """Adopting again is fine where nothing would change."""
    if opened is None or opened.deleted:
        raise AdminRefused("this object is recorded already, and was deleted or its record does not open")
    if opened.root.owner != owner:
        raise AdminRefused("this object is recorded already, under another owner")


def _check_owner(owner: Owner) -> None:
    if not (is_name(owner.issuer) and is_name(owner.subject)):
        raise AdminInvalid("an owner is written ISSUER#SUBJECT, each 1 to 256 printable characters")


async def _mapper(admin: Administration, tenant: TenantId, upstream: Upstream) -> Mapper:
    deployment = await admin.keyring.deployment()
    return Mapper(deployment, await admin.unlock(tenant), upstream.name, upstream.project)
