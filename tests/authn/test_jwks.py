"""Keys of an issuer over real HTTP: discovery, rotation, floods, failures and limits."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.authn.issuer import IssuerSettings, acceptable_url, mistakes
from gateway.authn.jwks import FORCED_FETCH_INTERVAL_S, MAX_STALE_S, MAX_UNKNOWN_KIDS, Jwks, KeysUnavailable, read_keys
from gateway.authn.jwks_fetch import MAX_DOCUMENT_BYTES, Fetcher, FetchFailed
from gateway.authn.jwt import JwtAuthenticator
from gateway.authn.verdict import Rejected, Verdict, Why
from gateway.names import Principal
from tests.authn.provider import NOW, TENANT, Provider, ec_key, ok, rsa_key, running_provider


class Clock:
    """Monotonic seconds that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Gate:
    def __init__(self, provider: Provider, clock: Clock, **settings: Any) -> None:
        self.provider, self.clock = provider, clock
        self.settings = provider.settings(**settings)
        self.jwks = Jwks(self.settings, Fetcher(), clock)
        self.authenticator = JwtAuthenticator([(self.settings, self.jwks)])

    async def verdict(self, token: bytes) -> Verdict:
        return await self.authenticator.authenticate(token, NOW)

    @property
    def fetches(self) -> int:
        return self.provider.requests.get("/keys", 0)


@asynccontextmanager
async def gate(*keys: Any, **settings: Any) -> AsyncIterator[Gate]:
    async with running_provider(*keys) as provider:
        opened = Gate(provider, Clock(), **settings)
        try:
            yield opened
        finally:
            await opened.authenticator.aclose()


async def settled(opened: Gate) -> None:
    """Lets a background fetch come to its end."""
    flight = opened.jwks._flight
    if flight is not None:
        await asyncio.wait([flight])


OLD, NEW = ec_key("old"), ec_key("new")


async def test_ten_thousand_tokens_with_invented_key_ids_cost_two_fetches_and_good_tokens_still_pass() -> None:
    async with gate(OLD) as g:
        _, payload, signature = g.provider.token(OLD).split(b".")
        good = 0
        for number in range(10_000):
            forged = g.provider.token(OLD, {"kid": f"k{number}"}) if number < 50 else None
            if forged is None:
                forged = b".".join([_header(f"{secrets.token_hex(8)}"), payload, signature])
            assert isinstance(await g.verdict(forged), Rejected)
            if number % 100 == 0:
                good += isinstance(await g.verdict(g.provider.token(OLD, sub=f"user{number}")), Principal)
        assert good == 100
        assert g.fetches <= 2
        assert len(g.jwks._unknown) <= MAX_UNKNOWN_KIDS


def _header(kid: str) -> bytes:
    header = json.dumps({"typ": "JWT", "alg": "ES256", "kid": kid}).encode()
    return base64.urlsafe_b64encode(header).rstrip(b"=")


async def test_a_rotated_signing_key_is_seen_at_once_and_without_a_restart() -> None:
    async with gate(OLD) as g:
        assert isinstance(await g.verdict(g.provider.token(OLD)), Principal)
        g.provider.keys = [OLD, NEW]
        assert isinstance(await g.verdict(g.provider.token(NEW)), Principal)
        assert isinstance(await g.verdict(g.provider.token(OLD, sub="bob")), Principal)
        assert g.fetches == 2


async def test_an_unknown_key_id_forces_one_fetch_per_thirty_seconds() -> None:
    async with gate(OLD) as g:
        for step in range(5):
            for number in range(20):
                assert isinstance(await g.verdict(g.provider.token(OLD, {"kid": f"{step}-{number}"})), Rejected)
            assert g.fetches == 2 + step
            g.clock.now += FORCED_FETCH_INTERVAL_S


async def test_one_unknown_key_id_forces_no_second_fetch_within_a_minute() -> None:
    async with gate(OLD) as g:
        for _ in range(2):
            assert isinstance(await g.verdict(g.provider.token(NEW)), Rejected)
            g.clock.now += FORCED_FETCH_INTERVAL_S - 1
        g.clock.now += 1
        assert isinstance(await g.verdict(g.provider.token(NEW)), Rejected)
        assert g.fetches == 2
        g.clock.now += FORCED_FETCH_INTERVAL_S
        assert isinstance(await g.verdict(g.provider.token(NEW)), Rejected)
        assert g.fetches == 3


async def test_unknown_key_ids_are_remembered_in_bounded_number() -> None:
    async with gate(OLD) as g:
        for number in range(MAX_UNKNOWN_KIDS + 5):
            assert await g.jwks.find(f"unknown{number}") == ()
            g.clock.now += FORCED_FETCH_INTERVAL_S
        assert len(g.jwks._unknown) == MAX_UNKNOWN_KIDS


