"""One OpenID provider as the console sees it: what it says of itself, its tokens' endpoint, and its ID tokens.

The protocol's messages and the claims' rules are Authlib's; fetching, keys, signatures and algorithms are those of
`gateway/authn`, so an ID token is held to the same list of algorithms as an access token, and a provider's word adds none.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.base import OAuth2Error
from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError

from gateway.authn.claims import check_dates, read_principal
from gateway.authn.issuer import acceptable_url
from gateway.authn.json_object import parse_object
from gateway.authn.jwks import Jwks, KeysUnavailable
from gateway.authn.jwks_fetch import Fetcher, FetchFailed
from gateway.authn.jws import check_header, check_signature, take_apart
from gateway.authn.relying_party import RelyingParty
from gateway.names import Principal

METADATA_S: Final = 600.0
"""How long what a provider says of itself is fresh."""


class ProviderFailed(Exception):
    """The provider cannot be used now, or what it said is not acceptable. The text is for the operator, and names no value."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Of OpenID Connect Discovery 1.0 section 3 and RFC 9207 section 3."""

    authorization_endpoint: str
    token_endpoint: str
    token_auth_methods: tuple[str, ...]
    sends_issuer: bool
    """Each of its answers must name it (`iss`)."""


class Provider:
    def __init__(self, party: RelyingParty, fetcher: Fetcher, redirect_uri: str) -> None:
        self.party = party
        self._fetcher = fetcher
        self._redirect_uri = redirect_uri
        self._jwks = Jwks(party.provider, fetcher)
        self._metadata: tuple[float, Metadata] | None = None
        self._tls: ssl.SSLContext | None = None

    async def aclose(self) -> None:
        await self._jwks.aclose()

    async def metadata(self) -> Metadata:
        """Raises ProviderFailed."""
        now = time.monotonic()
        if self._metadata is None or now >= self._metadata[0]:
            self._metadata = now + METADATA_S, await self._discover()
        return self._metadata[1]

    async def authorization_url(self, state: str, nonce: str, verifier: str) -> str:
        """Where the browser goes (OpenID Connect Core 1.0 section 3.1.2.1), with PKCE by S256. Raises ProviderFailed."""
        metadata = await self.metadata()
        async with self._client(metadata) as client:
            url, _ = client.create_authorization_url(
                metadata.authorization_endpoint, state=state, code_verifier=verifier, nonce=nonce
            )
        return str(url)

    async def principal(self, code: str, verifier: str, nonce: str, now: float) -> Principal:
        """Redeems the code, and says who the ID token speaks of. Raises ProviderFailed, and `authn.verdict.Refusal` for a
        token of no use."""
        metadata, settings = await self.metadata(), self.party.provider
        try:
            async with asyncio.timeout(settings.fetch_timeout_s), self._client(metadata) as client:
                tokens = await client.fetch_token(
                    metadata.token_endpoint, grant_type="authorization_code", code=code, code_verifier=verifier
                )
        except (OAuthError, OAuth2Error, httpx2.HTTPError, TimeoutError, ValueError, OSError) as error:
            raise ProviderFailed(f"the code was not redeemed: {type(error).__name__}") from error
        id_token = tokens.get("id_token")
        if not isinstance(id_token, str):
            raise ProviderFailed("there is no ID token in its answer")
        return await self._verified(id_token.encode(), tokens, nonce, now)

    async def _verified(self, id_token: bytes, tokens: dict[str, Any], nonce: str, now: float) -> Principal:
        settings = self.party.provider
        compact = take_apart(id_token)
        model, kid = check_header(compact.header, settings.algorithms)
        try:
            check_signature(compact, model, kid, await self._jwks.find(kid))
            members = parse_object(compact.payload)
        except KeysUnavailable:
            raise ProviderFailed("its keys cannot be fetched") from None
        except ValueError:
            raise ProviderFailed("its ID token is no JSON object") from None
        claims = CodeIDToken(
            members,
            dict(compact.header),
            {
                "iss": {"essential": True, "value": settings.issuer},
                "aud": {"essential": True, "value": settings.audience},
            },
            {"nonce": nonce, "client_id": settings.audience, "access_token": tokens.get("access_token")},
        )
        try:
            claims.validate(int(now), int(settings.leeway_s))
        except (JoseError, TypeError, ValueError, AttributeError) as error:
            raise ProviderFailed(f"its ID token is not acceptable: {error}") from error
        principal = read_principal(members, settings)
        check_dates(members, settings, now)
        return principal

    def _client(self, metadata: Metadata) -> AsyncOAuth2Client:
        """Follows no redirect, and takes no proxy or password from the environment."""
        secret, methods = self.party.client_secret, metadata.token_auth_methods
        method = "none" if secret is None else "client_secret_basic"
        if secret is not None and method not in methods and "client_secret_post" in methods:
            method = "client_secret_post"
        return AsyncOAuth2Client(
            client_id=self.party.client_id,
            client_secret=secret,
            token_endpoint_auth_method=method,
            scope=" ".join(self.party.scopes),
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
            verify=self._tls,
            trust_env=False,
            follow_redirects=False,
            timeout=self.party.provider.fetch_timeout_s,
        )

    async def _discover(self) -> Metadata:
        settings = self.party.provider
        if self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        try:
            document = await self._fetcher.get(
                settings.discovery_url(),
                timeout_s=settings.fetch_timeout_s,
                allow_loopback_http=settings.allow_loopback_http,
            )
            said = parse_object(document)
        except FetchFailed as error:
            raise ProviderFailed(f"its discovery document cannot be had: {error}") from error
        except ValueError as error:
            raise ProviderFailed("its discovery document is no JSON object") from error
        if said.get("issuer") != settings.issuer:
            raise ProviderFailed("its discovery document is another issuer's")
        addresses = [said.get("authorization_endpoint"), said.get("token_endpoint")]
        for address in addresses:
            if not isinstance(address, str) or not acceptable_url(
                address, allow_loopback_http=settings.allow_loopback_http
            ):
                raise ProviderFailed("its discovery document names an address that is not acceptable")
        challenges = said.get("code_challenge_methods_supported")
        if isinstance(challenges, list) and "S256" not in challenges:
            raise ProviderFailed("it does not know PKCE by S256")
        methods = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return Metadata(
            str(addresses[0]),
            str(addresses[1]),
            tuple(map(str, methods)) if isinstance(methods, list) else (),
            said.get("authorization_response_iss_parameter_supported") is True,
        )
