"""Where an ID is mapped.

`to_raw` turns what a client sent into the service's ID, `to_opaque` the reverse. A `Mapper` is one tenant's view on one
upstream project: the tenant is part of every storage key that it computes and of what every record is encrypted for, so
what belongs to another tenant cannot even be asked for.
"""

from __future__ import annotations

import hmac
import logging
from binascii import hexlify
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from gateway.ids.blobs import open_blob
from gateway.ids.encoding import lp
from gateway.ids.form import Parsed
from gateway.ids.keys import NONCE_BYTES
from gateway.ids.kinds import KINDS, lifetime_s
from gateway.ids.tokens import safety_identifier
from gateway.names import Kind, OpaqueId, Owner, RawId, TenantId, Visibility
from gateway.nonces import fresh_nonce
from gateway.stores.claims import claimed_by, own_key, seal_tenant
from gateway.stores.contract import Found, Lookup, Mode, Write
from gateway.stores.keyring import Deployment, Unlocked
from gateway.stores.records import Child, RecordState, Root, open_record, record_key, seal_child, seal_root

LOG = logging.getLogger(__name__)

_DECOY = b"decoy"
"""The name under which decoys are sealed: no record's."""

_NOBODY = Owner("coatcheck", "nobody")

_CACHED_OWNERS = 256

_SHORTEST_ABSENCE_S = 10

_SHARED = "tenant"
"""The scope of lists whose entries everybody in the tenant sees."""

Nonce = Callable[[int], bytes]


class Opened(NamedTuple):
    """A record of this tenant, with the root that says whose it is."""

    raw: RawId
    h: bytes
    root: Root
    root_h: bytes
    deleted: bool
    """It, or its root, was deleted: it opens nowhere but inside replayed output items of its owner."""

    @property
    def kind(self) -> Kind:
        return self.raw.kind

    @property
    def is_root(self) -> bool:
        return self.h == self.root_h


class Claim(NamedTuple):
    """A root's entry outside the tenants' slots, by which a second tenant's record of the same object is noticed."""

    key: bytes
    value: bytes
    lifetime_s: int | None


