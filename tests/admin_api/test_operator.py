"""The admin API as an operator's program uses it, on a real gateway, and what it refuses."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import time
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, AuthenticationError, OpenAI

from gateway.admin_api.table import ROWS
from gateway.names import TenantId
from tests.admin_api.conftest import TOKEN, House

RAW = "resp_68b1c2d3e4f5a6b700681234567890abcdef1234567890ab"
HOOK = "hook_0000000000000000"


async def acme(house: House) -> TenantId:
    return TenantId((await house.call("POST", "/tenants", {"name": "acme"}, status=201))["id"])


async def test_a_tenant_is_made_listed_suspended_resumed_and_given_new_keys(house: House) -> None:
    tenant = await acme(house)
    assert await house.call("GET", "/tenants") == {"tenants": [{"id": tenant, "state": "active", "name": "acme"}]}
    assert await house.call("POST", "/tenants/acme/suspend") == {"id": tenant, "state": "suspended"}
    assert (await house.call("GET", "/tenants"))["tenants"][0]["state"] == "suspended"
    assert await house.call("POST", f"/tenants/{tenant}/resume", {}) == {"id": tenant, "state": "active"}
    assert await house.call("POST", "/tenants/acme/rotate") == {"versions": {"storage": 2, "audit": 2}}
    refused = await house.call("POST", "/tenants/acme/rotate", {"identity": True}, status=400)
    assert "accept_loss" in refused["error"]["message"]
    emergency = {"identity": True, "accept_loss": True}
    assert await house.call("POST", "/tenants/acme/rotate", emergency) == {"versions": {"identity": 2}}


async def test_every_call_is_on_record_as_the_commands_is_with_its_route_and_request(house: House) -> None:
    tenant = await acme(house)
    answer = await house.operator.post("/tenants/acme/suspend")
    told = (await house.events(tenant, "tenant.suspend"))[-1]
    assert (told["actor"]["kind"], told["actor"]["auth"]) == ("operator", "admin_api")
    assert (told["request"]["method"], told["request"]["route"]) == ("POST", "/tenants/{tenant}/suspend")
    assert told["request"]["id"] == answer.headers["x-request-id"]
    assert [one["type"] for one in await house.events(tenant, "tenant.")] == ["tenant.create", "tenant.suspend"]


async def test_a_key_is_made_used_rotated_listed_and_revoked(house: House) -> None:
    tenant = await acme(house)
    made = await house.call("POST", "/tenants/acme/keys", {"subject": "alice", "expires": "90d"}, status=201)
    await works(house, made["key"])
    again = await house.call("POST", f"/tenants/acme/keys/{made['id']}/rotate", {"grace": "30m"}, status=201)
    await works(house, again["key"])
    assert await house.call("POST", f"/tenants/acme/keys/{again['id']}/revoke") == {"state": "revoked"}
    with pytest.raises(AuthenticationError):
        await works(house, again["key"])
    listed = {row["id"]: row for row in (await house.call("GET", "/tenants/acme/keys"))["keys"]}
    assert {id_: row["state"] for id_, row in listed.items()} == {made["id"]: "live", again["id"]: "revoked"}
    assert listed[made["id"]]["owner"] == "local#alice"
    assert [one["type"] for one in await house.events(tenant, "key.")] == ["key.create", "key.rotate", "key.revoke"]


async def works(house: House, key: str) -> None:
    client: AsyncOpenAI = house.gateway.client(key)
    await client.responses.create(model="gpt-5", input="Hello")


async def test_a_key_is_changed_by_its_own_tenants_path_alone(house: House) -> None:
    await acme(house)
    await house.call("POST", "/tenants", {"name": "bravo"}, status=201)
    made = await house.call("POST", "/tenants/acme/keys", {"subject": "alice"}, status=201)
    foreign = await house.call("POST", f"/tenants/bravo/keys/{made['id']}/revoke", status=404)
    missing = await house.call("POST", "/tenants/bravo/keys/nothing/revoke", status=404)
    assert foreign == missing
    await works(house, made["key"])


async def test_an_id_is_adopted_and_shown_and_both_are_on_record(house: House) -> None:
    tenant = await acme(house)
    opaque = (await house.call("POST", "/tenants/acme/ids", {"raw": RAW, "owner": "local#alice"}))["id"]
    assert re.fullmatch(r"resp_[0-9A-Za-z]{34}", opaque)
    shown = await house.call("POST", f"/tenants/acme/ids/{opaque}/show")
    assert shown == {"raw": RAW, "kind": "response", "owner": "local#alice", "deleted": False}
    assert {one["type"] for one in await house.events(tenant, "id.")} == {"id.adopt", "id.show"}
    assert RAW not in str(await house.events(tenant))
    await house.call("POST", "/tenants", {"name": "bravo"}, status=201)
    await house.call("POST", f"/tenants/bravo/ids/{opaque}/show", status=404)
    taken = await house.call("POST", "/tenants/bravo/ids", {"raw": RAW, "owner": "local#bob"}, status=409)
    assert taken["error"]["code"] == "refused"


async def test_a_webhook_is_added_tried_given_another_secret_and_removed(house: House) -> None:
    tenant = await acme(house)
    made = await house.call("POST", "/tenants/acme/webhooks", {"url": house.receiver.url}, status=201)
    at = f"/tenants/acme/webhooks/{made['id']}"
    assert await house.call("POST", f"{at}/test") == {"status": 200, "taken": True}
    post = house.receiver.posts[0]
    OpenAI(api_key="none").webhooks.verify_signature(post.body, post.headers, secret=made["secret"])
    assert (await house.call("POST", f"{at}/rotate"))["secret"] != made["secret"]
    await house.call("POST", "/tenants/acme/rotate")
    (row,) = (await house.call("GET", "/tenants/acme/webhooks"))["webhooks"]
    assert (row["id"], row["waiting"], row["dead"], row["stopped"]) == (made["id"], 0, 0, False)
    assert await house.call("GET", f"{at}/dead") == {"dead": []}
    assert await house.call("POST", f"{at}/replay") == {"replayed": 0}
    house.receiver.status = 500
    house.a_second_later()
    assert await house.call("POST", f"{at}/test") == {"status": 500, "taken": False}
    assert await house.call("DELETE", at) == {"removed": True}
    await house.call("DELETE", at, status=404)
    done = [one["type"].removeprefix("webhook.") for one in await house.events(tenant, "webhook.")]
    assert done == ["add", "test", "rotate", "list", "dead", "replay", "test", "remove", "remove"]


async def test_a_store_that_is_out_of_reach_is_told_as_such(impatient: House) -> None:
    house = impatient
    house.server.pause()
    try:
        answer = await house.operator.get("/tenants", timeout=20)
    finally:
        house.server.resume()
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")


async def test_a_stream_is_added_tried_listed_and_removed(house: House) -> None:
    await acme(house)
    body = {"url": house.receiver.url, "format": "ocsf", "whole": True}
    made = await house.call("POST", "/tenants/acme/streams", body, status=201)
    (row,) = (await house.call("GET", "/tenants/acme/streams"))["streams"]
    assert (row["id"], row["format"]) == (made["id"], "ocsf")
    assert (await house.call("POST", f"/tenants/acme/streams/{made['id']}/test"))["taken"]
    assert await house.call("DELETE", f"/tenants/acme/streams/{made['id']}") == {"removed": True}


async def test_a_log_is_told_kept_held_and_proven(house: House) -> None:
    tenant = await acme(house)
    assert await house.call("POST", "/tenants/acme/log/retain", {"days": 30}) == {"days": 30}
    assert await house.call("POST", "/tenants/acme/log/hold", {"on": True}) == {"hold": True}
    status = await house.call("GET", "/tenants/acme/log")
    assert (status["days"], status["hold"], status["anchor"], status["halted"]) == (30, True, False, None)
    assert await house.call("POST", "/tenants/acme/log/retain", {"days": None}) == {"days": None}
    assert await house.call("POST", "/tenants/acme/log/anchor", {"url": house.receiver.url}) == {"anchor": True}
    assert (await house.call("GET", "/tenants/acme/log"))["anchor"]
    assert await house.call("POST", "/tenants/acme/log/anchor", {"url": None}) == {"anchor": False}
    tail = (await house.call("POST", "/tenants/acme/log/tail", {"newest": 3, "open": True}))["events"]
    assert tail[-1]["event"]["type"] == "audit.read"
    (key,) = (await house.call("GET", "/tenants/acme/log/keys"))["keys"]
    proof = (await house.call("POST", "/tenants/acme/log/proof", {"event": "1"}))["proof"]
    assert key.partition("+")[0] in proof
    not_halted = await house.call("POST", "/tenants/acme/log/reseal", {"accept_loss": True}, status=409)
    assert not_halted["error"]["code"] == "refused"
    assert "audit.hold" in [one["type"] for one in await house.events(tenant)]


async def test_a_halted_log_goes_on_after_a_reseal(house: House) -> None:
    tenant = await acme(house)
    house.server.command("HSET", f"{{t:{tenant}}}:meta", "halted", "lost")
    assert (await house.call("GET", "/tenants/acme/log"))["halted"] == "lost"
    unavailable = await house.call("POST", "/tenants/acme/suspend", status=503)
    assert "nothing was done" in unavailable["error"]["message"]
    assert (await house.call("POST", "/tenants/acme/log/reseal", {"accept_loss": True}))["epoch"] == 1
    assert await house.call("POST", "/tenants/acme/suspend") == {"id": tenant, "state": "suspended"}


async def test_a_tenant_is_erased_with_a_signed_report_and_a_hold_stops_it(house: House) -> None:
    await acme(house)
    key = (await house.call("POST", "/tenants/acme/keys", {"subject": "alice"}, status=201))["key"]
    await works(house, key)
    await house.call("POST", "/tenants/acme/log/hold", {"on": True})
    await house.call("POST", "/tenants/acme/erase", status=409)
    await works(house, key)
    await house.call("POST", "/tenants/acme/log/hold", {"on": False})
    done = await house.call("POST", "/tenants/acme/erase")
    assert (done["deleted"], done["left"]) == (2, [])
    assert done["report"].startswith("coatcheck erasure report\n")
    assert (await house.call("GET", "/tenants"))["tenants"][0]["state"] == "erased"
    await house.call("POST", "/tenants/acme/resume", status=404)


async def test_what_cannot_be_recorded_is_not_done(impatient: House) -> None:
    house = impatient
    tenant = await acme(house)
    house.server.pause()
    try:
        answer = await house.operator.post(f"/tenants/{tenant}/suspend", timeout=20)
    finally:
        house.server.resume()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert house.server.command("HGET", f"{{t:{tenant}}}:meta", "status") == b"active"


# Who may ask


@pytest.mark.parametrize(
    "credential",
    ["", "Bearer", "Bearer x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Bearer {TOKEN.lower()}", f"Basic {TOKEN}"],
)
async def test_without_the_credential_no_route_differs_from_another(house: House, credential: str) -> None:
    headers = {"authorization": credential} if credential else {}
    told = set()
    async with httpx2.AsyncClient(base_url=house.operator.base_url, headers=headers) as stranger:
        for method, path in [
            *((row.method, row.path) for row in ROWS),
            ("GET", "/"),
            ("GET", "/nothing"),
            ("PUT", "/tenants"),
        ]:
            answer = await stranger.request(method, re.sub(r"\{\w+\}", "x", path), content=b"not JSON")
            told.add(
                (answer.status_code, answer.text, answer.headers["www-authenticate"], answer.headers["cache-control"])
            )
    assert len(told) == 1
    assert next(iter(told))[0] == 401


async def test_wrong_credentials_are_counted_in_the_operators_log(house: House) -> None:
    async with httpx2.AsyncClient(base_url=house.operator.base_url) as stranger:
        for _ in range(3):
            await stranger.get("/tenants", headers={"authorization": "Bearer guess"})
    log, store = house.gateway.admin.log, house.gateway.admin.store
    await log.send_sums(now_s=time.time() + 2)
    (summed,) = [row for _, row in await store.read_operator_events("0", 100) if b"admin_unauthenticated" in row]
    assert b"guess" not in summed


async def test_a_gateway_key_of_a_tenant_opens_nothing(house: House) -> None:
    key = await house.service("acme", "webhooks:write")
    answer = await house.operator.get("/tenants", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "header",
    [("origin", "http://127.0.0.1"), ("origin", "null"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "cors")],
)
async def test_a_browser_is_refused_whatever_it_knows(house: House, header: tuple[str, str]) -> None:
    await acme(house)
    answer = await house.operator.post("/tenants/acme/suspend", headers=dict([header]))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")
    preflight = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    refused = await house.operator.options("/tenants", headers=preflight)
    assert refused.status_code == 403
    assert not [name for name in refused.headers if name.startswith("access-control-")]
    assert (await house.call("GET", "/tenants"))["tenants"][0]["state"] == "active"


async def test_two_credentials_are_refused(house: House) -> None:
    answer = await house.operator.get("/tenants", headers={"x-api-key": TOKEN})
    assert answer.status_code == 400


# What may be asked


@pytest.mark.parametrize(
    ("path", "body", "member", "told"),
    [
        ("/tenants", {}, "name", "is missing"),
        ("/tenants", {"name": 7}, "name", "must be a text"),
        ("/tenants", {"name": ""}, "name", "must be a text"),
        ("/tenants", {"name": "a\nb"}, "name", "must be a text"),
        ("/tenants", {"name": "x" * 3000}, "name", "must be a text"),
        ("/tenants", {"name": "a", "admin": True}, "admin", "is no member"),
        ("/tenants", {"name": "a", "__class__": 1}, "__class__", "is no member"),
        ("/tenants", ["acme"], None, "must be a JSON object"),
        ("/tenants", "acme", None, "must be a JSON object"),
        ("/tenants/acme/suspend", {"force": True}, "force", "it has none"),
        ("/tenants/acme/rotate", {"identity": "yes"}, "identity", "true or false"),
        ("/tenants/acme/rotate", {"identity": 1}, "identity", "true or false"),
        ("/tenants/acme/rotate", {"identity": None}, "identity", "true or false"),
        ("/tenants/acme/keys", {"subject": "a", "expires": "soon"}, "expires", "90d, 12h or 30m"),
        ("/tenants/acme/keys", {"subject": "a", "expires": 90}, "expires", "must be a text"),
        ("/tenants/acme/keys", {"subject": "a", "scopes": "act_as:local"}, "scopes", "must be a list"),
        ("/tenants/acme/keys", {"subject": "a", "scopes": [1]}, "scopes", "must be a text"),
        ("/tenants/acme/keys", {"subject": "a", "scopes": ["webhooks:write"]}, None, "services"),
        ("/tenants/acme/keys", {"subject": "a", "service": True, "scopes": ["admin"]}, None, "unknown scope"),
        ("/tenants/acme/ids", {"raw": RAW, "owner": "alice"}, "owner", "an issuer and a subject"),
        ("/tenants/acme/ids", {"raw": "nonsense", "owner": "local#alice"}, None, "not look like an ID"),
        ("/tenants/acme/streams", {"url": "https://example.com", "format": "xml"}, "format", "json, ocsf"),
        ("/tenants/acme/log/hold", {}, "on", "is missing"),
        ("/tenants/acme/log/retain", {}, "days", "is missing"),
        ("/tenants/acme/log/retain", {"days": -1}, "days", "whole number"),
        ("/tenants/acme/log/retain", {"days": 1.5}, "days", "whole number"),
        ("/tenants/acme/log/retain", {"days": True}, "days", "whole number"),
        ("/tenants/acme/log/reseal", {"accept_loss": False}, "accept_loss", "must be true"),
        ("/tenants/acme/log/anchor", {"url": "https://10.0.0.1/"}, None, "address"),
        ("/tenants/acme/log/proof", {"event": "first"}, "event", "its number"),
        ("/tenants/acme/log/tail", {"newest": 501}, "newest", "1 to 500"),
    ],
)  # fmt: skip
async def test_a_body_of_another_shape_is_refused_and_names_the_member(
    house: House, path: str, body: Any, member: str | None, told: str
) -> None:
    await acme(house)
    error = (await house.call("POST", path, body, status=400))["error"]
    assert error["param"] == member
    assert told in error["message"]


async def test_what_is_no_bounded_json_without_a_query_is_refused(house: House) -> None:
    post = house.operator.post
    json = {"content-type": "application/json"}
    answers = [
        (await post("/tenants", content=b'{"name": "a", "name": "b"}', headers=json), 400, "invalid_json"),
        (await post("/tenants", content=b"{", headers=json), 400, "invalid_json"),
        (await post("/tenants", content=b'{"name": ' + b"[" * 9 + b"]" * 9 + b"}", headers=json), 400, "invalid_json"),
        (await post("/tenants", content=b'{"name": "a"}'), 415, "unsupported_media_type"),
        (await post("/tenants", data={"name": "a"}), 415, "unsupported_media_type"),
        (await post("/tenants", json={"name": "x" * 70_000}), 413, "request_too_large"),
        (await post("/tenants?name=a", json={"name": "a"}), 400, "invalid_value"),
        (await house.operator.put("/tenants", json={"name": "a"}), 405, "method_not_allowed"),
        (await house.operator.request("GET", "/tenants", json={"x": 1}), 400, "invalid_value"),
        (await house.operator.get("/"), 404, None),
        (await house.operator.get("/v1/models"), 404, None),
        (await house.operator.get("/tenants/acme/keys"), 404, "not_found"),
    ]
    for answer, status, code in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        assert answer.headers["cache-control"] == "no-store"
    assert (await house.call("GET", "/tenants"))["tenants"] == []


async def test_a_tenants_name_is_a_path_segment_with_its_escapes(house: House) -> None:
    tenant = (await house.call("POST", "/tenants", {"name": "Müller & Söhne"}, status=201))["id"]
    assert (await house.call("POST", "/tenants/M%C3%BCller%20%26%20S%C3%B6hne/suspend"))["id"] == tenant


async def test_the_same_name_at_once_makes_one_answer_each_and_no_crash(house: House) -> None:
    answers = await asyncio.gather(*(house.operator.post("/tenants", json={"name": f"t{n % 4}"}) for n in range(8)))
    assert {answer.status_code for answer in answers} <= {201, 409}


# What stays secret


async def test_secrets_are_in_their_answer_and_nowhere_else(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    tenant = await acme(house)
    key = (await house.call("POST", "/tenants/acme/keys", {"subject": "alice"}, status=201))["key"]
    hook = await house.call("POST", "/tenants/acme/webhooks", {"url": house.receiver.url}, status=201)
    second = await house.call("POST", f"/tenants/acme/webhooks/{hook['id']}/rotate")
    await house.call("POST", "/tenants/acme/ids", {"raw": RAW, "owner": "local#alice"})
    listed = [await house.call("GET", f"/tenants/acme/{what}") for what in ("keys", "webhooks")]
    tail = await house.call("POST", "/tenants/acme/log/tail", {"newest": 500})
    secrets = [key, hook["secret"], second["secret"], base64.b64decode(hook["secret"][6:]).hex(), TOKEN, RAW, "hush"]
    logged = caplog.text + " ".join(str(vars(record)) for record in caplog.records)
    dump = "".join(repr(house.server.command("DUMP", name)) for name in house.server.command("KEYS", "*"))
    for place in (logged, dump, str(listed), str(tail), str(await house.events(tenant))):
        assert not [secret for secret in secrets if secret in place]


async def test_a_name_that_nobody_of_ours_wrote_does_not_stand_in_the_log(house: House) -> None:
    tenant = await acme(house)
    await house.call("POST", f"/tenants/acme/webhooks/{RAW}/test", status=404)
    await house.call("POST", f"/tenants/acme/webhooks/{HOOK}/replay", {"message": RAW}, status=404)
    await house.call("DELETE", f"/tenants/acme/streams/{RAW}", status=404)
    refused = await house.events(tenant)
    assert [one["outcome"]["result"] for one in refused[1:]] == ["deny"] * 3
    assert RAW not in str(refused)
