"""The console as a person meets it: in a real Chromium, signed in at a real provider, every error counted."""

from __future__ import annotations

import asyncio
import csv
import io
import shutil
import time
import zipfile
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from tests.audit.verifiers import codes
from tests.browser.conftest import Visitor, missing, visiting
from tests.console.house import ACME, House
from tests.console.plot import Plot
from tests.console.test_integrity import altered, rewrite
from tests.node import skip_if
from tests.redis_fixture import RedisServer

pytestmark = skip_if(missing())

SERIOUS = ("serious", "critical")


@pytest.fixture
async def plot(home: House) -> Plot:
    plot = Plot(ACME, await home.keys(), int(time.time() * 1e6))
    await home.write(*plot.day(60), *plot.story())
    await home.sign()
    return plot


async def test_an_auditor_signs_in_narrows_the_log_opens_a_record_and_comes_back_by_its_address(
    visitor: Visitor, home: House, plot: Plot
) -> None:
    await visitor.sign_in("ada")
    page = visitor.page
    await expect(page.get_by_text("All 140 records up to checkpoint 140 match what was signed.")).to_be_visible()
    await page.get_by_role("link", name="Log", exact=True).click()
    await page.get_by_text("Narrow by a filter").click()
    await page.get_by_label("Filter", exact=True).select_option("reason")
    await page.get_by_label("Value, whole").fill("not_owned")
    await page.get_by_role("button", name="Add").click()
    await expect(page.get_by_role("list", name="Filters in use")).to_contain_text("reason is not_owned")
    assert page.url == f"{home.origin}/log?reason=not_owned"
    shown = await page.locator("#events tbody tr").count()
    reasons = await page.locator("#events .reason").all_inner_texts()
    assert reasons == ["not_owned"] * shown
    await page.locator("#events tbody tr").first.get_by_role("link", name="Record").click()
    await expect(page.get_by_text("Verified to checkpoint 140.")).to_be_visible()
    await expect(page.locator("#record-text")).to_contain_text('"reason": "not_owned"')
    permalink = page.url
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_text("You are signed out.")).to_be_visible()
    # The address leads to the sign-in and from there to the record; the provider still knows the person.
    await page.goto(permalink)
    await page.get_by_role("link", name="Sign in with").click()
    if await page.get_by_role("button", name="Continue").count():
        await page.get_by_role("button", name="Continue").click()
    await page.wait_for_url(permalink)
    await expect(page.get_by_text("Verified to checkpoint 140.")).to_be_visible()


async def test_another_tenants_reviewer_finds_nothing_at_the_address(
    chromium: Browser, home: House, plot: Plot
) -> None:
    async with visiting(chromium, home) as rita:
        rita.allowed.append("Failed to load resource: the server responded with a status of 404")
        await rita.sign_in("rita", f"/event/{ACME}/7")
        await expect(rita.page.get_by_role("heading", name="There is nothing here.")).to_be_visible()
        await rita.goto(f"/story?id={plot.conversation}")
        await expect(rita.page.get_by_text("Nothing is known of it.")).to_be_visible()


async def test_a_conversations_story_is_a_form_away(visitor: Visitor, plot: Plot) -> None:
    await visitor.sign_in("ada")
    page = visitor.page
    await page.get_by_label("Its ID, or that of a response").fill(plot.conversation)
    await page.get_by_role("button", name="Tell its story").click()
    await expect(page.get_by_role("heading", name="10 steps, oldest first")).to_be_visible()
    await expect(page.locator(".step").first).to_contain_text("alice created it")
    await expect(page.locator(".step").last).to_contain_text("alice ended it")


async def test_a_tampered_log_shows_its_first_bad_record(
    visitor: Visitor, redis_server: RedisServer, plot: Plot
) -> None:
    await visitor.sign_in("ada")
    page = visitor.page
    await expect(page.get_by_text("match what was signed.")).to_be_visible()
    rewrite(redis_server, altered(132, b'"not_owned"', b'"not_0wned"'))
    await page.get_by_role("button", name="Read it all again").click()
    await expect(page.get_by_text("Record 132 does not match: record 133 holds another hash of it.")).to_be_visible()
    await page.get_by_role("link", name="Record 132", exact=True).first.click()
    await expect(page.get_by_role("alert")).to_contain_text("Record 132 does not match.")