async def test_a_key_that_was_unknown_a_moment_ago_works_once_it_is_published() -> None:
    async with gate(OLD) as g:
        assert isinstance(await g.verdict(g.provider.token(NEW)), Rejected)
        g.provider.keys = [OLD, NEW]
        assert isinstance(await g.verdict(g.provider.token(NEW)), Rejected)
        g.clock.now += 60
        assert isinstance(await g.verdict(g.provider.token(NEW)), Principal)


async def test_requests_that_come_together_share_one_fetch() -> None:
    async with gate(OLD) as g:
        g.provider.delay_s = 0.05
        verdicts = await asyncio.gather(*(g.verdict(g.provider.token(OLD, sub=f"u{n}")) for n in range(50)))
        assert all(isinstance(verdict, Principal) for verdict in verdicts)
        assert g.fetches == 1


async def test_a_request_that_leaves_does_not_take_the_fetch_with_it() -> None:
    async with gate(OLD) as g:
        g.provider.delay_s = 0.05
        async with asyncio.TaskGroup() as group:
            first = group.create_task(g.verdict(g.provider.token(OLD)))
            await asyncio.sleep(0.01)
            second = group.create_task(g.verdict(g.provider.token(OLD)))
            await asyncio.sleep(0)
            first.cancel()
        assert isinstance(second.result(), Principal)
        assert g.fetches == 1


async def test_keys_are_fetched_again_ahead_of_their_time_behind_the_requests_back() -> None:
    async with gate(OLD, jwks_ttl_s=100.0) as g:
        await g.verdict(g.provider.token(OLD))
        g.clock.now += 79
        await g.verdict(g.provider.token(OLD, sub="a"))
        assert g.fetches == 1
        g.clock.now += 2
        g.provider.delay_s = 0.2
        started = asyncio.get_running_loop().time()
        assert isinstance(await g.verdict(g.provider.token(OLD, sub="b")), Principal)
        assert asyncio.get_running_loop().time() - started < 0.15
        await settled(g)
        assert g.fetches == 2


async def test_a_withdrawn_key_stops_working_after_the_time_to_live() -> None:
    async with gate(OLD, NEW, jwks_ttl_s=100.0) as g:
        assert isinstance(await g.verdict(g.provider.token(OLD)), Principal)
        g.provider.keys = [NEW]
        g.clock.now += 100
        assert await g.verdict(g.provider.token(OLD, sub="bob")) == Rejected(Why.KEY_UNKNOWN)


async def test_keys_outlive_an_outage_of_the_provider_by_an_hour_and_no_longer() -> None:
    async with gate(OLD) as g:
        assert isinstance(await g.verdict(g.provider.token(OLD)), Principal)
        g.provider.overrides["/keys"] = b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"
        for _ in range(6):
            g.clock.now += MAX_STALE_S / 6 - 1
            assert isinstance(await g.verdict(g.provider.token(OLD, sub=secrets.token_hex(4))), Principal)
            await settled(g)
        g.clock.now += 7
        assert await g.verdict(g.provider.token(OLD, sub="late")) == Rejected(Why.ISSUER_KEYS_UNAVAILABLE)
        del g.provider.overrides["/keys"]
        g.clock.now += 6
        assert isinstance(await g.verdict(g.provider.token(OLD, sub="late")), Principal)


async def test_an_outage_is_not_hammered() -> None:
    async with gate(OLD) as g:
        g.provider.overrides["/keys"] = b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"
        for number in range(200):
            assert await g.verdict(g.provider.token(OLD, sub=str(number))) == Rejected(Why.ISSUER_KEYS_UNAVAILABLE)
        assert g.fetches == 1
        with pytest.raises(KeysUnavailable):
            await g.jwks.find("old")


async def test_discovery_leads_to_the_keys_and_must_name_the_issuer() -> None:
    async with gate(OLD, jwks_url=None) as g:
        assert isinstance(await g.verdict(g.provider.token(OLD)), Principal)
        assert g.provider.requests == {"/.well-known/openid-configuration": 1, "/keys": 1}
    for wrong in ({"issuer": "http://127.0.0.1:1"}, {"jwks_uri": None}, {"jwks_uri": ["x"]}, {"issuer": None}):
        async with gate(OLD, jwks_url=None) as g:
            g.provider.discovery |= wrong
            assert await g.verdict(g.provider.token(OLD)) == Rejected(Why.ISSUER_KEYS_UNAVAILABLE)
            assert g.fetches == 0


@pytest.mark.parametrize("answer", [
    b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}",
    b"not http at all\r\n\r\n",
    ok(b"[]"), ok(b'{"keys": {}}'), ok(b'{"keys": []'), ok(b'{"keys": [], "keys": []}'), ok(b"{}"),
    ok(b'{"keys": []}', b"content-encoding: gzip"),
    ok(b'{"keys": [' + b'{"kty":"EC"},' * 64 + b'{"kty":"EC"}]}'),
    ok(b'{"keys": []}' + b" " * MAX_DOCUMENT_BYTES),
    b"HTTP/1.1 200 OK\r\nx: " + b"y" * 40_000 + b"\r\n\r\n{}",
])  # fmt: skip
async def test_what_is_no_key_set_within_the_limits_counts_as_an_outage(answer: bytes) -> None:
    async with gate(OLD) as g:
        g.provider.overrides["/keys"] = answer
        assert await g.verdict(g.provider.token(OLD)) == Rejected(Why.ISSUER_KEYS_UNAVAILABLE)


