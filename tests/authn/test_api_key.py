"""Gateway API keys on a real Redis: who calls, what is looked up, and from when on a key is refused."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gateway.authn.api_key import MAX_REFUSED, ApiKeyAuthenticator
from gateway.authn.api_key_form import KeyId, read_key, write_key
from gateway.authn.api_key_record import ApiKeyRecord, seal_api_key
from gateway.authn.authenticate import Authentication
from gateway.authn.jwt import JwtAuthenticator
from gateway.authn.verdict import CredentialRefused, NotMine, Rejected, Why
from gateway.errors import Problem, Reason
from gateway.ids.keys import LocalRoot
from gateway.names import Owner, Principal, PrincipalKind, TenantId
from gateway.stores.address import parse_target
from gateway.stores.contract import ApiKey, Begin, Begun, Entry, TenantStatus
from gateway.stores.keyring import Keyring
from gateway.stores.link import Link
from gateway.stores.node import LinkSettings
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.redis_fixture import RedisServer, own_redis_server

__all__ = ["own_redis_server"]
ACME, RIVAL = TenantId("abcdefghijklmnop"), TenantId("ponmlkjihgfedcba")
ALICE = Owner("https://idp.example", "alice")


@dataclass
class Replica:
    """One gateway process's view: its own connection, keyring and caches."""

    server: RedisServer
    store: RedisStore
    keyring: Keyring
    authenticator: ApiKeyAuthenticator
    wseq: dict[TenantId, int] = field(default_factory=dict)
    name: str = field(default_factory=lambda: os.urandom(4).hex())

    async def new_key(self, tenant: TenantId = ACME, **changes: object) -> tuple[str, KeyId]:
        """A key as an operator makes it: `expires`, `scopes`, `kind`."""
        pepper = (await self.keyring.deployment()).keys.pepper
        text = write_key(pepper, tenant, os.urandom(64))
        key = read_key(pepper, text.encode())
        assert key is not None
        record = replace(ApiKeyRecord(ALICE, PrincipalKind.USER, (), int(time.time()), None), **changes)  # type: ignore[arg-type]
        await self.store.put_api_key(tenant, key.tag, ApiKey(await self.sealed(key, record), record.expires, False))
        return text, key

    async def sealed(self, key: KeyId, record: ApiKeyRecord) -> bytes:
        return seal_api_key((await self.keyring.tenant(key.tenant)).keys.storage, key, record, os.urandom(12))

    async def begin(self, key: KeyId) -> Begun:
        """The request's first call, with one event."""
        wseq = self.wseq[key.tenant] = self.wseq.get(key.tenant, 0) + 1
        return await self.store.begin(key.tenant, Begin(Entry(self.name, wseq, b"{}"), credential=key.tag))

    def look_ups(self) -> int:
        return self.server.commandstats().get("hmget", 0)


async def replica(server: RedisServer, folder: Path) -> Replica:
    store = RedisStore(await Link.open(LinkSettings(parse_target(server.url)), SCRIPTS))
    root = LocalRoot(b"r" * 32)
    keyring = Keyring(store, root, root.audit_root(), folder / "erasures")
    await keyring.create_deployment()
    for tenant in (ACME, RIVAL):
        await keyring.create_tenant(tenant)
        await store.create_tenant(tenant, b"-")
    return Replica(server, store, keyring, ApiKeyAuthenticator(store, keyring))


@pytest.fixture
async def gate(own_redis_server: RedisServer, tmp_path: Path) -> AsyncIterator[Replica]:
    opened = await replica(own_redis_server, tmp_path)
    yield opened
    await opened.store.aclose()


async def why(gate: Replica, key: str, now: float | None = None) -> Why:
    verdict = await gate.authenticator.authenticate(key.encode(), time.time() if now is None else now)
    assert isinstance(verdict, Rejected), verdict
    return verdict.why


async def test_a_key_names_its_principal_and_the_record_that_begin_checks(gate: Replica) -> None:
    text, key = await gate.new_key(scopes=("act_as:https://idp.example",), kind=PrincipalKind.SERVICE)
    verdict = await gate.authenticator.authenticate(text.encode(), time.time())
    assert verdict == Principal(
        ACME, ALICE, PrincipalKind.SERVICE, "api_key",
        scopes=frozenset({"act_as:https://idp.example"}), credential=key.tag,
    )  # fmt: skip
    begun = await gate.begin(key)
    assert begun.credential_live
    assert begun.tenant_active


