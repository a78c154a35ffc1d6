"""Gateway API keys: create, list, rotate with a grace time, revoke."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.admin.administration import AdminEvent, AdminInvalid, Administration, AdminMissing, AdminRefused
from gateway.audit.event import Change
from gateway.authn.api_key_form import KeyId, read_key, write_key
from gateway.authn.api_key_record import ApiKeyRecord, open_api_key, seal_api_key
from gateway.authn.claims import is_name
from gateway.authn.scopes import check_scopes
from gateway.ids.keys import NONCE_BYTES
from gateway.names import Owner, PrincipalKind, TenantId
from gateway.pipeline.evidence import actor
from gateway.stores.contract import ApiKey

LOCAL_ISSUER: Final = "local"
_UNITS_S: Final = {"m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})([mhd])")


@dataclass(frozen=True, slots=True)
class NewKey:
    id: KeyId
    key: str
    """Shown once: it is stored nowhere."""


@dataclass(frozen=True, slots=True)
class ListedKey:
    id: KeyId
    record: ApiKeyRecord | None
    """None: the record does not open, and so neither does the key."""
    expires: int | None
    """UTC seconds, what a rotation shortened included; None: never."""
    revoked: bool

    @property
    def state(self) -> str:
        expired = self.expires is not None and self.expires <= time.time()
        return "revoked" if self.revoked else "expired" if expired else "live" if self.record else "unreadable"


async def create_key(
    admin: Administration,
    tenant: TenantId,
    owner: Owner,
    *,
    service: bool = False,
    scopes: Sequence[str] = (),
    lifetime_s: int | None = None,
) -> NewKey:
    """A key whose caller is `owner` (a service with `service`), for `lifetime_s` seconds or until revoked.

    Raises AdminRefused for a subject, issuer or scope that can't be one; scopes are for services.
    """
    if not (is_name(owner.issuer) and is_name(owner.subject)) or "#" in owner.issuer:
        raise AdminInvalid("subject and issuer are 1 to 256 printable characters each, the issuer without #")
    try:
        check_scopes(scopes)
    except ValueError as error:
        raise AdminInvalid(str(error)) from error
    if scopes and not service:
        raise AdminInvalid("scopes are for the keys of services, not of persons")
    if lifetime_s is not None and lifetime_s <= 0:
        raise AdminInvalid("a key lives for at least a minute")
    now = int(time.time())
    kind = PrincipalKind.SERVICE if service else PrincipalKind.USER
    record = ApiKeyRecord(owner, kind, tuple(scopes), now, None if lifetime_s is None else now + lifetime_s)
    made, stored = await _new(admin, tenant, record)
    async with admin.recorded(tenant, AdminEvent.KEY_CREATE, changes=await _facts(admin, made.id, record)):
        await admin.store.put_api_key(tenant, made.id.tag, stored)
    return made


async def list_keys(admin: Administration, tenant: TenantId) -> tuple[ListedKey, ...]:
    """The tenant's keys, oldest first, revoked and expired ones too."""
    keys = (await admin.unlock(tenant)).keys.storage
    listed = []
    for tag, stored in (await admin.store.api_keys(tenant)).items():
        key = KeyId(tenant, tag)
        record = open_api_key(keys, key, stored.data)
        listed.append(
            ListedKey(key, record, _earlier(stored.expires, record.expires if record else None), stored.revoked)
        )
    return tuple(sorted(listed, key=lambda one: (one.record.created if one.record else 0, one.id.tag)))


async def rotate_key(admin: Administration, key: KeyId, *, grace_s: int) -> NewKey:
    """A second key for the same principal, with the same remaining life. The first one works for `grace_s` seconds more,
    never longer than it would have. Raises AdminRefused for a key that is not live."""
    stored, record = await _live(admin, key)
    now = int(time.time())
    if grace_s < 0:
        raise AdminInvalid("the grace time cannot be negative")
    record = replace(record, created=now)
    made, new = await _new(admin, key.tenant, record)
    ends = _earlier(stored.expires, now + grace_s)
    changes = {**await _facts(admin, made.id, record), "old_key": key.tag, "old_key_expires": ends}
    async with admin.recorded(key.tenant, AdminEvent.KEY_ROTATE, changes=changes):
        await admin.store.put_api_key(key.tenant, made.id.tag, new)
        await admin.store.put_api_key(key.tenant, key.tag, replace(stored, expires=ends))
    return made


async def revoke_key(admin: Administration, key: KeyId) -> None:
    """From its return on the key is refused, on every replica. Revoking twice is fine. Raises AdminMissing if unknown."""
    stored = await admin.store.api_key(key.tenant, key.tag)
    if stored is None:
        raise AdminMissing("no such key")
    async with admin.recorded(key.tenant, AdminEvent.KEY_REVOKE, changes={"key": key.tag}):
        await admin.store.put_api_key(key.tenant, key.tag, replace(stored, revoked=True))


def find_key(tenant: TenantId, text: str) -> KeyId:
    """The tenant's key of that ID. Raises AdminMissing for what is no ID, or another tenant's."""
    try:
        key = KeyId.parse(text)
    except ValueError:
        raise AdminMissing("no such key") from None
    if key.tenant != tenant:
        raise AdminMissing("no such key")
    return key


def parse_lifetime(text: str) -> int:
    """Seconds of `90d`, `12h` or `30m`. Raises AdminRefused."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise AdminInvalid(f"{text!r} is no length of time: write 90d, 12h or 30m")
    return int(match[1]) * _UNITS_S[match[2]]


async def _new(admin: Administration, tenant: TenantId, record: ApiKeyRecord) -> tuple[NewKey, ApiKey]:
    """A key, and what is stored of it."""
    pepper = (await admin.keyring.deployment()).keys.pepper
    storage = (await admin.unlock(tenant)).keys.storage
    text = write_key(pepper, tenant, os.urandom(64))
    key = read_key(pepper, text.encode())
    if key is None:
        raise AdminInvalid(f"{tenant!r} is no tenant ID")
    data = seal_api_key(storage, key, record, os.urandom(NONCE_BYTES))
    return NewKey(key, text), ApiKey(data, record.expires, revoked=False)


async def _facts(admin: Administration, key: KeyId, record: ApiKeyRecord) -> dict[str, Change]:
    """What the log says of a key: whose it is, as the pseudonym that the owner's own events show."""
    audit = (await admin.unlock(key.tenant)).keys.audit
    return {
        "expires": record.expires,
        "key": key.tag,
        "kind": record.kind.value,
        "owner": actor(audit, record.principal(key)).pseudonym,
        "scopes": " ".join(record.scopes),
    }


async def _live(admin: Administration, key: KeyId) -> tuple[ApiKey, ApiKeyRecord]:
    stored = await admin.store.api_key(key.tenant, key.tag)
    record = open_api_key((await admin.unlock(key.tenant)).keys.storage, key, stored.data) if stored else None
    if stored is None or record is None:
        raise AdminMissing("no such key")
    ends = _earlier(stored.expires, record.expires)
    if stored.revoked or (ends is not None and ends <= time.time()):
        raise AdminRefused("the key is revoked or expired: create a new one")
    return stored, record


def _earlier(one: int | None, other: int | None) -> int | None:
    """The earlier of two dates, None being never."""
    return min((date for date in (one, other) if date is not None), default=None)
