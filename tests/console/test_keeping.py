"""What admins change, and nobody else: streams, retention, holds, the tenant's own anchor; each on record before and after."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.admin.administration import AdminEvent
from gateway.audit.streams.batch import Format
from gateway.console.keeping import Change
from gateway.outgoing import Reach
from tests.console.house import ACME, RIVAL, Browser, House, house
from tests.console.words import words_of
from tests.redis_fixture import RedisServer

URL = "https://siem.example.com/in?token=s3cret"
NOBODY = "https://127.0.0.1:9/in?token=s3cret"


@pytest.fixture
async def admin(home: House) -> Browser:
    return await home.signed_in("max")


async def recorded(home: House, type_: str) -> list[tuple[str, str, dict[str, object]]]:
    """Phase, result and changes of the events of a type."""
    return [
        (one["phase"], (one["outcome"] or {}).get("result", ""), one["changes"])
        for one in await home.events()
        if one["type"] == type_
    ]


def test_an_admins_changes_are_named_as_the_operators() -> None:
    assert {one.value for one in Change} <= {one.value for one in AdminEvent}


async def test_a_stream_is_added_listed_tried_and_removed(redis_server: RedisServer, tmp_path: Path) -> None:
    async with house(redis_server.url, tmp_path, Reach.LOOPBACK) as home:
        await _add_and_remove(home, await home.signed_in("max"))


async def _add_and_remove(home: House, admin: Browser) -> None:
    made = await admin.post("/streams", {"add": "1", "url": NOBODY, "format": Format.OCSF.value, "from": "start"})
    assert made.status_code == 200
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", made.text)
    stream = re.search(r"st_[0-9a-f]{16}", made.text)
    assert secret
    assert stream
    page = (await admin.get("/streams")).text
    assert stream[0] in page
    assert secret[0] not in page
    assert "s3cret" not in page
    tried = await admin.post("/streams", {"test": stream[0]})
    assert f"{stream[0]}: it cannot be reached" in words_of(tried.text)
    assert (await admin.post("/streams", {"remove": stream[0]})).status_code == 303
    assert stream[0] not in (await admin.get("/streams")).text
    assert await recorded(home, "stream.add") == [
        ("intent", "", {"format": "ocsf"}),
        ("outcome", "allow", {"format": "ocsf", "stream": stream[0]}),
    ]
    assert [one[:2] for one in await recorded(home, "stream.remove")] == [("intent", ""), ("outcome", "allow")]
    assert [one[0] for one in await recorded(home, "stream.test")] == ["intent", "outcome"]
    assert "s3cret" not in str(await home.events())


@pytest.mark.parametrize(
    "url", ["http://siem.example.com/", "https://10.0.0.1/", "ftp://x", "x", "", "https://u:p@example.com/"]
)
async def test_a_stream_to_where_nothing_may_be_called_is_refused(home: House, admin: Browser, url: str) -> None:
    answer = await admin.post("/streams", {"add": "1", "url": url, "format": Format.JSON.value})
    assert answer.status_code == 400
    assert "st_" not in (await admin.get("/streams")).text


async def test_nobody_changes_a_stream_of_another_tenant(home: House, admin: Browser) -> None:
    made = await home.store.streams.add(RIVAL, "st_0123456789abcdef", b"sealed", 8, from_start=False)
    assert made
    for button in ("remove", "test"):
        assert (await admin.post("/streams", {button: "st_0123456789abcdef"})).status_code == 404
    assert await home.store.streams.records(RIVAL) == {"st_0123456789abcdef": b"sealed"}


async def test_retention_a_hold_and_an_anchor_are_set(home: House, admin: Browser) -> None:
    for form in (
        {"set_days": "1", "by": "days", "days": "90"},
        {"set_hold": "on"},
        {"set_webhook": "1", "webhook": URL},
    ):
        assert (await admin.post("/retention", form)).status_code == 303
    rules = await home.store.log.rules(ACME)
    assert (rules.days, rules.hold, rules.webhook) == (90, True, URL)
    words = words_of(page := (await admin.get("/retention")).text)
    assert "Keep for ever" in words
    assert words.count("Save") == 2
    assert "after 90 days" in words
    assert "on: nothing leaves" in words
    assert "s3cret" not in page
    for form in ({"set_days": "1", "by": "default"}, {"set_hold": "off"}, {"set_webhook": "1", "webhook": ""}):
        assert (await admin.post("/retention", form)).status_code == 303
    rules = await home.store.log.rules(ACME)
    assert (rules.days, rules.hold, rules.webhook) == (None, False, "")
    assert (await recorded(home, "audit.retain"))[1] == ("outcome", "allow", {"days_before": None, "days_after": 90})
    assert (await recorded(home, "audit.hold"))[3] == ("outcome", "allow", {"hold_before": True, "hold_after": False})
    assert "s3cret" not in str(await home.events())


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"set_days": "1"},
        {"set_days": "1", "by": "days", "days": "0"},
        {"set_days": "1", "by": "days", "days": "-5"},
        {"set_days": "1", "by": "days", "days": "99999"},
        {"set_days": "1", "by": "days", "days": "９"},
        {"set_webhook": "1", "webhook": "http://example.com"},
    ],
)
async def test_rules_that_cannot_be_meant_change_nothing(home: House, admin: Browser, form: dict[str, str]) -> None:
    before = await home.store.log.rules(ACME)
    assert (await admin.post("/retention", form)).status_code == 400
    assert await home.store.log.rules(ACME) == before


async def test_an_auditor_changes_nothing(home: House) -> None:
    auditor = await home.signed_in("ada")
    before = await home.store.log.rules(ACME)
    for page, form in (("/streams", {"add": "1", "url": URL, "format": "json"}), ("/retention", {"set_hold": "on"})):
        assert (await auditor.get(page)).status_code == 403
        assert (await auditor.post(page, form)).status_code == 403
    assert await home.store.log.rules(ACME) == before
    assert await home.store.streams.records(ACME) == {}
