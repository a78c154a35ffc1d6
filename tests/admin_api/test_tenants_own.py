"""What a tenant's own service may do over HTTP: its tenant's webhooks, with a key that says so, and nothing of anybody else's."""

from __future__ import annotations

import pytest
from openai import OpenAI

from gateway.admin_api.table import OF_TENANT, ROWS
from gateway.authn.scopes import Scope
from gateway.stores.contract import TenantStatus
from tests.admin_api.conftest import House

SCOPE = "webhooks:write"
OWN = [row for row in ROWS if row.scope]


def test_a_tenants_own_routes_are_those_of_its_webhooks_alone() -> None:
    assert {row.scope for row in OWN} == {Scope.WEBHOOKS_WRITE}
    assert [row.path for row in OWN if not row.path.startswith(f"{OF_TENANT}/webhooks")] == []


async def test_a_service_registers_and_tests_its_webhook_as_itself(house: House) -> None:
    key = await house.service("acme", SCOPE)
    made = await house.own(key, "POST", "/webhooks", {"url": house.receiver.url}, status=201)
    at = f"/webhooks/{made['id']}"
    assert await house.own(key, "POST", f"{at}/test") == {"status": 200, "taken": True}
    post = house.receiver.posts[0]
    OpenAI(api_key="none").webhooks.verify_signature(post.body, post.headers, secret=made["secret"])
    assert (await house.own(key, "POST", f"{at}/rotate"))["secret"] != made["secret"]
    (row,) = (await house.own(key, "GET", "/webhooks"))["webhooks"]
    assert row["id"] == made["id"]
    assert await house.own(key, "GET", f"{at}/dead") == {"dead": []}
    assert await house.own(key, "POST", f"{at}/replay", {}) == {"replayed": 0}
    assert await house.own(key, "DELETE", at) == {"removed": True}
    tenant = await house.gateway.tenant("acme")
    events = await house.events(tenant, "webhook.")
    assert [one["type"].removeprefix("webhook.") for one in events] == [
        "add", "test", "rotate", "list", "dead", "replay", "remove",
    ]  # fmt: skip
    assert {(one["actor"]["kind"], one["actor"]["auth"]) for one in events} == {("service", "api_key")}
    assert {bool(one["actor"]["pseudonym"]) for one in events} == {True}
    assert events[0]["request"]["route"] == "/tenant/webhooks"
    assert "robot" not in str(events)


async def test_another_tenants_webhook_reads_as_one_that_is_not_there(house: House) -> None:
    acme, bravo = await house.service("acme", SCOPE), await house.service("bravo", SCOPE)
    hers = (await house.own(bravo, "POST", "/webhooks", {"url": house.receiver.url}, status=201))["id"]
    for method, what in (
        ("POST", "/test"), ("POST", "/rotate"), ("GET", "/dead"), ("POST", "/replay"), ("DELETE", ""),
    ):  # fmt: skip
        foreign = await house.own(acme, method, f"/webhooks/{hers}{what}", status=404)
        missing = await house.own(acme, method, f"/webhooks/hook_0000000000000000{what}", status=404)
        assert foreign == missing
    assert (await house.own(acme, "GET", "/webhooks"))["webhooks"] == []
    assert house.receiver.posts == []
    (row,) = (await house.own(bravo, "GET", "/webhooks"))["webhooks"]
    assert row["id"] == hers
    told = await house.events(await house.gateway.tenant("bravo"), "webhook.")
    assert [one["type"] for one in told] == ["webhook.add", "webhook.list"], "nothing of acme's is in bravo's log"


@pytest.mark.parametrize("row", OWN, ids=lambda row: f"{row.method} {row.path}")
async def test_without_the_scope_every_route_is_refused_and_the_refusal_is_on_record(house: House, row: object) -> None:
    method, path = row.method, row.path.removeprefix(OF_TENANT).replace("{webhook}", "hook_0")  # type: ignore[attr-defined]
    keys = [
        await house.service("acme"),
        await house.service("acme", "act_as:local"),
        await house.gateway.key("acme", "alice"),
    ]
    for key in keys:
        refused = await house.own(key, method, path, status=403)
        assert refused["error"]["code"] == "insufficient_scope"
    told = await house.events(await house.gateway.tenant("acme"), "admin.refused")
    assert [(one["outcome"]["result"], one["outcome"]["reason"]) for one in told] == [("deny", "scope_missing")] * 3


async def test_a_service_that_names_a_user_has_not_its_own_scopes(house: House) -> None:
    key = await house.service("acme", SCOPE, "act_as:local")
    headers = {"authorization": f"Bearer {key}", "x-coatcheck-actor": "alice"}
    assert (await house.public.get("/tenant/webhooks", headers=headers)).status_code == 403
    assert (await house.own(key, "GET", "/webhooks"))["webhooks"] == []


