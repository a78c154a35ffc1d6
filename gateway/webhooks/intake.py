"""A webhook of the service, on its way in: whose it is, what it says in the tenant's own IDs, and that it waits for delivery.

Nothing is kept of a webhook before its tenant is known. One that comes ahead of its object's record is held for a moment, and
then handed back: the service sends it again, for days. So no raw ID is stored, and the only queue before ours is the service's.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakValueDictionary

import orjson

from gateway.audit.event import Change, EventType, Outcome, Result, Target
from gateway.audit.log import AuditLog
from gateway.clock import now_ms
from gateway.errors import Problem, Reason
from gateway.mapping import Mappers, Opened
from gateway.names import Kind, TenantId
from gateway.pipeline.minting import Minting
from gateway.rewrite import egress
from gateway.rewrite.outbound import IdTable, translate_json
from gateway.standard_webhooks import message_id
from gateway.stores.claims import claimed_by, own_key
from gateway.stores.contract import Found, Lookup, StoreError
from gateway.stores.keyring import Keyring, KeysMissing, Unlocked
from gateway.stores.webhooks import Put, WebhookStore
from gateway.surfaces.webhooks import EVENT, subject
from gateway.webhooks.message import Content, event, seal

LOG = logging.getLogger(__name__)

Verify = Callable[[bytes, Mapping[str, str], str], bool]
"""Whether body and headers are signed with the secret, just now."""

MOST_AT_ONCE: Final = 1024
"""Webhooks in hand at once, those included that wait for their object's record; more are handed back."""
MOST_WAITING: Final = 10_000
"""Messages that wait for one receiver."""
_FIRST_LOOK_S: Final = 0.05
_LONGEST_LOOK_S: Final = 0.5
_TYPE: Final = re.compile(r"[a-z][a-z_.]{0,63}")


@dataclass(frozen=True, slots=True)
class Source:
    """An upstream project's endpoint, as the service signs for it."""

    upstream: str
    project: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    hold_s: float = 3.0
    """How long one is held: the service waits a few seconds for an answer."""
    wait_s: float = 300.0
    """How old an event may be that is handed back because nobody has its object."""


@dataclass(frozen=True, slots=True)
class _Found:
    """Whose an object is."""

    tenant: TenantId
    unlocked: Unlocked
    opened: Opened
    minting: Minting