async def test_a_proof_is_checked_in_the_browser_and_a_false_one_fails_there(visitor: Visitor, plot: Plot) -> None:
    await visitor.sign_in("ada", f"/event/{ACME}/131")
    page, lines = visitor.page, visitor.page.get_by_role("status").locator("li")
    check = page.get_by_role("button", name="Check it in this browser")
    await check.click()
    await expect(lines).to_have_count(3)
    assert [line[0] for line in await lines.all_inner_texts()] == ["✓"] * 3
    # What a server that lies would have to get past: another record, another path, another key.
    for place, old, new, failing in (
        ("record-text", "conversations.retrieve", "conversations.forgive", 0),
        ("proof-text", "\nindex 130\n", "\nindex 131\n", 1),
        ("key-text", "+", "+0", 2),
    ):
        await page.reload()
        await page.evaluate(
            "([id, old, other]) => { const one = document.getElementById(id);"
            " if (!one.textContent.includes(old)) throw new Error(id); one.textContent = one.textContent.replace(old, other); }",
            [place, old, new],
        )
        await check.click()
        await expect(lines).to_have_count(3)
        assert [line[0] for line in await lines.all_inner_texts()].index("✗") == failing


async def test_what_is_found_is_taken_away_as_a_table(visitor: Visitor, plot: Plot) -> None:
    await visitor.sign_in("ada", "/log?type=conversations.delete")
    async with visitor.page.expect_download() as started:
        await visitor.page.get_by_role("link", name="CSV").click()
    path = await (await started.value).path()
    with zipfile.ZipFile(io.BytesIO(await asyncio.to_thread(path.read_bytes))) as archive:
        assert sorted(archive.namelist()) == ["checkpoint", "events.csv", "manifest.json"]
        rows = list(csv.DictReader(io.StringIO(archive.read("events.csv").decode(), newline="")))
    assert [(row["person"], row["action"]) for row in rows] == [("alice", "conversations.delete")] * 2


async def test_what_is_found_is_taken_away_as_evidence_that_anybody_can_verify(
    visitor: Visitor, plot: Plot, home: House, tmp_path: Path
) -> None:
    await home.sign()
    await visitor.sign_in("ada", "/log?type=conversations.delete")
    async with visitor.page.expect_download() as started:
        await visitor.page.get_by_role("link", name="Evidence").click()
    path, folder, key = await (await started.value).path(), tmp_path / "unzipped", tmp_path / "key"
    await asyncio.to_thread(shutil.unpack_archive, path, folder, "zip")
    answer = await visitor.page.request.get(f"{home.origin}/key")
    await asyncio.to_thread(key.write_text, await answer.text())
    assert await asyncio.to_thread(codes, folder, key) == [0, 0]


async def test_the_live_tail_shows_what_comes_and_holds_it_while_paused(
    visitor: Visitor, home: House, plot: Plot
) -> None:
    await visitor.sign_in("ada", "/tail?type=responses.cancel")
    page = visitor.page
    await expect(page.get_by_role("status")).to_contain_text("Listening")
    await expect(page.get_by_text("Waiting for the first event")).to_be_visible()

    async def happen(*subjects: str) -> None:
        for subject in subjects:
            await home.write(*plot.request(plot.actor(subject), "responses.cancel", "/v1/responses/{id}/cancel", 0))

    await happen("first")
    rows = page.locator("#events tbody tr")
    await expect(rows).to_have_count(2)
    await expect(rows.first).to_contain_text("first")
    await expect(rows.first).to_contain_text("allowed")
    await page.get_by_role("button", name="Pause").click()
    await happen("second", "<b>third</b>")
    await expect(page.get_by_role("status")).to_have_text("Paused, 4 waiting")
    await expect(rows).to_have_count(2)
    await page.get_by_role("button", name="Go on").click()
    await expect(rows).to_have_count(6)
    await expect(rows.first).to_contain_text("<b>third</b>")


