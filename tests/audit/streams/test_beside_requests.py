"""A whole gateway that serves requests while it sends its log to receivers of every kind."""

from __future__ import annotations

import time
from pathlib import Path

from gateway.admin.streams import add_stream
from gateway.audit.streams.batch import Format
from tests.audit.streams.conftest import Receiver, receiving
from tests.gateway_fixture import deployment
from tests.redis_fixture import RedisServer, until
from tests.stand_in_fixture import Running, stand_in

__all__ = ["stand_in"]

HANGS_S = 15.0
"""As long as a hanging receiver is waited for, by the settings."""


async def test_a_client_never_waits_for_a_receiver_and_its_requests_reach_the_one_that_listens(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    leave = {"COATCHECK_AUDIT_WEBHOOKS_ON_LOOPBACK": "true"}
    async with (
        deployment(redis_server.url, stand_in, tmp_path, **leave) as gateway,
        receiving(0) as hanging,
        receiving() as listening,
    ):
        client, tenant = gateway.client(await gateway.key("acme", "alice")), await gateway.tenant("acme")
        for receiver in (hanging, Receiver(port=1), listening):
            await add_stream(
                gateway.admin, gateway.gateway.shared.streams, tenant, receiver.url, Format.JSON, from_start=False
            )
        await client.models.list()
        await until(lambda: hanging.posts and listening.posts)
        began = time.perf_counter()
        for _ in range(20):
            await client.responses.create(model="gpt-5", input="hello")
        assert time.perf_counter() - began < HANGS_S / 2
        assert len(hanging.posts) == 1, "it hung all the while"
        state = await gateway.gateway.shared.store.tenant_state(tenant)
        assert state is not None
        await until(lambda: listening.seqs[-1] == state.last_seq)
        assert listening.seqs == list(range(listening.seqs[0], state.last_seq + 1))
        types = [one["event"]["type"] for post in listening.posts for one in post.elements]
        assert types.count("responses.create") == 40, "an intent and an outcome each"