async def test_without_a_credential_nothing_is_told(house: House) -> None:
    await house.gateway.tenant("acme")
    for headers in ({}, {"authorization": "Bearer cck_nothing"}, {"authorization": "Bearer x"}):
        for path in ("/tenant/webhooks", "/tenant/webhooks/hook_0000000000000000/dead"):
            answer = await house.public.get(path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_a_revoked_key_and_a_suspended_tenant_are_refused_at_once(house: House) -> None:
    key = await house.service("acme", SCOPE)
    assert await house.own(key, "GET", "/webhooks")
    tenant = await house.gateway.tenant("acme")
    await house.call("POST", f"/tenants/{tenant}/suspend")
    await house.own(key, "POST", "/webhooks", {"url": house.receiver.url}, status=401)
    await house.call("POST", f"/tenants/{tenant}/resume")
    assert (await house.own(key, "GET", "/webhooks"))["webhooks"] == []
    (listed,) = (await house.call("GET", f"/tenants/{tenant}/keys"))["keys"]
    await house.call("POST", f"/tenants/{tenant}/keys/{listed['id']}/revoke")
    for method, path, body in (("GET", "/webhooks", None), ("POST", "/webhooks", {"url": house.receiver.url})):
        refused = await house.own(key, method, path, body, status=401)
        assert refused["error"]["code"] == "invalid_api_key"
    assert (await house.call("GET", f"/tenants/{tenant}/webhooks"))["webhooks"] == []
    reasons = [one["outcome"]["reason"] for one in await house.events(tenant, "webhook.")]
    assert "credential_revoked" in reasons
    assert "tenant_inactive" in reasons


async def test_the_operator_may_change_a_suspended_tenants_webhooks(house: House) -> None:
    tenant = await house.gateway.tenant("acme")
    await house.gateway.admin.store.set_tenant_status(tenant, TenantStatus.SUSPENDED)
    await house.call("POST", f"/tenants/{tenant}/webhooks", {"url": house.receiver.url}, status=201)


async def test_a_page_of_another_site_is_refused_and_other_paths_are_the_gateways(house: House) -> None:
    key = await house.service("acme", SCOPE)
    bearer = {"authorization": f"Bearer {key}"}
    page = await house.public.get("/tenant/webhooks", headers=bearer | {"origin": "https://app.example"})
    assert (page.status_code, page.json()["error"]["code"]) == (403, "origin_not_allowed")
    for path in ("/tenant", "/tenant/", "/tenant/keys", "/tenants", "/tenants/acme/webhooks", "/tenant/webhooks/a/b/c"):
        answer = await house.public.get(path, headers=bearer)
        assert answer.status_code == 404, path
        assert "Invalid URL" in answer.text
    assert (await house.public.put("/tenant/webhooks", headers=bearer)).status_code == 405


async def test_an_address_inside_is_refused_to_a_service_as_it_is_to_the_operator(house: House) -> None:
    key = await house.service("acme", SCOPE)
    for url in ("https://169.254.169.254/latest", "ftp://example.com/", "https://user@example.com/"):
        refused = await house.own(key, "POST", "/webhooks", {"url": url}, status=409)
        assert "address" in refused["error"]["message"]


async def test_a_flood_of_names_that_are_none_is_turned_away(house: House) -> None:
    key, statuses = await house.service("acme", SCOPE), set()
    for number in range(120):
        answer = await house.public.get(
            f"/tenant/webhooks/hook_{number:016x}/dead", headers={"authorization": f"Bearer {key}"}
        )
        statuses.add(answer.status_code)
        if answer.status_code == 429:
            break
    assert statuses == {404, 429}


async def test_a_key_of_the_tenants_that_does_not_open_is_no_failure_of_the_gateway(house: House) -> None:
    key = await house.service("acme", SCOPE)
    await house.own(key, "GET", "/webhooks")
    held = f"{{t:{await house.gateway.tenant('acme')}}}:keys"
    blob = house.server.command("HGET", held, "audit.1")
    house.server.command("HSET", held, "audit.1", blob[:-1] + bytes((blob[-1] ^ 1,)))
    house.gateway.gateway.shared.keyring._tenants.clear()
    refused = await house.public.get("/tenant/webhooks", headers={"authorization": f"Bearer {key}"})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


async def test_whoever_asks_a_tenants_receivers_are_tried_once_a_second(house: House) -> None:
    key = await house.service("acme", SCOPE)
    made = await house.own(key, "POST", "/webhooks", {"url": house.receiver.url}, status=201)
    stream = await house.call(
        "POST", "/tenants/acme/streams", {"url": house.receiver.url, "format": "json", "whole": False}, status=201
    )
    at = f"/webhooks/{made['id']}/test"
    assert (await house.own(key, "POST", at))["taken"]
    busy = await house.own(key, "POST", at, status=429)
    assert busy["error"]["code"] == "rate_limit_exceeded"
    assert await house.call("POST", f"/tenants/acme{at}", status=429) == busy
    assert await house.call("POST", f"/tenants/acme/streams/{stream['id']}/test", status=429) == busy
    answer = await house.operator.post(f"/tenants/acme{at}")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert len(house.receiver.posts) == 1
    house.a_second_later()
    assert (await house.own(key, "POST", at))["taken"]
