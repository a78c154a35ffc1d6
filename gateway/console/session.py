"""Sessions on the server: the browser holds a random ID, the store its keyed hash and, sealed, who it is.

Who reads the store learns how many sessions a tenant has; it can use none. Who writes it can end sessions, and cannot make or
move one. A session that is gone is never brought back: a page that keeps it alive replaces only what is there.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from gateway.console.reviewer import Reviewer, Role
from gateway.ids.encoding import lp
from gateway.ids.keys import NONCE_BYTES, derive
from gateway.names import Owner, TenantId
from gateway.stores.contract import Store

COOKIE: Final = "__Host-coatcheck"
"""Secure, of this host alone, for every path (RFC 6265bis section 4.1.3.2)."""
TOUCH_S: Final = 30
"""A session that was seen so recently is not written again."""
_ID: Final = re.compile(r"([a-z2-7]{16})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Session:
    name: str
    """Its ID's keyed hash, 64 hex digits: names it in the store and on pages, and signs nobody in."""
    reviewer: Reviewer
    started_s: int
    seen_s: int


class Box:
    """Seals what lies in the store, bound to the place where it lies. `key`: the deployment's console key."""

    def __init__(self, key: bytes) -> None:
        self._name_key = derive(key, "console names")
        self._box = AESGCMSIV(derive(key, "console box"))

    def name(self, *parts: str) -> str:
        """64 hex digits that tell nothing about `parts`."""
        return hmac.digest(self._name_key, lp(*parts), "sha256").hex()

    def seal(self, place: str, value: object) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._box.encrypt(nonce, json.dumps(value).encode(), lp("console", place))

    def open(self, place: str, data: bytes | None) -> dict[str, object] | None:
        """What was sealed for `place`, an object; None for anything else."""
        if data is None or len(data) < NONCE_BYTES:
            return None
        try:
            value = json.loads(self._box.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], lp("console", place)))
        except (InvalidTag, ValueError):
            return None
        return value if isinstance(value, dict) else None


class Sessions:
    def __init__(
        self, store: Store, box: Box, idle_s: int, absolute_s: int, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` gives UTC seconds."""
        self._store = store
        self._box = box
        self._idle_s = idle_s
        self._absolute_s = absolute_s
        self._clock = clock

    async def start(self, reviewer: Reviewer) -> tuple[Session, str]:
        """A new session, and the cookie's value, which nobody else is told. Raises what the store raises."""
        now = int(self._clock())
        secret = secrets.token_urlsafe(32)
        session = Session(self._name(reviewer.tenant, secret), reviewer, now, now)
        await self._store.put_session(reviewer.tenant, session.name, self._sealed(session), self._idle_s)
        return session, f"{reviewer.tenant}.{secret}"

    async def find(self, cookie: str) -> Session | None:
        """The live session of a cookie's value, kept alive by being found; None for any other value."""
        session = await self.peek(cookie)
        now = int(self._clock())
        if session is None or now - session.seen_s < TOUCH_S:
            return session
        kept = replace(session, seen_s=now)
        lifetime_s = min(self._idle_s, session.started_s + self._absolute_s - now)
        if not await self._store.keep_session(kept.reviewer.tenant, kept.name, self._sealed(kept), lifetime_s):
            return None
        return kept

    async def peek(self, cookie: str) -> Session | None:
        """As `find`, and does not keep it alive."""
        match = _ID.fullmatch(cookie)
        if match is None:
            return None
        tenant = TenantId(match[1])
        return await self._open(tenant, self._name(tenant, match[2]))

    async def all_of(self, tenant: TenantId) -> tuple[Session, ...]:
        """The tenant's live sessions, the one that was seen last first."""
        opened = [self._opened(tenant, name, data) for name, data in (await self._store.sessions(tenant)).items()]
        return tuple(sorted((one for one in opened if one), key=lambda one: -one.seen_s))

    async def end(self, tenant: TenantId, name: str) -> bool:
        """From its return on the session is no more. False: it was over. `name` may come from anywhere."""
        return re.fullmatch(r"[0-9a-f]{64}", name) is not None and await self._store.drop_session(tenant, name)

    async def _open(self, tenant: TenantId, name: str) -> Session | None:
        data = await self._store.session(tenant, name)
        return None if data is None else self._opened(tenant, name, data)

    def _opened(self, tenant: TenantId, name: str, data: bytes) -> Session | None:
        fields = self._box.open(_place(tenant, name), data)
        if fields is None:
            return None
        session = _read(tenant, name, fields)
        now = self._clock()
        over = now >= session.seen_s + self._idle_s or now >= session.started_s + self._absolute_s
        return None if over else session

    def _sealed(self, session: Session) -> bytes:
        return self._box.seal(_place(session.reviewer.tenant, session.name), asdict(session))

    def _name(self, tenant: TenantId, secret: str) -> str:
        return self._box.name("session", tenant, secret)


def _place(tenant: TenantId, name: str) -> str:
    return f"session {tenant} {name}"


def _read(tenant: TenantId, name: str, fields: dict[str, object]) -> Session:
    """From what `_sealed` wrote: the seal says that it did."""
    reviewer = fields["reviewer"]
    assert isinstance(reviewer, dict)  # noqa: S101 - as above
    owner = Owner(**reviewer["owner"])
    who = Reviewer(tenant, owner, Role(reviewer["role"]), reviewer["tenant_label"])
    return Session(name, who, int(str(fields["started_s"])), int(str(fields["seen_s"])))
