"""A tenant's keys at work on one answer: what `rewrite` asks for while it replaces IDs."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.ids.blobs import Scope, seal_blob
from gateway.mapping import Mapper
from gateway.names import Kind, Owner, Visibility


class Minting:
    """Implements `rewrite.id_table.Minter`. `tokens`: hashed token → what the client wrote for it in this request."""

    def __init__(self, mapper: Mapper, owner: Owner, visibility: Visibility, tokens: Mapping[str, str]) -> None:
        self._mapper = mapper
        self._owner = owner
        self._scope = visibility
        self._tokens = tokens

    def opaque(self, kind: Kind, raw: str) -> str:
        return self._mapper.to_opaque(kind, raw).text

    def inert(self, kind: Kind | None, raw: str) -> str:
        return self._mapper.form.inert(kind, raw).text

    def verify(self, text: str) -> bool:
        return self._mapper.verify(text) is not None

    def seal_blob(self, text: str) -> str:
        keys = self._mapper.keys
        if self._mapper.open_blob(self._owner, text) is not None:
            return text
        scope: Scope = "t" if self._scope is Visibility.TENANT else "p"
        version = keys.storage.current
        cap, project = keys.storage.newest.cap, self._mapper.project
        return seal_blob(cap, version, keys.tenant, scope, self._owner, text, project=project)

    def restore_token(self, text: str) -> str | None:
        return self._tokens.get(text)
