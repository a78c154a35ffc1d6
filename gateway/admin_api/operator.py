"""The admin API: the operator's credential, then the table. Nobody learns without it which routes there are.

It is for programs. A browser's request says where it comes from (`Origin`, Fetch Metadata) and is refused for it, so that no page
can use it, by a name of its own that leads here (DNS rebinding) or otherwise.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.admin.administration import AdminRefused, Caller
from gateway.admin.desk import Desk
from gateway.admin.tenants import find_tenant
from gateway.admin_api.answers import UNAVAILABLE, Wire, done, failed, problem_of, refusal, unavailable
from gateway.admin_api.matching import Routes, read
from gateway.admin_api.route import Call
from gateway.admin_api.table import ROWS
from gateway.audit.event import Actor, RequestFacts
from gateway.authn.bearer import bearer_token
from gateway.authn.verdict import CredentialRefused
from gateway.errors import Problem, Reason
from gateway.names import TenantId
from gateway.transport.guard import HEAD, Head, Receive, Scope, Send
from gateway.transport.limits import Limits

LOG = logging.getLogger(__name__)

OPERATOR: Final = Actor("operator", auth="admin_api")
UNAUTHENTICATED: Final = "admin_unauthenticated"
"""What the operator's log counts, with the networks that it came from."""
_ROUTES: Final = Routes(ROWS)
_BROWSERS: Final = frozenset({b"origin", b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site"})


@dataclass(frozen=True, slots=True)
class AdminApi:
    desk: Desk
    token: str = field(repr=False)
    limits: Limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head: Head = scope[HEAD]
        try:
            wire = await self._answer(head, receive)
        except Problem as problem:
            wire = problem_of(problem, head)
        await wire.send(head, send)

    async def _answer(self, head: Head, receive: Receive) -> Wire:
        if not _BROWSERS.isdisjoint(head.by_name):
            raise Problem(Reason.ORIGIN_NOT_ALLOWED)
        if not self._is_operator(head):
            self.desk.admin.log.count_stranger(UNAUTHENTICATED, head.client)
            wire = failed(401, "The admin credential is missing or wrong.", "invalid_credential")
            return replace(wire, headers=((b"www-authenticate", b"Bearer"),))
        row, names = _ROUTES.match(head)
        body = await read(row, receive, head, self.limits)
        facts = RequestFacts(head.request_id, head.method, row.path)
        desk = replace(self.desk, admin=replace(self.desk.admin, caller=Caller(OPERATOR, request=facts)))
        try:
            tenant = await find_tenant(desk.admin, names["tenant"]) if "tenant" in names else TenantId("")
        except AdminRefused as refused:
            return refusal(refused)
        except UNAVAILABLE:
            return unavailable()
        wire = await done(row, Call(desk, tenant, names, body))
        LOG.info("admin.answered", extra={"fields": {"route": f"{row.method} {row.path}", "status": wire.status}})
        return wire

    def _is_operator(self, head: Head) -> bool:
        """Compared by hashes in constant time, so that neither a prefix nor the length can be found out."""
        try:
            given = bearer_token(head.headers)
        except CredentialRefused:
            return False
        return hmac.compare_digest(hashlib.sha256(given).digest(), hashlib.sha256(self.token.encode()).digest())
