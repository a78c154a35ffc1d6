"""Whose token passes, and every way in which one must not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from joserfc.jwa import ESAlgorithm
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from gateway.authn.claims import read_principal
from gateway.authn.issuer import IssuerSettings
from gateway.authn.jwks import Jwks
from gateway.authn.jwks_fetch import Fetcher
from gateway.authn.jwt import JwtAuthenticator, settings_digest
from gateway.authn.token_cache import TokenCache
from gateway.authn.verdict import NotMine, Refusal, Rejected, Verdict, Why
from gateway.names import Owner, Principal, PrincipalKind
from tests.authn.provider import AUDIENCE, NOW, OTHER, TENANT, Provider, ec_key, rsa_key, running_provider, signed

EC = ec_key("ec")
RSA = rsa_key("rsa")


@dataclass
class Setup:
    provider: Provider
    authenticator: JwtAuthenticator

    async def verdict(self, token: bytes, now: float = NOW) -> Verdict:
        return await self.authenticator.authenticate(token, now)

    async def why(self, token: bytes, now: float = NOW) -> Why:
        verdict = await self.verdict(token, now)
        assert isinstance(verdict, Rejected), verdict
        return verdict.why


@asynccontextmanager
async def setup(*keys: Any, **settings: Any) -> AsyncIterator[Setup]:
    async with running_provider(*(keys or (EC, RSA))) as provider:
        made = provider.settings(**settings)
        authenticator = JwtAuthenticator([(made, Jwks(made, Fetcher()))])
        try:
            yield Setup(provider, authenticator)
        finally:
            await authenticator.aclose()


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def by_hand(key: ECKey, header: bytes, payload: bytes) -> bytes:
    """A token whose header bytes are free, with a good signature."""
    model_input = encoded(header) + b"." + encoded(payload)
    return model_input + b"." + encoded(ESAlgorithm("ES256", "P-256", 256).sign(model_input, key))


async def test_a_good_token_names_its_subject_in_the_issuers_tenant() -> None:
    async with setup() as s:
        for key in (EC, RSA):
            verdict = await s.verdict(s.provider.token(key, roles=["editor"]))
            assert verdict == Principal(
                TENANT, Owner(s.provider.issuer, "alice"), PrincipalKind.USER, "jwt", frozenset({"editor"})
            )


@pytest.mark.parametrize(("algorithm", "key"), [
    ("PS256", RSAKey.generate_key(2048, {"kid": "k"})),
    ("ES384", ECKey.generate_key("P-384", {"kid": "k"})),
    ("Ed25519", OKPKey.generate_key("Ed25519", {"kid": "k"})),
])  # fmt: skip
async def test_each_asymmetric_algorithm_passes_where_listed_and_only_there(algorithm: str, key: Any) -> None:
    async with setup(key, algorithms=(algorithm,)) as s:
        assert isinstance(await s.verdict(s.provider.token(key, {"alg": algorithm})), Principal)
    async with setup(key, algorithms=("RS256",)) as s:
        assert await s.why(s.provider.token(key, {"alg": algorithm})) is Why.ALGORITHM_NOT_ALLOWED


async def test_what_is_no_compact_token_is_left_to_the_next_authenticator() -> None:
    async with setup() as s:
        for token in (b"sk-abc", b"a.b", b"a.b.c.d.e", b"cck_x_y", b"."):
            assert isinstance(await s.verdict(token), NotMine)


async def test_a_token_without_signature_or_with_a_shared_secret_is_refused() -> None:
    async with setup() as s:
        payload = json.dumps(s.provider.claims()).encode()
        for name in (b"none", b"None", b"NONE", b"nOnE", b""):
            header = encoded(b'{"typ":"at+jwt","kid":"ec","alg":"' + name + b'"}')
            unsigned = header + b"." + encoded(payload) + b"."
            assert await s.why(unsigned) is Why.MALFORMED
            assert await s.why(unsigned + b"AAAA") is Why.ALGORITHM_NOT_ALLOWED
        public_pem = RSA.as_pem(private=False)
        header = encoded(b'{"typ":"at+jwt","kid":"rsa","alg":"HS256"}')
        signing_input = header + b"." + encoded(payload)
        forged = signing_input + b"." + encoded(hmac.new(public_pem, signing_input, hashlib.sha256).digest())
        assert await s.why(forged) is Why.ALGORITHM_NOT_ALLOWED


async def test_a_published_symmetric_key_verifies_nothing() -> None:
    secret = OctKey.generate_key(256, {"kid": "oct"})
    async with setup(EC, secret.as_dict()) as s:
        token = signed(secret, json.dumps(s.provider.claims()).encode(), {"typ": "JWT", "alg": "HS256", "kid": "oct"})
        assert await s.why(token) is Why.ALGORITHM_NOT_ALLOWED


async def test_a_key_inside_the_token_is_ignored() -> None:
    mallory = ec_key("ec")
    async with setup() as s:
        for member in (
            {"jwk": mallory.as_dict(private=False)},
            {"jku": "https://mallory.example/keys"},
            {"x5u": "https://mallory.example/cert"},
            {"x5c": ["MIIB"]},
        ):
            assert await s.why(s.provider.token(mallory, member)) is Why.SIGNATURE_WRONG
            assert isinstance(await s.verdict(s.provider.token(EC, member)), Principal)


async def test_a_critical_extension_or_an_unencoded_payload_is_refused() -> None:
    async with setup() as s:
        payload = json.dumps(s.provider.claims()).encode()
        for more in (b'"crit":["exp"],"exp":1', b'"crit":[]', b'"b64":true', b'"crit":["b64"],"b64":false'):
            header = b'{"typ":"at+jwt","alg":"ES256","kid":"ec",' + more + b"}"
            assert await s.why(by_hand(EC, header, payload)) is Why.CRITICAL_HEADER


async def test_duplicate_members_are_refused_in_header_and_payload_at_any_depth() -> None:
    async with setup() as s:
        good = json.dumps(s.provider.claims()).encode()
        header = b'{"typ":"at+jwt","alg":"ES256","kid":"ec"}'
        assert isinstance(await s.verdict(by_hand(EC, header, good)), Principal)
        assert await s.why(by_hand(EC, header[:-1] + b',"alg":"ES256"}', good)) is Why.HEADER_MALFORMED
        for more in (b',"sub":"bob"}', b',"\\u0073ub":"bob"}', b',"x":{"a":1,"a":2}}'):
            assert await s.why(by_hand(EC, header, good[:-1] + more)) is Why.MALFORMED


@pytest.mark.parametrize("payload", [b"[]", b"null", b'"x"', b"{", b"{}x", b"\xff{}", b"[" * 9000, b'{"exp":NaN}'])
async def test_a_payload_that_is_no_json_object_is_refused(payload: bytes) -> None:
    async with setup() as s:
        assert await s.why(by_hand(EC, b'{"typ":"JWT","alg":"ES256","kid":"ec"}', payload)) is Why.MALFORMED


async def test_only_the_one_spelling_of_base64url_is_taken() -> None:
    async with setup() as s:
        token = s.provider.token(EC)
        header, payload, signature = token.split(b".")
        twin = signature[:-1] + bytes([signature[-1] + 1])
        for bad in (
            token + b"=", token + b"\n", b" " + token, header + b"=." + payload + b"." + signature,
            header + b".." + signature, b".".join([header, payload, twin]), b".".join([header, payload, signature[:-2]]),
        ):  # fmt: skip
            assert await s.why(bad) in {Why.MALFORMED, Why.SIGNATURE_WRONG}


async def test_an_oversized_token_is_refused_before_it_is_read() -> None:
    async with setup() as s:
        assert await s.why(s.provider.token(EC, pad="x" * 16_384)) is Why.TOO_LARGE


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", "application/JWT"])
async def test_access_token_types_are_accepted(typ: str) -> None:
    async with setup() as s:
        assert isinstance(await s.verdict(s.provider.token(EC, {"typ": typ})), Principal)


@pytest.mark.parametrize("typ", [..., None, 1, "", "logout+jwt", "dpop+jwt", "id_token+jwt", "text/at+jwt", ["JWT"]])
async def test_a_token_made_for_another_purpose_is_refused(typ: Any) -> None:
    async with setup() as s:
        payload = json.dumps(s.provider.claims()).encode()
        header: dict[str, Any] = {"alg": "ES256", "kid": "ec"} | ({} if typ is ... else {"typ": typ})
        assert await s.why(by_hand(EC, json.dumps(header).encode(), payload)) is Why.TYPE_WRONG


async def test_an_issuer_can_be_held_to_access_tokens_proper() -> None:
    async with setup(token_types=("at+jwt",)) as s:
        assert await s.why(s.provider.token(EC, {"typ": "JWT"})) is Why.TYPE_WRONG


@pytest.mark.parametrize("change", ["/", "x", "?", "#"])
async def test_the_issuer_is_compared_exactly(change: str) -> None:
    async with setup() as s:
        assert await s.why(s.provider.token(EC, iss=s.provider.issuer + change)) is Why.ISSUER_UNKNOWN
        assert await s.why(s.provider.token(EC, iss=s.provider.issuer.upper())) is Why.ISSUER_UNKNOWN
        for other in (..., None, 1, [s.provider.issuer], {"a": 1}, ""):
            assert await s.why(s.provider.token(EC, iss=other)) is Why.ISSUER_UNKNOWN


@pytest.mark.parametrize("audience", [
    ..., None, "", 1, True, [], AUDIENCE + "/", AUDIENCE.upper(), "https://other.example", ["https://other.example"],
    {AUDIENCE: 1}, [[AUDIENCE]], [AUDIENCE, 1], f"{AUDIENCE} https://other.example", [AUDIENCE] * 33,
])  # fmt: skip
async def test_a_token_for_another_audience_is_refused(audience: Any) -> None:
    async with setup() as s:
        assert await s.why(s.provider.token(EC, aud=audience)) is Why.AUDIENCE_WRONG


async def test_a_list_of_audiences_that_holds_ours_passes() -> None:
    async with setup() as s:
        assert isinstance(await s.verdict(s.provider.token(EC, aud=["https://other.example", AUDIENCE])), Principal)


@pytest.mark.parametrize("value", [..., None, True, False, "1900000000", [1], {}, -1, 2**41, 1e300])
@pytest.mark.parametrize("claim", ["exp", "iat", "nbf"])
async def test_dates_are_finite_bounded_numbers(claim: str, value: Any) -> None:
    async with setup() as s:
        verdict = await s.verdict(s.provider.token(EC, **{claim: value}))
        if claim == "nbf" and value is ...:
            assert isinstance(verdict, Principal)
        else:
            assert verdict == Rejected(Why.CLAIM_MALFORMED)


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"Infinity", b"NaN", b"9" * 5000])
async def test_numbers_that_overflow_are_refused(number: bytes) -> None:
    async with setup() as s:
        payload = json.dumps(s.provider.claims(exp=...)).encode()[:-1] + b',"exp":' + number + b"}"
        header = b'{"typ":"JWT","alg":"ES256","kid":"ec"}'
        assert await s.why(by_hand(EC, header, payload)) in {Why.CLAIM_MALFORMED, Why.MALFORMED}


async def test_the_leeway_is_thirty_seconds_and_no_more() -> None:
    async with setup() as s:
        expired = s.provider.token(EC, exp=int(NOW) - 30)
        assert await s.why(expired) is Why.EXPIRED
        assert isinstance(await s.verdict(s.provider.token(EC, exp=int(NOW) - 29)), Principal)
        for claim in ("iat", "nbf"):
            assert await s.why(s.provider.token(EC, None, **{claim: int(NOW) + 31})) is Why.NOT_YET_VALID
            assert isinstance(await s.verdict(s.provider.token(EC, None, **{claim: int(NOW) + 30})), Principal)


async def test_a_token_from_the_future_is_refused_though_its_start_lies_in_the_past() -> None:
    async with setup() as s:
        token = s.provider.token(EC, None, iat=int(NOW) + 31, nbf=int(NOW) - 100)
        assert await s.why(token) is Why.NOT_YET_VALID


def test_claims_of_another_issuer_make_no_principal_whoever_verified_them() -> None:
    settings = IssuerSettings("https://idp.example", AUDIENCE, tenant=TENANT)
    claims: dict[str, object] = {"iss": "https://other.example", "aud": AUDIENCE, "sub": "alice"}
    with pytest.raises(Refusal, match="issuer_unknown"):
        read_principal(claims, settings)
    assert read_principal(claims | {"iss": settings.issuer}, settings).owner.subject == "alice"


async def test_an_expired_but_genuine_token_tells_whose_it_was() -> None:
    async with setup() as s:
        verdict = await s.verdict(s.provider.token(EC, exp=int(NOW) - 100, iat=int(NOW) - 200))
        assert isinstance(verdict, Rejected)
        assert verdict.principal is not None
        assert verdict.principal.owner.subject == "alice"
        stranger = await s.verdict(s.provider.token(ec_key("ec"), exp=int(NOW) - 100))
        assert stranger == Rejected(Why.SIGNATURE_WRONG)


async def test_a_token_that_lives_for_longer_than_the_setting_is_refused() -> None:
    async with setup(max_lifetime_s=3600.0) as s:
        assert await s.why(s.provider.token(EC, exp=int(NOW) + 3591)) is Why.LIFETIME_TOO_LONG
        assert isinstance(await s.verdict(s.provider.token(EC, exp=int(NOW) + 3590)), Principal)


@pytest.mark.parametrize("subject", [
    ..., None, "", " ", 7, True, ["alice"], {"a": "b"}, "a\nb", "a\u202eb", "a\u0000", "\ud800", "x" * 257, " alice",
])  # fmt: skip
async def test_a_subject_is_one_printable_name(subject: Any) -> None:
    async with setup() as s:
        assert await s.why(s.provider.token(EC, sub=subject)) is Why.CLAIM_MALFORMED


async def test_subject_and_roles_may_stand_under_other_claims() -> None:
    async with setup(subject_claim=("oid",), roles_claim=("realm_access", "roles")) as s:
        verdict = await s.verdict(s.provider.token(EC, oid="o-1", realm_access={"roles": ["a", "b"]}, roles=["admin"]))
        assert isinstance(verdict, Principal)
        assert (verdict.owner.subject, verdict.roles) == ("o-1", frozenset({"a", "b"}))


@pytest.mark.parametrize("roles", [7, True, {"admin": True}, [["admin"]], ["a", 1], ["r"] * 65, "x" * 257])
async def test_malformed_roles_are_refused_not_guessed(roles: Any) -> None:
    async with setup() as s:
        assert await s.why(s.provider.token(EC, roles=roles)) is Why.CLAIM_MALFORMED


async def test_a_lone_string_is_one_role() -> None:
    async with setup() as s:
        verdict = await s.verdict(s.provider.token(EC, roles="not admin"))
        assert isinstance(verdict, Principal)
        assert verdict.roles == frozenset({"not admin"})


@pytest.mark.parametrize("claim", [
    ..., None, "", "globex", "ACME", "acme ", ["acme"], ["acme", "globex"], {"id": "acme"}, 1, True, str(OTHER),
])  # fmt: skip
async def test_an_issuer_speaks_only_for_the_tenants_of_its_closed_list(claim: Any) -> None:
    async with setup(tenant=None, tenants=(("acme", TENANT),), tenant_claim=("org",)) as s:
        assert await s.why(s.provider.token(EC, org=claim)) is Why.TENANT_NOT_LISTED
        good = await s.verdict(s.provider.token(EC, org="acme"))
        assert isinstance(good, Principal)
        assert good.tenant == TENANT


async def test_a_fixed_tenant_holds_whatever_the_token_claims() -> None:
    async with setup() as s:
        verdict = await s.verdict(s.provider.token(EC, tenant=str(OTHER), org=str(OTHER), tid=str(OTHER)))
        assert isinstance(verdict, Principal)
        assert verdict.tenant == TENANT


async def test_one_issuers_key_cannot_sign_for_another_issuer() -> None:
    mine, theirs = ec_key("shared"), ec_key("shared")
    async with running_provider(mine) as a, running_provider(theirs) as b:
        first, second = a.settings(), b.settings(tenant=OTHER)
        authenticator = JwtAuthenticator([(first, Jwks(first, Fetcher())), (second, Jwks(second, Fetcher()))])
        forged = a.token(mine, iss=b.issuer)
        assert await authenticator.authenticate(forged, NOW) == Rejected(Why.SIGNATURE_WRONG)
        good = await authenticator.authenticate(b.token(theirs), NOW)
        assert isinstance(good, Principal)
        assert good.tenant == OTHER
        await authenticator.aclose()


async def test_a_token_bound_to_a_senders_key_is_no_bearer_token() -> None:
    async with setup() as s:
        assert await s.why(s.provider.token(EC, cnf={"jkt": "x"})) is Why.SENDER_CONSTRAINED


async def test_actors_are_listed_outermost_first_and_at_most_two_deep() -> None:
    async with setup() as s:
        chain = {"sub": "outer", "act": {"sub": "inner", "iss": "https://b.example"}}
        verdict = await s.verdict(s.provider.token(EC, act=chain))
        assert isinstance(verdict, Principal)
        assert verdict.chain == (f"{s.provider.issuer}#outer", "https://b.example#inner")
        deep = {"sub": "1", "act": {"sub": "2", "act": {"sub": "3"}}}
        assert await s.why(s.provider.token(EC, act=deep)) is Why.ACTOR_CHAIN_TOO_DEEP
        wrong: Any
        for wrong in ("x", [], {}, {"sub": 1}, {"sub": "a", "act": "b"}):
            assert await s.why(s.provider.token(EC, act=wrong)) is Why.CLAIM_MALFORMED


async def test_a_token_without_key_id_needs_an_issuer_with_one_key_that_fits() -> None:
    async with setup(EC, RSA) as s:
        assert isinstance(await s.verdict(s.provider.token(EC, {"kid": ...})), Principal)
    async with setup(EC, ec_key("second")) as s:
        assert await s.why(s.provider.token(EC, {"kid": ...})) is Why.KEY_UNKNOWN
        for kid in (1, "", ["ec"], "k" * 257):
            payload = json.dumps(s.provider.claims()).encode()
            header = json.dumps({"typ": "JWT", "alg": "ES256", "kid": kid}).encode()
            assert await s.why(by_hand(EC, header, payload)) is Why.HEADER_MALFORMED


async def test_a_verified_token_is_remembered_by_all_of_its_bytes_for_at_most_a_minute() -> None:
    async with setup() as s:
        token = s.provider.token(EC)
        first = await s.verdict(token)
        s.provider.keys = []
        assert await s.verdict(token, NOW + 59) is first
        assert await s.verdict(token, NOW + 60) is not first
        twin = token[:-4] + (b"AAAA" if token[-4:] != b"AAAA" else b"BBBA")
        assert await s.why(twin) is Why.SIGNATURE_WRONG
        other = await s.verdict(s.provider.token(EC, sub="bob"))
        assert isinstance(other, Principal)
        assert other.owner.subject == "bob"


async def test_a_remembered_token_expires_with_its_own_date() -> None:
    async with setup(leeway_s=0.0) as s:
        token = s.provider.token(EC, exp=int(NOW) + 5)
        assert isinstance(await s.verdict(token), Principal)
        assert await s.why(token, NOW + 5) is Why.EXPIRED


def test_two_tokens_with_the_same_beginning_never_share_an_entry() -> None:
    cache = TokenCache(b"s" * 32, 8)
    alice = Principal(TENANT, Owner("i", "alice"), PrincipalKind.USER, "jwt")
    shared = b"eyJhbGciOiJFUzI1NiJ9." + b"A" * 2000
    cache.put(shared + b"x", alice, NOW, NOW + 600)
    assert cache.get(shared + b"x", NOW) is alice
    for other in (shared, shared + b"y", shared + b"xx", (shared + b"x")[1:], b""):
        assert cache.get(other, NOW) is None


def test_the_cache_is_bounded_forgets_the_oldest_and_dislikes_a_clock_set_back() -> None:
    cache = TokenCache(b"s" * 32, 2)
    someone = Principal(TENANT, Owner("i", "s"), PrincipalKind.USER, "jwt")
    for token in (b"1", b"2", b"3"):
        cache.put(token, someone, NOW, NOW + 600)
    assert [cache.get(token, NOW) is someone for token in (b"1", b"2", b"3")] == [False, True, True]
    assert cache.get(b"3", NOW - 1) is None


async def test_any_change_of_the_settings_changes_the_cache_key() -> None:
    async with running_provider() as provider:
        digests = {
            settings_digest([provider.settings(**change)])
            for change in ({}, {"audience": "other"}, {"tenant": OTHER}, {"algorithms": ("ES256",)}, {"leeway_s": 1.0})
        }
        assert len(digests) == 5


async def test_a_cache_hit_costs_microseconds() -> None:
    cache = TokenCache(b"s" * 32, 8)
    token = b"t" * 900
    cache.put(token, Principal(TENANT, Owner("i", "s"), PrincipalKind.USER, "jwt"), NOW, NOW + 600)
    best = min(_timed(cache, token) for _ in range(20))
    assert best < 20e-6, f"{best * 1e6:.2f} µs"


def _timed(cache: TokenCache, token: bytes) -> float:
    started = time.perf_counter()
    for _ in range(500):
        cache.get(token, NOW)
    return (time.perf_counter() - started) / 500


async def test_settings_with_mistakes_are_not_run() -> None:
    async with running_provider() as provider:
        for change in ({"audience": ""}, {"tenant": None}, {"algorithms": ("HS256",)}, {"allow_loopback_http": False}):
            settings = provider.settings(**change)
            with pytest.raises(ValueError, match="issuer"):
                JwtAuthenticator([(settings, Jwks(settings, Fetcher()))])
        settings = provider.settings()
        with pytest.raises(ValueError, match="twice"):
            JwtAuthenticator([(settings, Jwks(settings, Fetcher()))] * 2)