async def test_other_bearer_tokens_are_left_to_the_next_authenticator(gate: Replica) -> None:
    for token in (b"sk-proj-abc", b"a.b.c", b"", b"CCK_x"):
        assert isinstance(await gate.authenticator.authenticate(token, time.time()), NotMine)


async def test_a_known_key_costs_no_look_up_for_a_minute(gate: Replica) -> None:
    text, _ = await gate.new_key()
    now = time.time()
    await gate.authenticator.authenticate(text.encode(), now)
    before = gate.look_ups()
    for second in range(60):
        assert isinstance(await gate.authenticator.authenticate(text.encode(), now + second), Principal)
    assert gate.look_ups() == before
    await gate.authenticator.authenticate(text.encode(), now + 60)
    assert gate.look_ups() == before + 1


async def test_forged_keys_are_refused_without_a_look_up(gate: Replica) -> None:
    text, _ = await gate.new_key()
    gate.server.reset_commandstats()
    for _ in range(500):
        forged = write_key(os.urandom(32), ACME, os.urandom(64))
        assert await why(gate, forged) is Why.CHECKSUM_WRONG
    assert await why(gate, text[:-1] + ("0" if text[-1] != "0" else "1")) is Why.CHECKSUM_WRONG
    assert await why(gate, text.replace(ACME, RIVAL)) is Why.CHECKSUM_WRONG
    assert gate.look_ups() == 0


async def test_an_unknown_key_costs_one_look_up_per_few_seconds(gate: Replica) -> None:
    pepper = (await gate.keyring.deployment()).keys.pepper
    unknown = write_key(pepper, ACME, os.urandom(64))
    now = time.time()
    for _ in range(50):
        assert await why(gate, unknown, now) is Why.KEY_UNKNOWN
    assert gate.look_ups() == 1
    assert await why(gate, unknown, now + 6) is Why.KEY_UNKNOWN
    assert gate.look_ups() == 2


async def test_what_is_remembered_of_refusals_is_bounded(gate: Replica) -> None:
    pepper = (await gate.keyring.deployment()).keys.pepper
    for _ in range(MAX_REFUSED + 50):
        await gate.authenticator.authenticate(write_key(pepper, ACME, os.urandom(64)).encode(), 1.0)
    assert len(gate.authenticator._refused) == MAX_REFUSED


async def test_a_revoked_key_is_refused_at_once_by_a_replica_that_still_remembers_it(
    gate: Replica, tmp_path: Path
) -> None:
    other = await replica(gate.server, tmp_path)
    text, key = await gate.new_key()
    now = time.time()
    assert isinstance(await other.authenticator.authenticate(text.encode(), now), Principal)
    stored = await gate.store.api_key(ACME, key.tag)
    assert stored is not None
    await gate.store.put_api_key(ACME, key.tag, replace(stored, revoked=True))
    assert isinstance(await other.authenticator.authenticate(text.encode(), now), Principal)
    begun = await other.begin(key)
    assert not begun.credential_live
    verdict = await gate.authenticator.authenticate(text.encode(), now)
    assert isinstance(verdict, Rejected)
    assert verdict.why is Why.REVOKED
    assert verdict.principal is not None
    assert verdict.principal.owner == ALICE
    await other.store.aclose()


async def test_two_keys_work_during_a_rotation_until_the_stated_second_and_then_one(gate: Replica) -> None:
    old, old_id = await gate.new_key()
    new, new_id = await gate.new_key()
    now = time.time()
    assert isinstance(await gate.authenticator.authenticate(old.encode(), now), Principal)
    stored = await gate.store.api_key(ACME, old_id.tag)
    assert stored is not None
    ends = int(now) + 2
    await gate.store.put_api_key(ACME, old_id.tag, replace(stored, expires=ends))
    for text, key in ((old, old_id), (new, new_id)):
        assert isinstance(await gate.authenticator.authenticate(text.encode(), now), Principal)
        assert (await gate.begin(key)).credential_live
    async with asyncio.timeout(5):
        while True:
            # The remembered principal may still come out; the store's clock decides, in the same call as all else.
            begun = await gate.begin(old_id)
            if not begun.credential_live:
                break
            await asyncio.sleep(0.02)
    assert time.time() >= ends
    assert (await gate.begin(new_id)).credential_live


async def test_a_key_expires_to_the_moment_in_the_cache_too(gate: Replica) -> None:
    now = time.time()
    text, _ = await gate.new_key(expires=int(now) + 100)
    assert isinstance(await gate.authenticator.authenticate(text.encode(), now + 99), Principal)
    verdict = await gate.authenticator.authenticate(text.encode(), int(now) + 100)
    assert isinstance(verdict, Rejected)
    assert verdict.why is Why.EXPIRED
    assert verdict.principal is not None


