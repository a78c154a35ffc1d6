from __future__ import annotations

import asyncio

import pytest

from gateway.audit.receivers import ReceiverBusy, ReceiverRefused, Trials
from gateway.audit.streams.batch import Format
from gateway.audit.streams.registry import MOST, Streams
from gateway.names import TenantId
from gateway.outgoing import Outgoing
from gateway.stores.contract import TenantStatus
from tests.audit.streams.conftest import TENANT, Stage, receiving


async def test_a_stream_is_listed_without_its_secret_or_the_query_of_its_address(stage: Stage) -> None:
    async with receiving() as receiver:
        stream, secret = await stage.add(receiver, format_=Format.OCSF)
        (row,) = await stage.streams.list(TENANT, await stage.keys())
        assert row.sink is not None
        assert (row.id, row.sink.format) == (stream, Format.OCSF)
        assert row.sink.shown == f"http://127.0.0.1:{receiver.port}/hook?…"
        assert secret not in repr(row)
        assert "hush" not in repr(row)


@pytest.mark.parametrize(
    "url", ["http://example.com/", "https://10.0.0.1/", "https://user@example.com/", "ftp://x/", ""]
)
async def test_an_address_that_must_not_be_called_is_refused(stage: Stage, url: str) -> None:
    streams = Streams(stage.store.streams, Outgoing())
    with pytest.raises(ReceiverRefused):
        await streams.add(TENANT, await stage.keys(), url, Format.JSON)
    assert not await stage.streams.list(TENANT, await stage.keys())


async def test_a_tenant_has_no_more_than_so_many_streams_however_they_come(stage: Stage) -> None:
    async with receiving() as receiver:
        made = await asyncio.gather(*(stage.add(receiver) for _ in range(MOST + 3)), return_exceptions=True)
        assert sum(isinstance(one, ReceiverRefused) for one in made) == 3
        assert len(await stage.streams.list(TENANT, await stage.keys())) == MOST


async def test_an_unknown_or_erased_tenant_gets_no_stream(stage: Stage) -> None:
    keys = await stage.keys()
    await stage.store.set_tenant_status(TENANT, TenantStatus.ERASED)
    for tenant in (TENANT, TenantId("nobody0000000000")):
        with pytest.raises(ReceiverRefused):
            await stage.streams.add(tenant, keys, "https://example.com/", Format.JSON)


async def test_removing_or_trying_what_is_not_there_is_refused(stage: Stage) -> None:
    with pytest.raises(ReceiverRefused):
        await stage.streams.remove(TENANT, "st_nothing")
    with pytest.raises(ReceiverRefused):
        await stage.streams.test(TENANT, await stage.keys(), "st_nothing")


async def test_a_try_tells_what_the_receiver_answered_and_is_signed(stage: Stage) -> None:
    async with receiving(503) as receiver:
        stream, secret = await stage.add(receiver)
        assert await stage.streams.test(TENANT, await stage.keys(), stream) == 503
        receiver.posts[0].verify(secret)
        receiver.status = -1
        with pytest.raises(ReceiverBusy):
            await stage.streams.test(TENANT, await stage.keys(), stream)
        assert len(receiver.posts) == 1
        stage.streams.trials._begun_at.clear()
        with pytest.raises(ReceiverRefused) as refused:
            await stage.streams.test(TENANT, await stage.keys(), stream)
        assert not isinstance(refused.value, ReceiverBusy)


def test_trials_are_one_at_a_time_of_a_receiver_and_one_a_second_of_a_tenant() -> None:
    now, other = 0.0, TenantId("other00000000000")
    trials = Trials(lambda: now)

    def is_busy(tenant: TenantId, name: str) -> bool:
        try:
            with trials.one(tenant, name):
                return False
        except ReceiverBusy:
            return True

    with trials.one(TENANT, "st_1"):
        assert is_busy(TENANT, "st_2")
        assert not is_busy(other, "st_3")
        now = 1.0
        assert is_busy(TENANT, "st_1")
        assert not is_busy(TENANT, "st_2")
    now = 1.9
    assert is_busy(TENANT, "st_1")
    now = 2.0
    assert not is_busy(TENANT, "st_1")
    assert list(trials._begun_at) == [TENANT]
