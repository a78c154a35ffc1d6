"""A real identity provider on loopback: discovery and keys over HTTP, and real signatures by joserfc."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from gateway.authn.issuer import IssuerSettings
from gateway.names import TenantId

NOW = 1_800_000_000.0
TENANT = TenantId("tenantaaaaaaaaaa")
OTHER = TenantId("tenantbbbbbbbbbb")
AUDIENCE = "https://gateway.example"

SigningKey = RSAKey | ECKey | OKPKey
_REGISTRY = jws.JWSRegistry(
    algorithms=["none", "HS256", "RS256", "PS256", "ES256", "ES384", "Ed25519"], strict_check_header=False
)
_REGISTRY.max_header_length = 16_384


def rsa_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


def ec_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})


def signed(key: Any, payload: bytes, header: Mapping[str, Any]) -> bytes:
    return jws.serialize_compact(dict(header), payload, key, registry=_REGISTRY).encode()


class Provider:
    """What it publishes may be changed while it runs; `requests` counts by path."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.issuer = f"http://127.0.0.1:{port}"
        self.keys: list[Any] = []
        self.requests: dict[str, int] = {}
        self.overrides: dict[str, bytes] = {}
        """Whole HTTP answers by path."""
        self.delay_s = 0.0
        self.discovery: dict[str, object] = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}

    def settings(self, **changes: Any) -> IssuerSettings:
        fields: dict[str, Any] = {
            "issuer": self.issuer,
            "audience": AUDIENCE,
            "tenant": TENANT,
            "jwks_url": f"{self.issuer}/keys",
            "allow_loopback_http": True,
        }
        return IssuerSettings(**(fields | changes))

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Good claims with `changes`; a change to `...` leaves the claim out."""
        claims: dict[str, Any] = {
            "iss": self.issuer, "aud": AUDIENCE, "sub": "alice", "iat": int(NOW) - 10, "exp": int(NOW) + 600,
        }  # fmt: skip
        claims |= changes
        return {name: value for name, value in claims.items() if value is not ...}

    def token(self, key: SigningKey, header: Mapping[str, Any] | None = None, **claims: Any) -> bytes:
        return self.token_of(key, json.dumps(self.claims(**claims)).encode(), header)

    def token_of(self, key: SigningKey, payload: bytes, header: Mapping[str, Any] | None = None) -> bytes:
        members = {"typ": "at+jwt", "alg": key.alg, "kid": key.kid} | dict(header or {})
        return signed(key, payload, {name: value for name, value in members.items() if value is not ...})

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
            self.requests[path] = self.requests.get(path, 0) + 1
            await asyncio.sleep(self.delay_s)
            writer.write(self.overrides.get(path) or self._document(path))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _document(self, path: str) -> bytes:
        if path == "/keys":
            keys = [key if isinstance(key, dict) else key.as_dict(private=False) for key in self.keys]
            return ok(json.dumps({"keys": keys}).encode())
        if path == "/.well-known/openid-configuration":
            return ok(json.dumps(self.discovery).encode())
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"


def ok(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"content-length: " + str(len(body)).encode(), *headers, b"", body]
    return b"\r\n".join(lines)


@asynccontextmanager
async def running_provider(*keys: Any) -> AsyncIterator[Provider]:
    provider: Provider | None = None

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert provider is not None
        await provider.answer(reader, writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    provider = Provider(server.sockets[0].getsockname()[1])
    provider.keys = list(keys)
    try:
        yield provider
    finally:
        server.close()
        await server.wait_closed()