async def test_a_life_that_a_rotation_shortened_is_over_for_a_replica_that_sees_the_key_anew(gate: Replica) -> None:
    now = time.time()
    text, key = await gate.new_key(expires=int(now) + 1000)
    stored = await gate.store.api_key(ACME, key.tag)
    assert stored is not None
    await gate.store.put_api_key(ACME, key.tag, replace(stored, expires=int(now) + 100))
    assert await why(gate, text, now + 101) is Why.EXPIRED


async def test_whoever_writes_the_store_cannot_lengthen_a_keys_life_or_give_it_to_another(gate: Replica) -> None:
    now = time.time()
    text, key = await gate.new_key(expires=int(now) + 5)
    other, other_id = await gate.new_key(RIVAL)
    stored = await gate.store.api_key(ACME, key.tag)
    assert stored is not None
    await gate.store.put_api_key(ACME, key.tag, replace(stored, expires=None))
    assert await why(gate, text, now + 10) is Why.EXPIRED
    await gate.store.put_api_key(RIVAL, other_id.tag, replace(stored, expires=None))
    assert await why(gate, other, now) is Why.RECORD_UNREADABLE


async def test_the_dump_of_the_store_holds_neither_key_nor_subject(gate: Replica) -> None:
    text, key = await gate.new_key()
    stored = await gate.store.api_key(ACME, key.tag)
    dump = repr([gate.server.command("HGETALL", name) for name in gate.server.command("KEYS", "*:key:*")])
    assert stored is not None
    assert key.tag in repr(gate.server.command("KEYS", "*"))
    for secret in (text[21:40], "alice", "idp.example"):
        assert secret not in dump


async def test_an_erased_tenants_keys_open_no_more(gate: Replica) -> None:
    text, _ = await gate.new_key()
    await gate.store.set_tenant_status(ACME, TenantStatus.ERASED)
    await gate.keyring.erase(ACME, int(time.time()))
    assert await why(gate, text) is Why.RECORD_UNREADABLE


async def test_without_the_store_an_unknown_key_is_no_verdict_but_a_503(gate: Replica) -> None:
    text, _ = await gate.new_key()
    known, _ = await gate.new_key()
    now = time.time()
    await gate.authenticator.authenticate(known.encode(), now)
    gate.server.kill()
    with pytest.raises(Problem) as caught:
        async with asyncio.timeout(1):
            await gate.authenticator.authenticate(text.encode(), now)
    assert caught.value.reason is Reason.AUDIT_UNAVAILABLE
    assert isinstance(await gate.authenticator.authenticate(known.encode(), now), Principal)


async def test_the_composition_asks_in_order_and_refuses_what_nobody_claims(gate: Replica) -> None:
    authentication = Authentication((gate.authenticator, JwtAuthenticator([])))
    text, key = await gate.new_key(scopes=("act_as:https://idp.example",), kind=PrincipalKind.SERVICE)
    headers = ((b"authorization", b"Bearer " + text.encode()), (b"x-coatcheck-actor", b"carol"))
    principal = await authentication.authenticate(headers, time.time())
    assert principal.owner == Owner("https://idp.example", "carol")
    assert principal.credential == key.tag
    for token, expected in ((b"sk-proj-x", Why.UNCLAIMED), (b"a.b.c", Why.MALFORMED), (b"cck_x", Why.CHECKSUM_WRONG)):
        with pytest.raises(CredentialRefused) as caught:
            await authentication.authenticate(((b"authorization", b"Bearer " + token),), time.time())
        assert caught.value.why is expected
        assert caught.value.status == 401


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ((), Why.NO_CREDENTIAL),
        (((b"authorization", b"Bearer sk-proj-x"),), Why.UNCLAIMED),
        (((b"authorization", b"Bearer cck_x"),), Why.CHECKSUM_WRONG),
    ],
)
async def test_why_a_credential_was_refused_is_in_the_log_at_debug_and_the_credential_is_not(
    gate: Replica, caplog: pytest.LogCaptureFixture, headers: tuple[tuple[bytes, bytes], ...], why: Why
) -> None:
    authentication = Authentication((gate.authenticator, JwtAuthenticator([])))
    with caplog.at_level("DEBUG", "gateway.authn"), pytest.raises(CredentialRefused):
        await authentication.authenticate(headers, time.time())
    (record,) = [one for one in caplog.records if one.name.startswith("gateway.authn")]
    assert (record.levelname, record.message, vars(record)["fields"]) == (
        "DEBUG", "credential.refused", {"why": why.value},
    )  # fmt: skip
