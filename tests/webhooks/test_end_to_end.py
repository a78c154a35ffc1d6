"""From the service's endpoint to the tenants' receivers: real gateway, real Redis, the stand-in, the official SDK."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from openai import OpenAI

from gateway.admin.ids import Upstream
from gateway.transport.limits import Limits
from gateway.transport.server import running as serving
from tests.redis_fixture import RedisServer, until
from tests.sdk.test_batches import line, run, upload
from tests.sdk.test_fine_tuning import tuned
from tests.stand_in_fixture import Running
from tests.transport.raw import exchange, request
from tests.webhooks.conftest import House, finish, house


async def test_each_tenant_is_told_of_its_own_objects_by_the_ids_that_it_knows(home: House) -> None:
    clients = {name: home.gateway.client(await home.gateway.key(name, "someone")) for name in ("acme", "bravo")}
    hooks = {name: await home.hook(name) for name in clients}
    made = {}
    for name, client in clients.items():
        made[name] = (await client.responses.create(model="gpt-5", input=f"for {name}", background=True)).id
    for name, client in clients.items():
        await finish(client, made[name])
    await until(lambda: all(hook.receiver.posts for hook in hooks.values()))
    for name, hook in hooks.items():
        assert hook.said == [("response.completed", made[name])]
        assert (await clients[name].responses.retrieve(hook.said[0][1])).status == "completed"
    sent = b"".join(post.body + repr(post.headers).encode() for hook in hooks.values() for post in hook.receiver.posts)
    assert not [raw for raw in home.stand_in.provider.issued if raw.encode() in sent]


async def test_whatever_ends_on_its_own_is_told_of_and_the_official_sdk_reads_it(home: House) -> None:
    client, hook = home.gateway.client(await home.gateway.key("acme", "alice")), await home.hook("acme")
    batch = await run(client, await upload(client, line("one", input="hello")))
    job = await tuned(client)
    cancelled = await client.responses.create(model="gpt-5", input="hello", background=True)
    await client.responses.cancel(cancelled.id)
    await until(lambda: len(hook.receiver.posts) == 3)
    wanted = [
        ("batch.completed", batch.id),
        ("fine_tuning.job.succeeded", job.id),
        ("response.cancelled", cancelled.id),
    ]
    assert sorted(hook.said) == sorted(wanted)
    webhooks = OpenAI(api_key="none").webhooks
    for post in hook.receiver.posts:
        told = webhooks.unwrap(post.body, post.headers, secret=hook.secret)
        assert (told.type, told.data.id) in wanted  # type: ignore[union-attr]
        assert told.id.startswith("evt_")
        assert told.id not in home.stand_in.provider.issued
    async with serving(home.gateway.gateway.metrics, Limits()) as server:
        measured = (await exchange(server.port, request("/metrics"))).body.decode()
    assert 'coatcheck_webhooks{outcome="taken"} 3.0' in measured
    assert 'coatcheck_webhooks{outcome="delivered"} 3.0' in measured
    events = [one for one in await home.log(hook.tenant) if one["type"].startswith("webhook.") and one["outcome"]]
    assert [one["type"] for one in events].count("webhook.receive") == 3
    assert {one["changes"]["event"] for one in events if one["type"] == "webhook.deliver"} == {row[0] for row in wanted}
    assert {one["targets"][0]["id"] for one in events if one["targets"]} == {row[1] for row in wanted}


async def test_what_ends_before_its_making_was_answered_is_told_of_all_the_same(home: House) -> None:
    client, hook = home.gateway.client(await home.gateway.key("acme", "alice")), await home.hook("acme")
    home.stand_in.provider.next_answer("slow=1")
    async with asyncio.TaskGroup() as group:
        making = group.create_task(client.responses.create(model="gpt-5", input="hello", background=True))
        await until(lambda: home.stand_in.provider.responses)
        (raw,) = home.stand_in.provider.responses
        telling = group.create_task(home.post(home.event("response.completed", raw)))
        await asyncio.sleep(0.3)
        assert not making.done()
        assert not telling.done()
    assert telling.result() == 200
    await until(lambda: hook.receiver.posts)
    assert hook.said == [("response.completed", making.result().id)]


async def test_each_upstream_project_has_an_endpoint_and_a_secret_and_objects_of_its_own(
    redis_server: RedisServer, stand_in: Running, tmp_path: Path
) -> None:
    second_secret = "whsec_c2Vjb25kLXNlY29uZC1zZWNvbmQtc2Vjb25kLXNlY29uZA=="
    for name, text in (("second.key", "sk-second"), ("second.whsec", second_secret)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    table = {
        "name": "second",
        "base_url": stand_in.api_url,
        "api_key_file": str(tmp_path / "second.key"),
        "webhook_secret_file": str(tmp_path / "second.whsec"),
    }
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in table.items())
    (tmp_path / "settings.toml").write_text(f"[[openai.upstream]]\n{lines}\n")
    async with house(redis_server, stand_in, tmp_path, COATCHECK_CONFIG=str(tmp_path / "settings.toml")) as home:
        acme, bravo = await home.hook("acme"), await home.hook("bravo")
        raw = stand_in.provider.ids.new("resp_", place="made in both projects")
        mine = await home.adopt("acme", raw)
        theirs = await home.adopt("bravo", raw, Upstream("second", "second"))
        event = home.event("response.completed", raw)
        assert await home.post(event, path="/webhooks/second") == 400
        assert await home.post(event, secret=second_secret) == 400
        assert await home.post(event, secret=second_secret, path="/webhooks/second") == 200
        await until(lambda: bravo.receiver.posts)
        assert (bravo.said, acme.said) == ([("response.completed", theirs)], [])
        assert await home.post(event) == 200
        await until(lambda: acme.receiver.posts)
        assert (acme.said, len(bravo.said)) == ([("response.completed", mine)], 1)
        assert mine != theirs
