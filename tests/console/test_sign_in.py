"""Sign-in: what may go wrong between a browser, the console and a provider, and that it signs nobody in."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from gateway.authn.issuer import IssuerSettings
from gateway.authn.relying_party import RelyingParty
from gateway.console.session import COOKIE, Box
from gateway.console.sign_in import ATTEMPT_COOKIE, SignIn, SignInFailed, Why, own_path
from gateway.demo.identity import CLIENT_ID
from gateway.stores.fake import FakeLink
from gateway.stores.redis import SCRIPTS, RedisStore
from tests.console.house import ACME, ADAS_SUBJECT, Browser, House, query_of


async def failed(browser: Browser, url: str) -> bool:
    """Whether this answer of the provider signs nobody in."""
    answer = await browser.get(url)
    return (
        answer.status_code == 403 and COOKIE not in browser.cookies and (await browser.get("/log")).status_code == 303
    )


def changed(url: str, **query: str | None) -> str:
    pairs = dict(parse_qsl(urlsplit(url).query)) | query
    return urlsplit(url)._replace(query=urlencode({k: v for k, v in pairs.items() if v is not None})).geturl()


async def test_the_request_to_the_provider_has_all_that_protects_the_answer(home: House) -> None:
    browser = home.browser()
    first, second = [query_of((await browser.get("/sign-in/start?provider=1")).headers["location"]) for _ in range(2)]
    assert first["response_type"] == "code"
    assert first["scope"] == "openid"
    assert (first["code_challenge_method"], first["client_id"]) == ("S256", CLIENT_ID)
    assert first["redirect_uri"] == home.origin + "/sign-in/done"
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name]) >= 43
        assert first[name] != second[name]


async def test_who_signs_in_comes_to_where_they_wanted_to_go_and_is_on_record(home: House) -> None:
    browser = home.browser()
    wanted = await browser.get("/log?result=deny")
    assert wanted.headers["location"] == "/sign-in?next=/log%3Fresult%3Ddeny"
    done = await browser.get(await home.answered("ada", browser, next="/log?result=deny"))
    assert (done.status_code, done.headers["location"]) == (303, "/log?result=deny")
    [event] = await home.events()
    assert (event["type"], event["changes"], event["outcome"]["result"]) == (
        "console.sign_in",
        {"role": "auditor"},
        "allow",
    )
    assert event["actor"]["auth"] == "oidc"
    assert event["actor"]["pseudonym"]
    assert ADAS_SUBJECT not in str(event)


async def test_the_session_cookie_is_bound_to_this_host_and_out_of_scripts_reach(home: House) -> None:
    browser = home.browser()
    done = await browser.get(await home.answered("ada", browser))
    lines = {line.partition("=")[0]: line for line in done.headers.get_list("set-cookie")}
    assert lines[COOKIE].partition("; ")[2] == "HttpOnly; Path=/; SameSite=lax; Secure"
    assert "Max-Age=0" in lines[ATTEMPT_COOKIE]
    started = await browser.get("/sign-in/start?provider=1")
    assert started.headers["set-cookie"].partition("; ")[2] == "HttpOnly; Max-Age=600; Path=/; SameSite=lax; Secure"


async def test_a_session_that_was_slipped_to_the_browser_before_is_not_used_after_the_sign_in(home: House) -> None:
    attacker = await home.signed_in("max")
    victim = home.browser()
    victim.cookies[COOKIE] = attacker.cookies[COOKIE]
    await home.signed_in("ada", victim)
    assert victim.cookies[COOKIE] != attacker.cookies[COOKIE]
    assert (await attacker.get("/log")).status_code == 303
    assert (await victim.get("/log")).status_code == 200


async def test_a_cookie_of_ones_own_making_opens_nothing(home: House) -> None:
    auditor = await home.signed_in("ada")
    tenant, _, secret = auditor.cookies[COOKIE].partition(".")
    for cookie in (
        "",
        "x",
        f"{tenant}.",
        f"{tenant}.{'A' * 43}",
        f"rivalrivalrivalr.{secret}",
        f"{tenant}.{secret}x",
        secret,
    ):
        browser = home.browser()
        browser.cookies[COOKIE] = cookie
        assert (await browser.get("/log")).status_code == 303


async def test_an_answer_of_the_provider_is_redeemed_once(home: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "gateway.console")
    browser = home.browser()
    url = await home.answered("ada", browser)
    attempt = browser.cookies[ATTEMPT_COOKIE]
    assert (await browser.get(url)).status_code == 303
    again = home.browser()
    again.cookies[ATTEMPT_COOKIE] = attempt
    assert await failed(again, url)
    # Not because the provider knows the code no more: it is not asked.
    assert [vars(one)["fields"]["why"] for one in caplog.records if "fields" in vars(one)] == ["attempt_unknown"]


async def test_an_answer_signs_in_no_other_browser(home: House) -> None:
    victim, attacker = home.browser(), home.browser()
    url = await home.answered("max", attacker)
    assert await failed(victim, url)
    # Nor one that has begun a sign-in of its own.
    await victim.get("/sign-in/start?provider=1")
    assert await failed(victim, await home.answered("max", attacker))
    # And the attempt is used up.
    assert await failed(attacker, url)


@pytest.mark.parametrize(
    "change",
    [
        {"state": None},
        {"state": "A" * 43},
        {"iss": "https://other.example"},
        {"iss": None},
        {"code": None},
        {"code": "A" * 32},
        {"error": "access_denied"},
    ],
)
async def test_a_changed_answer_signs_nobody_in(home: House, change: dict[str, str | None]) -> None:
    browser = home.browser()
    assert await failed(browser, changed(await home.answered("ada", browser), **change))


async def test_an_answer_that_says_something_twice_signs_nobody_in(home: House) -> None:
    browser = home.browser()
    url = await home.answered("ada", browser)
    assert await failed(browser, url + "&" + urlencode({"iss": home.identity.issuer}))


@pytest.mark.parametrize(
    "twist",
    [
        {"iss": "https://other.example"},
        {"aud": "another-client"},
        {"aud": [CLIENT_ID, "another-client"]},  # without azp
        {"aud": [CLIENT_ID, "another-client"], "azp": "another-client"},
        {"nonce": "A" * 43},
        {"nonce": None},
        {"exp": 1},
        {"exp": None},
        {"iat": int(time.time()) + 3600},
        {"sub": None},
        {"sub": ""},
        {"sub": "ada\u202e"},
        {"org": "nowhere"},
        {"org": ["acme"]},
        {"org": None},
        {"roles": [{"name": "admin"}]},
        {"cnf": {"jkt": "x"}},
    ],
)
async def test_an_id_token_that_is_not_for_this_sign_in_signs_nobody_in(home: House, twist: dict[str, Any]) -> None:
    home.identity.twist = twist
    browser = home.browser()
    assert await failed(browser, await home.answered("ada", browser))
    assert await home.events() == []


@pytest.mark.parametrize("way", ["none", "HS256", "stranger", "unlisted"])
async def test_an_id_token_that_the_provider_did_not_sign_as_agreed_signs_nobody_in(home: House, way: str) -> None:
    key = home.identity.key

    def sign(claims: dict[str, Any]) -> str:
        match way:
            case "none":
                _head, body, _ = jwt.encode({"alg": "ES256"}, claims, key).split(".")
                return f"eyJhbGciOiJub25lIn0.{body}."
            case "HS256":
                secret = OctKey.import_key(str(key.as_dict(private=False)["x"]).encode() * 2)
                return jwt.encode({"alg": "HS256", "kid": "demo"}, claims, secret)
            case "stranger":
                return jwt.encode({"alg": "ES256", "kid": "demo"}, claims, ECKey.generate_key("P-256"))
            case _:
                return jwt.encode(
                    {"alg": "ES384", "kid": "demo"}, claims, ECKey.generate_key("P-384"), algorithms=["ES384"]
                )

    home.identity.signs = sign
    browser = home.browser()
    assert await failed(browser, await home.answered("ada", browser))


async def test_who_has_no_role_is_refused_and_their_tenant_is_told(home: House) -> None:
    browser = home.browser()
    assert await failed(browser, await home.answered("nora", browser))
    [event] = await home.events()
    assert (event["type"], event["outcome"]["reason"]) == ("console.refused", "role_missing")


async def test_who_belongs_to_no_tenant_here_is_the_operators_to_know(home: House) -> None:
    browser = home.browser()
    assert await failed(browser, await home.answered("otto", browser))
    assert await home.events() == []
    await home.log.send_sums(time.time() + 2)
    [(_, body)] = await home.store.read_operator_events("0", 10)
    assert b'"reason":"unauthenticated"' in body


async def test_a_provider_whose_name_is_another_is_not_used(home: House) -> None:
    right = home.identity.issuer
    home.identity.issuer = "https://other.example"
    answer = await home.browser().get("/sign-in/start?provider=1")
    assert answer.status_code == 403
    home.identity.issuer = right
    assert (await home.browser().get("/sign-in/start?provider=1")).status_code == 303


async def test_a_flood_of_sign_ins_does_not_fill_the_store() -> None:
    now = 1_000.0
    nobody = IssuerSettings("http://127.0.0.1:9", "console", tenant=ACME, allow_loopback_http=True)
    store = RedisStore(await FakeLink.open(SCRIPTS))
    sign_in = SignIn([RelyingParty(nobody)], store, Box(b"k" * 32), "http://127.0.0.1:1", lambda: now)

    async def why(client: str) -> Why:
        with pytest.raises(SignInFailed) as caught:
            await sign_in.begin("1", "/", client)
        return caught.value.why

    async def let_in(*clients: str) -> int:
        """How many of the attempts."""
        return [await why(client) for client in clients].count(Why.PROVIDER_FAILED)

    # One network, whichever of its addresses it asks from, leaves room for others.
    assert await let_in(*["192.0.2.1"] * 60) == 50
    assert await let_in(*(f"2001:db8::{number:x}" for number in range(60))) == 50
    assert await let_in("192.0.2.2", "2001:db8:0:1::1", "::ffff:192.0.2.9", "") == 4
    now += 1
    assert await let_in(*["192.0.2.1"] * 2) == 1
    # All together have only so much.
    now += 600
    assert await let_in(*(f"198.51.{number >> 8}.{number & 255}" for number in range(600))) == 500
    now += 1
    assert await let_in(*(f"198.51.{number >> 8}.{number & 255}" for number in range(30))) == 25
    now += 600
    assert await let_in(*(f"10.{number}.{other}.1" for number in range(10) for other in range(50))) == 500
    await sign_in.aclose()


def test_only_paths_of_the_console_are_returned_to() -> None:
    assert own_path("/log?last=7d&q=a%20b") == "/log?last=7d&q=a%20b"
    for text in ("https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil", "javascript:alert(1)", "", "log",
                 "/a\r\nset-cookie: x", "/\tevil", "/é", "/" + "a" * 5000):  # fmt: skip
        assert own_path(text) == "/", text


async def test_nobody_who_is_not_signed_in_sees_or_changes_anything(home: House) -> None:
    stranger = home.browser()
    for page in ("/", "/log", "/story", "/tail", "/tail/feed?after=0", f"/event/{ACME}/1", f"/event/{ACME}/1/proof",
                 "/export?format=csv", "/checkpoint", "/key", "/sessions"):  # fmt: skip
        answer = await stranger.get(page)
        assert (answer.status_code, answer.headers["location"].split("?")[0]) == (303, "/sign-in"), page
    for page in ("/verify", "/sessions", "/sign-out"):
        assert (await stranger.post(page, {})).headers["location"] == "/sign-in"
    assert await home.events() == []