class Mapper:
    """One tenant's IDs in one upstream project. Pure but for the nonces."""

    def __init__(
        self,
        deployment: Deployment,
        unlocked: Unlocked,
        upstream: str,
        project: str,
        nonce: Nonce = fresh_nonce,
    ) -> None:
        self.tenant: TenantId = unlocked.keys.tenant
        self.keys = unlocked.keys
        self.form = unlocked.form
        self.upstream = upstream
        self.project = project
        self.verify: Callable[[str], Parsed | None] = deployment.form.verify
        """What a text states, if this deployment wrote it. Reads no store."""
        self._deployment = deployment
        self._unlocked = unlocked
        self._siblings: dict[tuple[str, str], Mapper] = {}
        self._nonce = nonce
        self.end_user = lru_cache(maxsize=_CACHED_OWNERS)(self._end_user)
        """The `safety_identifier` of an owner who names no end user."""
        self._private = lru_cache(maxsize=_CACHED_OWNERS)(self._private_scope)
        self._names = {kind: record_key(self.tenant, kind, b"") for kind in Kind}

    def at(self, upstream: str, project: str) -> Mapper:
        """The same tenant's view on another upstream."""
        if upstream == self.upstream and project == self.project:
            return self
        made = self._siblings.get((upstream, project))
        if made is None:
            made = Mapper(self._deployment, self._unlocked, upstream, project, self._nonce)
            self._siblings[upstream, project] = made
        return made

    @property
    def epoch(self) -> tuple[int, int]:
        """Versions of the keys that make an ID what it is: one of another epoch is dead."""
        return self.keys.identity.current, self._deployment.keys.tag.current

    # --- inbound

    def open_blob(self, owner: Owner, sealed: str) -> str | None:
        """The replay blob, if this tenant was given it from this upstream project and, where it is private, to `owner`."""
        caps = {version: keys.cap for version, keys in self.keys.storage.keys.items()}
        return open_blob(caps, self.tenant, owner, sealed, project=self.project)

    def lookup(self, kind: Kind, parsed: Parsed) -> Lookup:
        """What `begin` reads for an ID whose tag verified."""
        return Lookup(kind, parsed.h)

    def to_raw(self, lookup: Lookup, found: Found) -> Opened | None:
        """The record that was looked up, or None where this tenant has none.

        A miss does the work of a hit of its kind (as many records decrypted and read), so that time does not tell a
        stranger's ID from a lost one.
        """
        kind, h = lookup.kind, lookup.h
        if not is_child(kind):
            root = self._open(kind, h, found.record, self._decoy_root)
            if not isinstance(root, Root):
                return self._missing(found.record)
            return Opened(root.raw, h, root, h, root.state is RecordState.DELETED)
        child = self._open(kind, h, found.record, self._decoy_child)
        if not isinstance(child, Child):
            self._open(Kind.RESPONSE, b"", None, self._decoy_root)
            return self._missing(found.record)
        root = self._open(child.root_kind, child.root_h, found.root, self._decoy_root)
        if not isinstance(root, Root):
            return self._missing(found.root)
        gone = child.state is RecordState.DELETED or root.state is RecordState.DELETED
        return Opened(child.raw, h, root, child.root_h, gone)

    def _open(self, kind: Kind, h: bytes, data: bytes | None, decoy: bytes) -> Root | Child | None:
        """The record of `kind` under `h`. Without one the decoy is opened in its place, and None is the answer."""
        name = self._name(kind, h)
        if data is None:
            open_record(self.keys.storage, _DECOY, decoy)
            return None
        record = open_record(self.keys.storage, name, data)
        return record if record is not None and record.raw.kind is kind else None

    def _name(self, kind: Kind, h: bytes) -> bytes:
        """`record_key` of this tenant."""
        return self._names[kind] + hexlify(h)

    def _missing(self, stored: bytes | None) -> Opened | None:
        """None. An absent record is nothing to tell; one that does not open was not written by a gateway."""
        if stored is not None:
            LOG.critical("record.unreadable", extra={"fields": {"tenant": self.tenant}})
        return None

    @cached_property
    def _decoy_root(self) -> bytes:
        raw = RawId(Kind.RESPONSE, "resp_" + "0" * 50)
        root = Root(raw, Owner("decoy", "decoy"), Visibility.PRIVATE, self.upstream, self.project, 0)
        return seal_root(self.keys.storage, _DECOY, root, self._nonce(NONCE_BYTES))

    @cached_property
    def _decoy_child(self) -> bytes:
        child = Child(RawId(Kind.ITEM, "msg_" + "0" * 50), Kind.RESPONSE, bytes(16))
        return seal_child(self.keys.storage, _DECOY, child, self._nonce(NONCE_BYTES))

    def _end_user(self, owner: Owner) -> str:
        return safety_identifier(self.keys.identity.newest.token, self.tenant, owner, "")

    def scopes(self, owner: Owner) -> tuple[str, str]:
        """The lists whose entries `owner` sees: their own and the tenant's. Who reads the store learns no name by them."""
        return self._private(owner), _SHARED

    def _private_scope(self, owner: Owner) -> str:
        secret = self.keys.identity.newest.token
        return hmac.digest(secret, lp("list", owner.issuer, owner.subject), "sha256")[:16].hex()

    def _scope(self, root: Root) -> str:
        """Of the list that shows the object; nothing where none does."""
        if not KINDS[root.kind].listed:
            return ""
        return _SHARED if root.visibility is Visibility.TENANT else self._private(root.owner)

    def nowhere(self, kind: Kind, text: str) -> str:
        """A raw ID of the service's form that no object has: a keyed hash, always the same for the same text."""
        digest = hmac.digest(self.keys.identity.newest.token, lp("nowhere", kind.value, text), "sha256")
        return f"{KINDS[kind].canonical}{digest.hex()[:50]}"

    # --- outbound

    def to_opaque(self, kind: Kind, raw: str) -> OpaqueId:
        """The opaque ID of `raw`, the same on every route, stream, replica and day."""
        return self.form.opaque(kind, raw, self.project)

    def h(self, kind: Kind, raw: str) -> bytes:
        """What addresses the record of `raw`."""
        return self.form.h(kind, raw, self.project)

    def root(
        self,
        kind: Kind,
        raw: str,
        *,
        owner: Owner,
        visibility: Visibility,
        parent: bytes,
        now: int,
        stored: bool = True,
        background: bool = False,
    ) -> Root:
        """The record of a root that was just seen. It can't be made without an owner."""
        return Root(
            RawId(kind, raw),
            owner,
            visibility,
            self.upstream,
            self.project,
            now,
            parent=parent.hex(),
            stored=stored,
            background=background,
        )

    def write_root(self, root: Root, mode: Mode) -> Write:
        """CREATE where a route makes the object, PUT where it is seen for the first time or again."""
        kind = root.raw.kind
        h = self.h(kind, root.raw.text)
        data = seal_root(self.keys.storage, self._name(kind, h), root, self._nonce(NONCE_BYTES))
        return Write(kind, h, data, lifetime_s(kind), mode, self._scope(root))

    def write_child(self, kind: Kind, raw: str, root_kind: Kind, root_h: bytes) -> Write:
        """A child's record. An existing one keeps its root: PUT never changes a record."""
        h = self.h(kind, raw)
        child = Child(RawId(kind, raw), root_kind, root_h)
        data = seal_child(self.keys.storage, self._name(kind, h), child, self._nonce(NONCE_BYTES))
        return Write(kind, h, data, lifetime_s(kind, root_kind), Mode.PUT)

    def write_tombstone(self, opened: Opened) -> Write:
        """The deleted object's record: its life goes on, it opens no more."""
        name = self._name(opened.kind, opened.h)
        nonce = self._nonce(NONCE_BYTES)
        if opened.is_root:
            root = replace(opened.root, state=RecordState.DELETED)
            data = seal_root(self.keys.storage, name, root, nonce)
            return Write(opened.kind, opened.h, data, lifetime_s(root.kind), Mode.TOMBSTONE, self._scope(root))
        child = Child(opened.raw, opened.root.kind, opened.root_h, RecordState.DELETED)
        life = lifetime_s(opened.kind, opened.root.kind)
        return Write(opened.kind, opened.h, seal_child(self.keys.storage, name, child, nonce), life, Mode.TOMBSTONE)

    def write_gone(self, opened: Opened, now: int) -> Write:
        """Lists pass over what the service does not know at present, for as long as it has been here already: what was made
        just now may be known in a moment, and what is gone for good is asked for ever less often."""
        return Write(opened.kind, opened.h, b"", max(_SHORTEST_ABSENCE_S, now - opened.root.created), Mode.GONE)

    def bury(self, write: Write, raw: str) -> Write:
        """A tombstone for a root that was just written and must not stand."""
        root = self.root(write.kind, raw, owner=_NOBODY, visibility=Visibility.PRIVATE, parent=b"", now=0)
        buried = self.write_root(replace(root, state=RecordState.DELETED), Mode.TOMBSTONE)
        return replace(buried, h=write.h, scope=write.scope)

    def same_owner(self, write: Write, met: bytes, owner: Owner) -> bool:
        """Whether the record that a CREATE met is a living one of the same owner."""
        root = open_record(self.keys.storage, self._name(write.kind, write.h), met)
        return isinstance(root, Root) and root.owner == owner and root.state is RecordState.ACTIVE

    def claim(self, write: Write, raw: str) -> Claim:
        """The claim that a root's record is accompanied by."""
        key = own_key(self._deployment.keys, self.project, raw)
        value = seal_tenant(self._deployment.keys, key, self.tenant, self._nonce(NONCE_BYTES))
        return Claim(key, value, write.lifetime_s)

    def holds(self, claim: Claim, winner: bytes) -> bool:
        """Whether the claim that stands now is this tenant's."""
        return winner == claim.value or claimed_by(self._deployment.keys, claim.key, winner) == self.tenant


class Mappers:
    """Mappers by tenant, made again whenever its keys are. Bounded; the oldest leave first."""

    def __init__(self, upstream: str, project: str, most: int = 4096) -> None:
        self._upstream = upstream
        self._project = project
        self._most = most
        self._made: OrderedDict[TenantId, tuple[Deployment, Unlocked, Mapper]] = OrderedDict()

    def of(self, deployment: Deployment, unlocked: Unlocked) -> Mapper:
        tenant = unlocked.keys.tenant
        made = self._made.get(tenant)
        if made is not None and made[0] is deployment and made[1] is unlocked:
            return made[2]
        mapper = Mapper(deployment, unlocked, self._upstream, self._project)
        self._made[tenant] = (deployment, unlocked, mapper)
        self._made.move_to_end(tenant)
        if len(self._made) > self._most:
            self._made.popitem(last=False)
        return mapper


_CHILDREN = frozenset(kind for kind, row in KINDS.items() if row.roots)


def is_child(kind: Kind) -> bool:
    """Whether objects of this kind belong to a root."""
    return kind in _CHILDREN