async def hide(page: Page, hidden: bool) -> None:
    """As a browser does with a tab that is put behind another one."""
    await page.evaluate(
        "(hidden) => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


async def test_a_tab_that_nobody_sees_listens_to_nothing_and_misses_nothing(
    visitor: Visitor, home: House, plot: Plot
) -> None:
    await visitor.sign_in("ada", "/tail?type=responses.cancel")
    page, rows = visitor.page, visitor.page.locator("#events tbody tr")
    await expect(page.get_by_role("status")).to_contain_text("Listening")

    async def happen(subject: str) -> None:
        await home.write(*plot.request(plot.actor(subject), "responses.cancel", "/v1/responses/{id}/cancel", 0))

    await happen("first")
    await expect(rows).to_have_count(2)
    async with page.expect_event("requestfailed", lambda request: "/tail/feed" in request.url):
        await hide(page, True)
    await happen("second")
    await expect(rows).to_have_count(2)
    async with page.expect_request(lambda request: "/tail/feed" in request.url) as came:
        await hide(page, False)
    last = [one["seq"] for one in await home.events() if one["type"] == "responses.cancel"][1]
    assert parse_qs(urlsplit((await came.value).url).query)["after"] == [str(last)]
    await expect(rows).to_have_count(4)
    await expect(rows.first).to_contain_text("second")
    await expect(page.get_by_role("status")).to_contain_text("Listening")


async def test_one_live_tail_too_many_says_so_and_the_console_goes_on(visitor: Visitor, plot: Plot) -> None:
    visitor.allowed.append("Failed to load resource: the server responded with a status of 429")
    await visitor.sign_in("ada", "/")
    tabs = [await visitor.page.context.new_page() for _ in range(5)]
    for tab in tabs[:4]:
        await tab.goto(f"{visitor.home.origin}/tail")
        await expect(tab.get_by_role("status")).to_contain_text("Listening")
    refused = tabs[4]
    await refused.goto(f"{visitor.home.origin}/tail")
    await expect(refused.get_by_role("status")).to_have_text(
        "Not listening: the console refused it. Load the page again."
    )
    await visitor.goto("/log")
    await expect(visitor.page.get_by_role("heading", name="Log")).to_be_visible()
    await tabs[0].close()
    await refused.get_by_role("link", name="Load again").click()
    await expect(refused.get_by_role("status")).to_contain_text("Listening")


async def test_the_end_of_a_session_is_not_denied_by_a_button(visitor: Visitor, home: House, plot: Plot) -> None:
    await visitor.sign_in("ada", "/tail")
    page, over = visitor.page, "Your session is over. Sign in again to go on."
    await expect(page.get_by_role("status")).to_contain_text("Listening")
    for name in await home.store.sessions(ACME):
        await home.store.drop_session(ACME, name)
    await expect(page.get_by_role("status")).to_have_text(over)
    await page.get_by_role("button", name="Pause").click()
    await page.get_by_role("button", name="Go on").click()
    await expect(page.get_by_role("status")).to_have_text(over)


async def test_everything_works_without_scripts(chromium: Browser, home: House, plot: Plot) -> None:
    async with visiting(chromium, home, java_script_enabled=False) as visitor:
        page = visitor.page
        await visitor.sign_in("max", "/tail")
        await expect(page.locator("#events tbody tr")).to_have_count(50)
        await page.get_by_role("link", name="Every 10 seconds").click()
        await expect(page.get_by_text("Loaded again every 10 seconds")).to_be_visible()
        await page.get_by_role("link", name="Stop").click()
        await page.get_by_role("link", name="In the log").click()
        await page.get_by_role("link", name="Older").click()
        await expect(page.get_by_role("link", name="Newer")).to_be_visible()
        await page.get_by_role("link", name="Retention").click()
        await page.get_by_role("button", name="Put it on hold").click()
        await expect(page.get_by_text("on: nothing leaves")).to_be_visible()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_text("You are signed out.")).to_be_visible()
        await page.close()


