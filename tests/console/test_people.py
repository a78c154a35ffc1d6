"""People and addresses are found by what they are called, under every version of the keys, and floods count in full."""

from __future__ import annotations

import csv
import io
import re
import time
import zipfile
from typing import Any
from urllib.parse import quote

import pytest

from gateway.audit.event import Outcome, Result, Target
from gateway.audit.persons import NETWORK, is_pseudonym, unsealed
from gateway.names import Owner
from tests.console.house import ACME, ADAS_SUBJECT, Browser, House
from tests.console.plot import Plot
from tests.console.test_pages import rows, shown
from tests.console.words import words_of


@pytest.fixture
async def plot(home: House) -> Plot:
    plot = Plot(ACME, await home.keys(), int(time.time() * 1e6))
    await home.write(*plot.story())
    return plot


@pytest.fixture
async def auditor(home: House, plot: Plot) -> Browser:
    return await home.signed_in("ada")


@pytest.fixture
async def rotated(home: House, plot: Plot) -> tuple[str, str]:
    """Alice's pseudonyms: the story was lived under the first, and once more under the second."""
    first = plot.actor("alice").pseudonym
    await home.rotate()
    after = Plot(ACME, await home.keys(), int(time.time() * 1e6), seed=8)
    after.conversation = plot.conversation
    await home.write(*after.story())
    second = after.actor("alice").pseudonym
    assert first != second
    return first, second


async def found(browser: Browser, home: House, query: str) -> list[dict[str, Any]]:
    """The events on the page that a query's form leads to."""
    answer = await browser.get(f"/log?{query}")
    page = await shown(browser, answer.headers["location"] if answer.status_code == 303 else f"/log?{query}")
    numbers = rows(page)
    return [one for one in await home.events() if one["seq"] in numbers]


async def test_a_person_is_found_by_name_and_the_log_keeps_no_name(auditor: Browser, home: House, plot: Plot) -> None:
    alice = plot.actor("alice").pseudonym
    for typed in ("alice", "local#alice"):
        answer = await auditor.get(f"/log?add=actor&add_how=is&add_value={quote(typed)}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/log?actor={alice}")
        assert {one["actor"]["pseudonym"] for one in await found(auditor, home, f"actor={quote(typed)}")} == {alice}
        left = await found(auditor, home, f"actor!={quote(typed)}")
        assert left
        assert alice not in {one["actor"]["pseudonym"] for one in left}
    words = words_of(await shown(auditor, f"/log?actor={alice}"))
    assert "actor is alice" in words
    assert "actor alice" in words_of(await shown(auditor, "/tail?actor=alice"))
    assert (await auditor.get(f"/log?actor={ADAS_SUBJECT}")).headers["location"].startswith("/log?actor=")
    exported = await auditor.get("/export?format=csv&actor=alice")
    with zipfile.ZipFile(io.BytesIO(exported.content)) as archive:
        table = list(csv.DictReader(io.StringIO(archive.read("events.csv").decode(), newline="")))
    assert {row["person"] for row in table} == {"alice"}
    assert "alice" not in str([one["changes"] for one in await home.events()])


async def test_a_name_that_is_nobodys_or_two_peoples_is_no_question(auditor: Browser, home: House, plot: Plot) -> None:
    for typed in ("mallory", "#mallory", "local#"):
        answer = await auditor.get(f"/log?add=actor&add_value={quote(typed)}")
        assert answer.status_code == 400, typed
    assert "mallory" not in str([one["changes"] for one in await home.events()])
    issuer = next(one["actor"]["issuer"] for one in await home.events() if one["type"] == "console.sign_in")
    ada = plot.actor(ADAS_SUBJECT)
    await home.write(*plot.request(ada, "responses.create", "/v1/responses", 5))
    answer = await auditor.get(f"/log?actor={ADAS_SUBJECT}")
    assert answer.status_code == 400
    assert f"{Owner(issuer, ADAS_SUBJECT)} and local#{ADAS_SUBJECT}" in words_of(answer.text)
    assert {
        one["actor"]["pseudonym"] for one in await found(auditor, home, f"actor={quote(f'local#{ADAS_SUBJECT}')}")
    } == {ada.pseudonym}


