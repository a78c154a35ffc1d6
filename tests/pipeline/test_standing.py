"""Streams whose client may go on no more, and those of everybody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from gateway.admin.keys import revoke_key
from gateway.authn.api_key_form import KeyId
from gateway.errors import Reason
from gateway.pipeline import standing
from gateway.pipeline.standing import Watch
from gateway.stores.contract import StoreUnavailable, TenantStatus
from tests.pipeline.desk import Desk, events_of

GOES_ON = "delay=0.2, delta=300"


def watch_of(at: Desk) -> Watch:
    return at.gateway.app.pipeline.answering.watch


async def first_of(stream: httpx2.Response) -> AsyncIterator[bytes]:
    pieces = stream.aiter_bytes()
    assert b"response.created" in await anext(pieces)
    return pieces


async def rest_of(pieces: AsyncIterator[bytes]) -> dict[str, Any]:
    """The last event."""
    return events_of(b"".join([piece async for piece in pieces]))[-1]


async def revoke(at: Desk) -> None:
    tenant = await at.tenant()
    for tag in await at.admin.store.api_keys(tenant):
        await revoke_key(at.admin, KeyId(tenant, tag))


async def suspend(at: Desk) -> None:
    await at.admin.store.set_tenant_status(await at.tenant(), TenantStatus.SUSPENDED)


async def erase(at: Desk) -> None:
    await at.admin.store.set_tenant_status(await at.tenant(), TenantStatus.ERASED)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (revoke, ("deny", Reason.CREDENTIAL_REVOKED.value, 401)),
        (suspend, ("deny", Reason.TENANT_INACTIVE.value, 401)),
        (erase, ("accepted", "", 200)),  # an erased tenant's log takes no more
    ],
)
async def test_a_stream_of_who_may_go_on_no_more_ends_with_an_event_and_an_outcome(
    at: Desk, change: Callable[[Desk], Awaitable[None]], told: tuple[str, str, int]
) -> None:
    async with at.stream(GOES_ON) as stream, at.stream(GOES_ON, "bob") as other:
        pieces, _ = await first_of(stream), await first_of(other)
        await watch_of(at).look()
        assert len(watch_of(at)._open) == 2
        await change(at)
        await watch_of(at).look()
        last = await rest_of(pieces)
        assert (last["type"], last["code"]) == ("error", "invalid_api_key")
        assert [one.known_principal.owner.subject for one in watch_of(at)._open.values()] == ["bob"]
        assert (await at.outcomes(stream.headers["x-request-id"]))[-1] == told


async def test_a_round_asks_once_for_all_streams_of_a_credential_and_an_event_asks_nothing(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asked = at.gateway.app.pipeline.answering.recorder.store, list[str]()
    state = store.tenant_state

    async def counted(tenant: Any) -> Any:
        asked.append(tenant)
        return await state(tenant)

    monkeypatch.setattr(store, "tenant_state", counted)
    async with AsyncExitStack() as streams:
        open_ = [
            await first_of(await streams.enter_async_context(at.stream(GOES_ON, who)))
            for who in ("alice", "alice", "alice", "bob")
        ]
        asked.clear()
        for pieces in open_:
            assert await anext(pieces)
        assert asked == []
        await watch_of(at).look()
        assert asked == [await at.tenant("alice"), await at.tenant("bob")]


async def test_where_nobody_knows_for_too_long_the_streams_end(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    async with at.stream(GOES_ON) as stream:
        pieces = await first_of(stream)
        monkeypatch.setattr(at.gateway.app.pipeline.answering.recorder.store, "tenant_state", away)
        await watch_of(at).look()
        assert len(watch_of(at)._open) == 1
        monkeypatch.setattr(standing, "UNCHECKED_S", -1)
        await watch_of(at).look()
        assert (await rest_of(pieces))["code"] == "audit_unavailable"
    assert watch_of(at)._open == {}