async def test_the_keyboard_is_enough(visitor: Visitor, plot: Plot) -> None:
    await visitor.sign_in("ada", "/")
    page = visitor.page
    press = page.keyboard.press

    async def focused() -> str:
        said: str = await page.evaluate("document.activeElement.innerText || document.activeElement.id")
        return said.strip()

    async def tab_to(text: str) -> None:
        for _ in range(60):
            await press("Tab")
            if await focused() == text:
                # What has the focus is seen to have it.
                style = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert style != "none"
                return
        raise AssertionError(f"{text} cannot be reached")

    await press("Tab")
    assert await focused() == "Skip to the content"
    await press("Enter")
    await tab_to("Read it all again")
    await page.goto(page.url)
    await tab_to("Log")
    await press("Enter")
    await page.wait_for_url("**/log")
    await tab_to("q")
    await page.keyboard.type("not_owned")
    await press("Enter")
    await page.wait_for_url("**/log?q=not_owned")
    first = await page.locator("#events tbody tr a").first.inner_text()
    await tab_to(first)
    await press("Enter")
    await expect(page.get_by_text("Verified to checkpoint 140.")).to_be_visible()
    await tab_to("Sign out")
    await press("Enter")
    await expect(page.get_by_text("You are signed out.")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 320)])
async def test_no_page_has_a_serious_barrier_and_none_is_wider_than_the_window(
    chromium: Browser, home: House, plot: Plot, scheme: str, width: int
) -> None:
    await home.write(*plot.hostile())
    last = (await home.stored())[-1].seq
    pages = [
        "/", "/log?result=deny&model!=x&last=7d", "/log?q=nothinglikethis", f"/event/{ACME}/130", f"/event/{ACME}/{last}",
        f"/story?id={plot.conversation}", "/tail", "/streams", "/retention", "/sessions", "/nowhere", "/sign-in",
    ]  # fmt: skip
    async with visiting(chromium, home, color_scheme=scheme, viewport={"width": width, "height": 900}) as visitor:
        visitor.allowed.append("Failed to load resource: the server responded with a status of 404")
        await visitor.sign_in("max")
        for path in (*pages, "halted"):
            if path == "halted":
                visitor.allowed.append("Failed to load resource: the server responded with a status of 503")
                await home.store.log.halt(ACME, "the log ends at event 7 and was signed to 9")
            await visitor.goto("/" if path == "halted" else path)
            await visitor.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            results = await Axe().run(visitor.page, options={"resultTypes": ["violations"]})
            found = [one for one in results.response["violations"] if one["impact"] in SERIOUS]
            assert [(path, one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
            wide = await visitor.page.evaluate("document.documentElement.scrollWidth")
            assert (path, wide) == (path, width)


async def test_a_narrow_window_keeps_times_beside_their_labels_and_a_wide_one_has_no_hole(
    visitor: Visitor, plot: Plot
) -> None:
    page = visitor.page
    await visitor.sign_in("max", "/sessions")
    await page.set_viewport_size({"width": 320, "height": 900})
    cell = page.locator(".rows-few td", has_text="Signed in").first
    label, moment = await cell.locator(".narrow-label").bounding_box(), await cell.locator("time").bounding_box()
    assert label
    assert moment
    assert moment["height"] < 30
    assert abs(label["y"] + label["height"] - moment["y"] - moment["height"]) < 5
    await page.set_viewport_size({"width": 1280, "height": 900})
    await visitor.goto("/")
    boxes = [await page.locator(f"section[aria-labelledby={name}]").bounding_box() for name in ("refused", "touched")]
    assert boxes[0]
    assert boxes[1]
    assert boxes[0]["height"] == boxes[1]["height"]


async def test_text_at_200_percent_fits(chromium: Browser, home: House, plot: Plot) -> None:
    """WCAG 2.2, 1.4.4. A window of 1,280 pixels at 200 % is one of 640."""
    async with visiting(chromium, home, viewport={"width": 640, "height": 450}, device_scale_factor=2) as visitor:
        await visitor.sign_in("max")
        for path in ("/", "/log", f"/event/{ACME}/130", f"/story?id={plot.conversation}", "/retention"):
            await visitor.goto(path)
            assert (path, await visitor.page.evaluate("document.documentElement.scrollWidth")) == (path, 640)


async def test_times_are_shown_in_the_readers_zone_if_asked_to(chromium: Browser, home: House, plot: Plot) -> None:
    async with visiting(chromium, home, timezone_id="Asia/Tokyo") as visitor:
        await visitor.sign_in("ada", f"/event/{ACME}/5")
        page = visitor.page
        time_shown = page.locator("dd time")
        utc = await time_shown.inner_text()
        await page.get_by_role("button", name="show my own").click()
        await expect(page.locator("#zone")).to_have_text("Asia/Tokyo")
        assert await time_shown.inner_text() != utc
        await page.get_by_role("button", name="show UTC").click()
        assert await time_shown.inner_text() == utc


async def test_events_that_come_in_are_timed_as_the_others_are(chromium: Browser, home: House, plot: Plot) -> None:
    async with visiting(chromium, home, timezone_id="Asia/Tokyo") as visitor:
        await visitor.sign_in("ada", "/tail?type=responses.cancel")
        page, rows = visitor.page, visitor.page.locator("#events tbody tr")
        await page.get_by_role("button", name="show my own").click()
        await expect(page.get_by_role("status")).to_contain_text("Listening")
        await home.write(*plot.request(plot.actor("x"), "responses.cancel", "/v1/responses/{id}/cancel", 0))
        await expect(rows).to_have_count(2)
        written = await rows.last.locator("time").get_attribute("datetime")
        in_tokyo = datetime.fromisoformat(str(written)) + timedelta(hours=9)
        await expect(rows.last.locator("time")).to_have_text(in_tokyo.strftime("%Y-%m-%d %H:%M:%S"))


async def test_times_are_asked_for_in_the_zone_that_they_are_shown_in(
    chromium: Browser, home: House, plot: Plot
) -> None:
    async with visiting(chromium, home, timezone_id="Asia/Tokyo") as visitor:
        await visitor.sign_in("ada", "/log?since=2026-01-01T20:00:07.5Z&until=2026-01-03T00:00:00.5Z")
        page = visitor.page
        await page.get_by_text("Narrow by a filter").click()
        since, until = page.locator("#since"), page.locator("#until")
        await expect(page.locator('label[for="since"]')).to_have_text("From (UTC)")
        assert [await since.input_value(), await until.input_value()] == ["2026-01-01T20:00:07", "2026-01-03T00:00:01"]
        await page.get_by_role("button", name="show my own").click()
        await expect(page.locator('label[for="since"]')).to_have_text("From (Asia/Tokyo)")
        assert [await since.input_value(), await until.input_value()] == ["2026-01-02T05:00:07", "2026-01-03T09:00:01"]
        await expect(page.get_by_role("list", name="Filters in use")).to_contain_text("since 2026-01-02 05:00:07")
        await until.fill("2026-01-02T09:00:05")
        await page.get_by_role("button", name="Set times").click()
        await expect(page.get_by_role("list", name="Filters in use")).to_contain_text("until 2026-01-02 09:00:05")
        asked = parse_qs(urlsplit(page.url).query)
        assert asked == {"since": ["2026-01-01T20:00:07"], "until": ["2026-01-02T00:00:05"]}
        await page.get_by_text("Narrow by a filter").click()
        assert await until.input_value() == "2026-01-02T09:00:05"


async def test_the_numbers_of_a_picture_are_in_the_readers_zone_too(chromium: Browser, home: House, plot: Plot) -> None:
    async with visiting(chromium, home, timezone_id="Asia/Tokyo") as visitor:
        await visitor.sign_in("ada", "/log")
        page = visitor.page
        await page.get_by_text("The numbers").click()
        first = page.locator(".numbers tbody tr").first.get_by_role("link")
        utc = datetime.fromisoformat(await first.inner_text())
        await page.get_by_role("button", name="show my own").click()
        await expect(first).to_have_text((utc + timedelta(hours=9)).isoformat(" "))
