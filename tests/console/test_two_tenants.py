"""A reviewer of one tenant sees nothing of another: by no address, search, filter, export, cursor, story or session."""

from __future__ import annotations

import io
import re
import time
import zipfile
from urllib.parse import urlencode

import pytest

from gateway.console.session import COOKIE
from tests.console.house import ACME, RIVAL, Browser, House
from tests.console.plot import Plot
from tests.redis_fixture import RedisServer


@pytest.fixture
async def rivals(home: House) -> tuple[Plot, Browser]:
    """A log of each tenant, and a reviewer of the second."""
    plots = {}
    for tenant in (ACME, RIVAL):
        plot = plots[tenant] = Plot(tenant, await home.keys(tenant), int(time.time() * 1e6), seed=ord(tenant[0]))
        await home.write(*plot.story())
    await home.sign()
    return plots[ACME], await home.signed_in("rita")


async def secrets_of(home: House, plot: Plot) -> set[str]:
    """What only the first tenant's log holds."""
    events = await home.events(ACME)
    found = {event["id"] for event in events} | {plot.conversation, ACME}
    found |= {event["actor"]["pseudonym"] for event in events} | {event["actor"]["sealed"] for event in events}
    return {*found, *(event["request"]["id"] for event in events)} - {""}


async def test_no_page_shows_anything_of_another_tenant(home: House, rivals: tuple[Plot, Browser]) -> None:
    plot, reviewer = rivals
    secrets = await secrets_of(home, plot)
    theirs = await home.events(ACME)
    pages = ["/", "/log", "/tail", f"/story?id={plot.conversation}", f"/log?target={plot.conversation}",
             f"/log?q={plot.conversation}", f"/log?actor={theirs[0]['actor']['pseudonym']}",
             f"/log?actor!={theirs[0]['actor']['pseudonym']}", f"/log?request={theirs[0]['request']['id']}",
             "/log?before=5", "/log?after=2", "/log?after=0&before=", "/key"]  # fmt: skip
    for page in pages:
        answer = await reviewer.get(page)
        if answer.status_code == 303:
            answer = await reviewer.get(answer.headers["location"])
        assert answer.status_code == 200, page
        # What was asked for stands in the page again; everything else would be a leak.
        text = answer.text
        for asked in re.findall(r"=([^&]+)", page):
            text = text.replace(asked, "")
        assert {secret for secret in secrets if secret in text} == set(), page


async def test_another_tenants_permalink_is_as_if_it_never_was(home: House, rivals: tuple[Plot, Browser]) -> None:
    _, reviewer = rivals
    assert (await reviewer.get(f"/event/{RIVAL}/3")).status_code == 200
    bodies = set()
    for path in (f"/event/{ACME}/3", f"/event/{ACME}/3/proof", f"/event/{ACME}/99999", f"/event/{RIVAL}/99999",
                 "/event/zzzzzzzzzzzzzzzz/3", f"/event/{ACME.upper()}/3", f"/event/{RIVAL}/0", f"/event/{RIVAL}/x"):  # fmt: skip
        answer = await reviewer.get(path)
        assert answer.status_code == 404, path
        bodies.add(answer.text)
    assert len(bodies) == 1
    refused = [event for event in await home.events(RIVAL) if event["type"] == "console.refused"]
    assert {event["outcome"]["reason"] for event in refused} == {"not_found"}
    assert "console.refused" not in {event["type"] for event in await home.events(ACME)}


async def test_another_tenants_event_costs_what_one_that_never_was_costs(
    home: House, rivals: tuple[Plot, Browser], redis_server: RedisServer
) -> None:
    _, reviewer = rivals
    costs = []
    for path in (f"/event/{ACME}/3", f"/event/{ACME}/99999", "/event/zzzzzzzzzzzzzzzz/3"):
        redis_server.reset_commandstats()
        assert (await reviewer.get(path)).status_code == 404
        costs.append(
            {name: calls for name, calls in redis_server.commandstats().items() if name.startswith(("x", "eval"))}
        )
    assert costs[0] == costs[1] == costs[2]


async def test_an_export_holds_the_reviewers_own_log_only(home: House, rivals: tuple[Plot, Browser]) -> None:
    plot, reviewer = rivals
    secrets = await secrets_of(home, plot)
    await home.sign()
    for form in ("csv", "jsonl", "evidence"):
        for query in ({}, {"target": plot.conversation}, {"q": plot.conversation}, {"last": "7d"}):
            answer = await reviewer.get("/export?" + urlencode({"format": form, **query}))
            with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
                events = "".join(archive.read(name).decode() for name in archive.namelist() if name != "manifest.json")
            assert {secret for secret in secrets if secret in events} == set()
            assert bool(query.get("target") or query.get("q")) or "conversations.create" in events


async def test_a_tail_shows_the_reviewers_own_log_only(home: House, rivals: tuple[Plot, Browser]) -> None:
    plot, reviewer = rivals
    secrets = await secrets_of(home, plot)
    headers = {"cookie": f"{COOKIE}={reviewer.cookies[COOKIE]}", "sec-fetch-site": "same-origin"}
    seen = ""
    async with home.http.stream("GET", f"{home.origin}/tail/feed?after=0", headers=headers) as answer:
        async for piece in answer.aiter_text():
            seen += piece
            if seen.count("id: ") >= 20:
                break
    assert "conversations.create" in seen
    assert {secret for secret in secrets if secret in seen} == set()


async def test_a_name_that_both_tenants_know_is_a_stranger_in_each(home: House, rivals: tuple[Plot, Browser]) -> None:
    pseudonyms = [{event["actor"]["pseudonym"] for event in await home.events(tenant)} for tenant in (ACME, RIVAL)]
    assert not pseudonyms[0] & pseudonyms[1]
