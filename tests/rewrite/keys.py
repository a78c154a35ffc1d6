"""A tenant's real keys behind the rewriter's small contract."""

from __future__ import annotations

from gateway.ids import tokens
from gateway.ids.blobs import open_blob, seal_blob
from gateway.ids.form import DeploymentForm, TenantForm
from gateway.ids.keys import IdentityKeys
from gateway.names import Kind, Owner, TenantId

OWNER = Owner("https://issuer.example", "alice")


class TenantMinter:
    """`deployment` and `seed` choose other keys: another gateway, another tenant."""

    def __init__(self, deployment: str = "00112233445566aa", seed: bytes = b"a" * 32, echo: str = "") -> None:
        self.form = DeploymentForm(deployment, {1: deployment.encode().ljust(32, b".")[:32]}, 1)
        self.keys = IdentityKeys.derive(seed)
        self.tenant_form = TenantForm(self.form, {1: self.keys}, 1)
        self.tenant = TenantId("aaaaaaaaaaaaaaaa")
        self.cap = {1: seed}
        self.tokens = {self.token(echo): echo} if echo else {}

    def token(self, value: str) -> str:
        return tokens.prompt_cache_key(self.keys.token, self.tenant, value)

    def opaque(self, kind: Kind, raw: str) -> str:
        return self.tenant_form.opaque(kind, raw, "proj").text

    def inert(self, kind: Kind | None, raw: str) -> str:
        return self.tenant_form.inert(kind, raw).text

    def verify(self, text: str) -> bool:
        return self.form.verify(text) is not None

    def is_inert(self, text: str) -> bool:
        parsed = self.form.verify(text)
        return parsed is not None and self.tenant_form.is_inert(parsed)

    def seal_blob(self, text: str) -> str:
        if open_blob(self.cap, self.tenant, OWNER, text, project="p") is not None:
            return text
        return seal_blob(self.cap[1], 1, self.tenant, "p", OWNER, text, project="p")

    def restore_token(self, text: str) -> str | None:
        return self.tokens.get(text)


ALICE = TenantMinter()
BOB = TenantMinter(seed=b"b" * 32)
OUTER = TenantMinter("ffeeddccbbaa9988", b"o" * 32)