async def test_a_provider_that_hangs_is_given_up_in_time() -> None:
    async with gate(OLD, fetch_timeout_s=0.05) as g:
        g.provider.delay_s = 0.5
        started = asyncio.get_running_loop().time()
        assert await g.verdict(g.provider.token(OLD)) == Rejected(Why.ISSUER_KEYS_UNAVAILABLE)
        assert asyncio.get_running_loop().time() - started < 0.4


async def test_a_redirect_is_not_followed() -> None:
    async with running_provider(OLD) as provider:
        location = f"location: {provider.issuer}/keys".encode()
        provider.overrides["/moved"] = b"HTTP/1.1 301 Moved\r\n" + location + b"\r\ncontent-length: 0\r\n\r\n"
        with pytest.raises(FetchFailed, match="301"):
            await Fetcher().get(f"{provider.issuer}/moved", timeout_s=1, allow_loopback_http=True)
        assert "/keys" not in provider.requests


async def test_plain_http_is_refused_without_the_setting_before_a_byte_is_sent() -> None:
    async with running_provider(OLD) as provider:
        with pytest.raises(FetchFailed, match="address"):
            await Fetcher().get(f"{provider.issuer}/keys", timeout_s=1, allow_loopback_http=False)
        assert provider.requests == {}


async def test_a_server_without_a_good_certificate_is_no_provider() -> None:
    async with running_provider(OLD) as provider:
        with pytest.raises(FetchFailed):
            await Fetcher().get(f"https://127.0.0.1:{provider.port}/keys", timeout_s=0.2, allow_loopback_http=True)


@pytest.mark.parametrize(("url", "good"), [
    ("https://idp.example/keys", True), ("https://idp.example:8443/k?x=1", True), ("http://idp.example/", False),
    ("http://127.0.0.1:80/", True), ("http://localhost/", True), ("http://[::1]:8/", True),
    ("http://127.0.0.1.mallory.example/", False), ("http://localhost@mallory.example/", False),
    ("https://user:pass@idp.example/", False), ("https://idp.example/#x", False), ("https:///keys", False),
    ("ftp://idp.example/", False), ("file:///etc/passwd", False), ("https://idp.example:99999/", False),
    ("https://idp.example/a b", False), ("https://idp.example/\r\nx", False), ("", False), ("https://idp.exämple/", False),
])  # fmt: skip
def test_keys_come_over_https_or_from_loopback_by_setting(url: str, good: bool) -> None:
    assert acceptable_url(url, allow_loopback_http=True) is good
    if url.startswith("http:"):
        assert not acceptable_url(url, allow_loopback_http=False)


def test_keys_that_cannot_verify_are_passed_over() -> None:
    good = ec_key("good").as_dict(private=False)
    weak = {**rsa_key("weak").as_dict(private=False), "n": "w" + "A" * 170}
    listed = [
        good,
        {**good, "kid": "enc", "use": "enc"},
        {**good, "kid": "ops", "key_ops": ["sign"], "use": "sig"},
        {**good, "kid": "broken", "x": "AAAA"},
        {**good, "kid": "crv", "crv": "P-999"},
        ec_key("private").as_dict(private=True),
        {"kty": "oct", "kid": "oct", "k": "AAAA"},
        {"kty": "XYZ", "kid": "xyz"},
        {"kid": "nothing"},
        {**good, "kid": 7},
        weak,
        "text",
        None,
    ]
    assert set(read_keys(json.dumps({"keys": listed}).encode())) == {None, "good"}


def test_every_mistake_in_an_issuers_settings_is_named() -> None:
    good = IssuerSettings("https://idp.example", "aud", tenant=TENANT)
    assert list(mistakes(good)) == []
    bad = IssuerSettings(
        "http://idp.example?x#y", "", algorithms=("HS256", "none"), token_types=("JWT",), subject_claim=(),
        roles_claim=("",), leeway_s=1e9, jwks_ttl_s=601, fetch_timeout_s=float("nan"), max_lifetime_s=-1,
        jwks_url="http://x/", tenants=(("a", TENANT), ("a", TENANT)), tenant=TENANT,
    )  # fmt: skip
    named = [mistake.partition(":")[0] for mistake in mistakes(bad)]
    assert named == [
        "issuer", "audience", "tenant", "tenant_claim", "tenants", "jwks_url", "algorithms", "token_types",
        "subject_claim", "roles_claim", "leeway_s", "max_lifetime_s", "jwks_ttl_s", "fetch_timeout_s",
    ]  # fmt: skip
