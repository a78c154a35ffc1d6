"""The same headers on every answer, and no request of another site."""

from __future__ import annotations

import pytest

from tests.console.house import ACME, House

HEADERS = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("origin-agent-cluster", "?1"),
    ("permissions-policy", "camera=(), clipboard-read=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("strict-transport-security", "max-age=31536000"),
    ("cache-control", "no-store"),
]


async def test_every_answer_has_these_headers_and_hardly_any_other(home: House) -> None:
    auditor, stranger = await home.signed_in("ada"), home.browser()
    pages = ["/", "/log", "/story", "/tail", f"/event/{ACME}/1", f"/event/{ACME}/999", "/export?format=csv", "/key",
             "/sessions", "/checkpoint", "/log?nonsense=1", "/nowhere", "/static/console.css", "/static/none",
             "/sign-in", "/sign-in/start?provider=7", "/sign-in/done?state=x"]  # fmt: skip
    answers = [await browser.get(page) for browser in (auditor, stranger) for page in pages]
    answers += [
        await stranger.post("/sign-out"),
        await auditor.post("/sessions", {"session": "others"}),
        await auditor.get("/log", sec_fetch_site="cross-site", sec_fetch_mode="cors"),
        await auditor.get("/log", host="elsewhere.example"),
        await auditor.send("PUT", "/log"),
        await auditor.post("/verify", {}),
    ]
    assert {answer.status_code for answer in answers} == {200, 303, 400, 403, 404, 405, 421}
    for answer in answers:
        pairs = [(name.decode().lower(), value.decode()) for name, value in answer.headers.raw]
        assert pairs[: len(HEADERS)] == HEADERS, answer.url
        rest = {name for name, _ in pairs[len(HEADERS) :]}
        assert rest <= {"content-type", "content-length", "transfer-encoding", "location", "set-cookie",
                        "content-disposition", "allow"}, answer.url  # fmt: skip


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": "", "origin": "https://evil.example"},
        {"sec_fetch_site": "", "origin": "null"},
        {"sec_fetch_site": ""},
    ],
)
async def test_nothing_is_changed_for_another_site(home: House, headers: dict[str, str]) -> None:
    auditor = await home.signed_in("ada")
    assert (await auditor.post("/sign-out", {}, **headers)).status_code == 403
    assert (await auditor.get("/log")).status_code == 200


async def test_what_says_twice_where_it_comes_from_is_refused(home: House) -> None:
    auditor = await home.signed_in("ada")
    cookie = ("cookie", "; ".join(f"{name}={value}" for name, value in auditor.cookies.items()))
    for sites in (("cross-site", "same-origin"), ("same-origin", "cross-site")):
        headers = [cookie, *(("sec-fetch-site", site) for site in sites)]
        assert (await home.http.post(home.origin + "/sign-out", headers=headers)).status_code == 400
    assert (await auditor.get("/log")).status_code == 200


async def test_a_browser_that_says_only_where_it_comes_from_is_believed(home: House) -> None:
    auditor = await home.signed_in("ada")
    answer = await auditor.post("/sign-out", {}, sec_fetch_site="", origin=home.origin)
    assert answer.status_code == 303


async def test_another_site_leads_here_by_a_link_and_by_nothing_else(home: House) -> None:
    auditor = await home.signed_in("ada")
    cross = {"sec_fetch_site": "cross-site"}
    assert (await auditor.get("/log", **cross)).status_code == 200
    for mode, dest in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("no-cors", "script")):
        answer = await auditor.get("/export?format=csv", **cross, sec_fetch_mode=mode, sec_fetch_dest=dest)
        assert answer.status_code == 403, mode


async def test_another_site_cannot_have_something_taken_away_in_a_persons_name(home: House) -> None:
    auditor = await home.signed_in("ada")
    before = len(await home.stored())
    for path in ("/export?format=csv", "/key", "/checkpoint", f"/event/{ACME}/1/proof", "/tail/feed?after=0"):
        for site in ("cross-site", "same-site"):
            assert (await auditor.get(path, sec_fetch_site=site)).status_code == 403, path
    assert len(await home.stored()) == before
    assert (await auditor.get("/key", sec_fetch_site="none")).status_code == 200


async def test_another_name_for_this_address_gets_no_page(home: House) -> None:
    auditor = await home.signed_in("ada")
    for host in ("evil.example", home.origin.removeprefix("http://") + ".evil.example", "127.0.0.1"):
        assert (await auditor.get("/log", host=host)).status_code == 421


async def test_a_sign_out_by_a_link_does_nothing(home: House) -> None:
    auditor = await home.signed_in("ada")
    assert (await auditor.get("/sign-out")).status_code == 404
    assert (await auditor.get("/log")).status_code == 200