class Intake:
    def __init__(
        self,
        store: WebhookStore,
        keyring: Keyring,
        mappers: Mappers,
        log: AuditLog,
        verify: Verify,
        settings: IntakeSettings | None = None,
    ) -> None:
        self.tally: Counter[str] = Counter()
        """What came, by what became of it, since the process began."""
        self._store = store
        self._keyring = keyring
        self._mappers = mappers
        self._log = log
        self._verify = verify
        self._settings = settings or IntakeSettings()
        self._in_hand = 0
        self._order: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        """By project and raw ID: webhooks about one object go through one after the other, as they came."""

    async def take(self, source: Source, headers: Mapping[str, str], body: bytes, network: str) -> None:
        """Returns once it is safe with us, or nobody's. Raises Problem where the service is to send it again (503), or was not
        who sent it (400)."""
        if not self._verify(body, headers, source.secret):
            self.tally["unsigned"] += 1
            self._log.count_stranger(Reason.WEBHOOK_UNSIGNED, network)
            raise Problem(Reason.WEBHOOK_UNSIGNED)
        if self._in_hand >= MOST_AT_ONCE:
            raise _later()
        self._in_hand += 1
        said = _parsed(body)
        about = subject(said)
        try:
            if about is not None:
                async with self._order.setdefault((source.project, about[1]), asyncio.Lock()):
                    found = await self._await_owner(source, *about, _age_s(said))
                    if found is not None:
                        await self._hand_on(found, headers["webhook-id"], said["type"], body)
                        self.tally["taken"] += 1
                        return
        except StoreError as error:
            LOG.warning("webhooks.not_taken", extra={"fields": {"reason": str(error)}})
            raise _later() from None
        finally:
            self._in_hand -= 1
        self.tally["unowned"] += 1
        self._log.count_stranger(f"webhook_unowned {_type_of(said)}", network)

    async def _await_owner(self, source: Source, kind: Kind, raw: str, age_s: float) -> _Found | None:
        """None where it is nobody's, which only an old event tells for certain. Raises Problem where it is too early to say."""
        found = await self._find(source, kind, raw)
        if found is not None or age_s > self._settings.wait_s:
            return found
        found = await self._look_again(source, kind, raw)
        if found is None:
            raise _later()
        return found

    async def _look_again(self, source: Source, kind: Kind, raw: str) -> _Found | None:
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + self._settings.hold_s, _FIRST_LOOK_S
        while loop.time() < until:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_S)
            found = await self._find(source, kind, raw)
            if found is not None:
                return found
        return None

    async def _find(self, source: Source, kind: Kind, raw: str) -> _Found | None:
        """Whose claim holds the object, and their record of it: a claim may be there a moment before its record."""
        deployment = await self._keyring.deployment()
        own = own_key(deployment.keys, source.project, raw)
        sealed = await self._store.claimed(own)
        tenant = claimed_by(deployment.keys, own, sealed) if sealed is not None else None
        if tenant is None:
            return None
        try:
            unlocked = await self._keyring.tenant(tenant)
        except KeysMissing:
            return None
        mapper = self._mappers.of(deployment, unlocked).at(source.upstream, source.project)
        h = mapper.h(kind, raw)
        opened = mapper.to_raw(Lookup(kind, h), Found(await self._store.record(tenant, kind, h), None))
        if opened is None:
            return None
        return _Found(tenant, unlocked, opened, Minting(mapper, opened.root.owner, opened.root.visibility, {}))

    async def _hand_on(self, found: _Found, id_: str, type_: str, body: bytes) -> None:
        """Puts it down for each of the tenant's receivers, once that is on record. Raises Problem and StoreError."""
        tenant, keys, raw = found.tenant, found.unlocked.keys.audit, found.opened.raw
        names = await self._store.names(tenant)
        if not names:
            return
        target = Target(raw.kind.value, found.minting.opaque(raw.kind, raw.text))
        content = Content(_translated(body, found.minting), type_, target)
        accepted = Outcome(Result.ACCEPTED)
        begun = await self._log.record(
            tenant, event(tenant, EventType.WEBHOOK_RECEIVE, accepted, content, {"webhooks": len(names)})
        )
        if not begun.seq:
            return
        # A suspended tenant's messages wait until it is active again.
        for name in names:
            ours = message_id(name, id_.encode())
            message = seal(keys, tenant, name, ours, found.opened.h.hex(), now_ms(), content)
            if await self._store.put(tenant, name, message, MOST_WAITING) is Put.FULL:
                changes: dict[str, Change] = {"webhook": name, "message": ours}
                full = Outcome(Result.ERROR, "webhook_full")
                await self._log.record(tenant, event(tenant, EventType.WEBHOOK_RECEIVE, full, content, changes))


def _parsed(body: bytes) -> Any:
    """None for what is no JSON: the service signed it, so that it must not come again for ever."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _translated(body: bytes, minting: Minting) -> bytes:
    """The body in the owner's IDs, after a last look. Raises Problem."""
    table = IdTable(minting)
    content = translate_json(body, EVENT, table)
    finding = egress.scan(content, issued=table.issued, touched=table.raws, verify=minting.verify)
    if finding is not None:
        LOG.critical("egress.blocked", extra={"fields": {"found": finding.what.value, "prefix": finding.prefix}})
        raise Problem(Reason.EGRESS_BLOCKED)
    return content


def _type_of(said: Any) -> str:
    type_ = said.get("type") if isinstance(said, dict) else None
    return type_ if isinstance(type_, str) and _TYPE.fullmatch(type_) else "unreadable"


def _age_s(said: Any) -> float:
    """Of an event, by the service's clock; without a time it is old."""
    created = said.get("created_at")
    return time.time() - created if type(created) in (int, float) else float("inf")


def _later() -> Problem:
    return Problem(Reason.WEBHOOK_TOO_EARLY, retry_after_s=5)