async def test_an_address_is_found_as_it_is_written(auditor: Browser, home: House, rotated: tuple[str, str]) -> None:
    keys = await home.keys()
    opened = {
        one["seq"]: unsealed(keys, ACME, NETWORK, one["request"]["network"])
        for one in await home.events()
        if one["request"] and one["request"]["network"]
    }
    address = opened[1]
    assert address
    wanted = {seq for seq, its in opened.items() if its == address}
    assert max(wanted) > 20  # under both versions
    assert {one["seq"] for one in await found(auditor, home, f"add=network&add_value={address}")} == wanted
    page = await shown(auditor, (await auditor.get(f"/log?network={address}")).headers["location"])
    assert f"network is {address}" in words_of(page)


async def test_after_a_rotation_of_the_keys_a_person_is_still_one(
    auditor: Browser, home: House, plot: Plot, rotated: tuple[str, str]
) -> None:
    for pseudonym in rotated:
        with_her = {one["actor"]["pseudonym"] for one in await found(auditor, home, f"actor={pseudonym}")}
        assert with_her == set(rotated)
        without = {one["actor"]["pseudonym"] for one in await found(auditor, home, f"actor!={pseudonym}")}
        assert not without & set(rotated)
    words = words_of(await shown(auditor, "/log?route=/v1/responses"))
    assert re.search(r"People alice not 16 ", words)
    words = words_of(await shown(auditor, f"/event/{ACME}/20"))
    assert re.search(r"By the same person All .*\b22\b", words)
    words = words_of(await shown(auditor, f"/story?id={plot.conversation}"))
    assert "Continued by alice 6 ×" in words
    assert "Refused to carol 6 ×" in words
    assert re.search(r"To whom carol 6 ", words_of(await shown(auditor, "/")))


async def test_a_flood_counts_in_full_and_under_whose_it_is(auditor: Browser, home: House, plot: Plot) -> None:
    mallory, one = plot.actor("mallory"), Target("conversation", plot.conversation)
    denied = Outcome(Result.DENY, "not_owned", 404)
    await home.write(*plot.request(mallory, "conversations.retrieve", "/v1/c", 100, named=(one,), ending=denied))
    # Newer than any event that holds the name.
    await home.write(*(plot.flood(mallory, 480, 90 - n, one) for n in range(7)))
    await home.write(plot.flood(mallory, 5000, 9, one, Target("conversation", plot.opaque("conv_"))))
    total = 1 + 7 * 480 + 5000
    words = words_of(await shown(auditor, "/"))
    assert f"What was refused? {total + 3:,} of {total + 10:,} answers" in words
    assert f"Why not_owned {total + 3:,}" in words
    assert f"To whom mallory {total:,} carol 3" in words
    assert re.search(r"mallory refusals\.summed refused 5,000 × not_owned", words)
    words = words_of(await shown(auditor, f"/story?id={plot.conversation}"))
    assert "Refused to carol 3 ×, mallory 3,362 ×" in words
    assert "mallory was refused 480 × in a second not_owned" in words
    assert "mallory was refused 5,000 × in a second, over 2 objects not_owned" in words
    last = next(one["seq"] for one in await home.events() if one["changes"].get("count") == 5000)
    words = words_of(await shown(auditor, f"/event/{ACME}/{last}"))
    assert "Who mallory" in words
    assert "Refusals 5,000 in one second, said by the gateway" in words


def test_a_pseudonym_is_told_from_a_name() -> None:
    assert is_pseudonym("0123456789abcdef01234567")
    for text in ("", "alice", "0123456789ABCDEF01234567", "0123456789abcdef0123456", "0123456789abcdef01234567\n"):
        assert not is_pseudonym(text)
