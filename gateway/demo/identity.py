"""The demo's identity provider: an OpenID provider on this machine with built-in accounts, so that the console can be tried.

It exists only here. The console knows it as it knows every provider, by a relying party's settings, and has no other way in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from joserfc import jwt
from joserfc.jwk import ECKey
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT_ID: Final = "coatcheck-console"
CODE_S: Final = 60
TOKEN_S: Final = 300

_PAGE: Final = Markup("""<!doctype html><html lang="en"><meta charset="utf-8"><title>Demo identity provider</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
body{{font:16px/1.5 system-ui,sans-serif;background:#20242b;color:#f2f0ea}}
form{{display:grid;gap:.75rem;width:min(22rem,88vw);background:#2b3039;padding:2rem;border-radius:14px;margin:12vh auto}}
h1{{font-size:1.25rem;margin:0}} p{{margin:0;color:#c9c5ba}} label{{font-weight:600;font-size:.875rem}}
input,select,button{{font:inherit;padding:.6rem .75rem;border-radius:8px;border:1px solid #8a8f99;box-sizing:border-box}}
button{{background:#6fd0b7;border:0;font-weight:600;color:#0c211c}} .bad{{color:#ff9c8f}}</style>
<form method="post" action="/authorize?{query}">
<h1>Demo identity provider</h1><p>Its accounts exist in this demo only.</p>{failed}
<label for="account">Account</label><select id="account" name="account">{options}</select>
<label for="password">Password</label><input id="password" name="password" type="password" autofocus required>
<button>Sign in</button></form></html>""")


@dataclass(frozen=True, slots=True)
class Account:
    subject: str
    organization: str
    roles: tuple[str, ...]


@dataclass(slots=True)
class Identity:
    """The provider as an ASGI app. `issuer` is where it is served."""

    issuer: str
    redirect_uri: str
    accounts: Mapping[str, Account]
    password: str
    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256", {"kid": "demo", "use": "sig"}))
    _codes: dict[str, tuple[float, Account, Mapping[str, str]]] = field(default_factory=dict)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/authorize", self._authorize, methods=["GET", "POST"]),
                Route("/token", self._token, methods=["POST"]),
                Route("/jwks", self._jwks),
            ]
        )

    async def _discovery(self, request: Request) -> Response:
        return JSONResponse({
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        })  # fmt: skip

    async def _jwks(self, request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        known = asked.get("client_id") == CLIENT_ID and asked.get("redirect_uri") == self.redirect_uri
        if not known or asked.get("response_type") != "code" or asked.get("code_challenge_method") != "S256":
            return Response("This is not a request of the demo's console.\n", 400)
        if request.method == "GET":
            return self._form(request.url.query, "")
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        account = self.accounts.get(form.get("account", ""))
        right = hmac.compare_digest(form.get("password", "").encode(), self.password.encode())
        if account is None or not right:
            return self._form(request.url.query, Markup('<p class="bad" role="alert">That is not the password.</p>'))
        code = secrets.token_urlsafe(24)
        self._codes[code] = time.monotonic() + CODE_S, account, asked
        answer = {"code": code, "state": asked.get("state", ""), "iss": self.issuer}
        return RedirectResponse(f"{self.redirect_uri}?{urlencode(answer)}", 303)

    async def _token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        until, account, asked = self._codes.pop(form.get("code", ""), (0.0, None, {}))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if account is None or time.monotonic() > until or challenge != asked.get("code_challenge"):
            return JSONResponse({"error": "invalid_grant"}, 400)
        id_token = self.sign(self.claims(account, asked.get("nonce", ""), int(time.time())))
        return JSONResponse(
            {"access_token": secrets.token_urlsafe(24), "token_type": "Bearer", "id_token": id_token},
            headers={"cache-control": "no-store"},
        )

    def claims(self, account: Account, nonce: str, now: int) -> dict[str, Any]:
        """Of an ID token (OpenID Connect Core 1.0 section 2)."""
        return {
            "iss": self.issuer, "sub": account.subject, "aud": CLIENT_ID, "iat": now, "exp": now + TOKEN_S,
            "nonce": nonce, "org": account.organization, "roles": list(account.roles),
        }  # fmt: skip

    def sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "ES256", "kid": "demo"}, claims, self.key)

    def _form(self, query: str, failed: str) -> Response:
        options = Markup().join(
            Markup('<option value="{}">{}: {} of {}</option>').format(
                name, name, ", ".join(one.roles), one.organization
            )
            for name, one in self.accounts.items()
        )
        return HTMLResponse(
            _PAGE.format(query=query, failed=failed, options=options), headers={"cache-control": "no-store"}
        )
