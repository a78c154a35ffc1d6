"""What a tenant's own service may do of the admin API, on the gateway's own port: its tenant's webhooks.

The tenant comes from the key and stands in no path, so another tenant's webhook is not even looked up: it reads as one that is
not there. The key must be a service's, with the row's scope; that it and its tenant are live, the log is asked with the intent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from gateway.admin.administration import AdminEvent, Administration, Caller
from gateway.admin.desk import Desk
from gateway.admin_api.answers import UNAVAILABLE, Wire, done, problem_of
from gateway.admin_api.matching import Routes, read
from gateway.admin_api.route import Call, Row
from gateway.admin_api.table import OF_TENANT, ROWS
from gateway.audit.event import Outcome, RequestFacts, Result
from gateway.audit.persons import NETWORK, sealed
from gateway.authn.authenticate import Authentication
from gateway.authn.verdict import CredentialRefused
from gateway.errors import Problem, Reason
from gateway.names import Principal, PrincipalKind
from gateway.pipeline.evidence import actor
from gateway.stores.keyring import KeysMissing
from gateway.transport.drain import Drain
from gateway.transport.guard import HEAD, App, Head, Receive, Scope, Send
from gateway.transport.limits import Limits

PREFIX: Final = "/tenant"
_BEGINS: Final = f"{PREFIX}/".encode()
_ROUTES: Final = Routes(tuple(row for row in ROWS if row.scope), PREFIX, OF_TENANT)


@dataclass(frozen=True, slots=True)
class TenantDoor:
    """`app`, with the routes of the tenant's own beside it. Every other path is the app's."""

    app: App
    desk: Desk
    authentication: Authentication
    limits: Limits
    drain: Drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        head: Head = scope[HEAD]
        if not head.raw_path.startswith(_BEGINS) or scope["type"] != "http" or not _ROUTES.knows(head.raw_path):
            await self.app(scope, receive, send)
            return
        try:
            async with self.drain.work():
                wire = await self._answer(head, receive)
        except Problem as problem:
            wire = problem_of(problem, head)
        await wire.send(head, send)

    async def _answer(self, head: Head, receive: Receive) -> Wire:
        if b"origin" in head.by_name:
            raise Problem(Reason.ORIGIN_NOT_ALLOWED)
        row, names = _ROUTES.match(head)
        try:
            principal = await self.authentication.authenticate(head.headers, time.time())
        except CredentialRefused as refusal:
            if refusal.principal is None:
                self.desk.admin.log.count_stranger(refusal.reason, head.client)
            else:
                await _turn_away(await self._admin(refusal.principal, row, head), refusal.principal, refusal)
            raise
        admin = await self._admin(principal, row, head)
        if principal.kind is not PrincipalKind.SERVICE or not principal.credential or row.scope not in principal.scopes:
            problem = Problem(Reason.SCOPE_MISSING, row.scope or "")
            await _turn_away(admin, principal, problem)
            raise problem
        body = await read(row, receive, head, self.limits)
        return await done(row, Call(replace(self.desk, admin=admin), principal.tenant, names, body))

    async def _admin(self, principal: Principal, row: Row, head: Head) -> Administration:
        """The operator's functions, on the word of the principal. Raises Problem."""
        admin, tenant = self.desk.admin, principal.tenant
        try:
            keys = (await admin.keyring.tenant(tenant)).keys.audit
        except KeysMissing:
            raise Problem(Reason.TENANT_INACTIVE) from None
        except UNAVAILABLE:
            raise Problem(Reason.AUDIT_UNAVAILABLE, retry_after_s=1) from None
        network = sealed(keys.newest, keys.current, tenant, NETWORK, head.client) if head.client else ""
        path = PREFIX + row.path.removeprefix(OF_TENANT)
        facts = RequestFacts(head.request_id, head.method, path, network)
        return replace(admin, caller=Caller(actor(keys, principal), principal.credential, facts))


async def _turn_away(admin: Administration, principal: Principal, problem: Problem) -> None:
    """Has the refusal in the tenant's log. Raises Problem where it can't be."""
    outcome = Outcome(Result.DENY, problem.reason.value, problem.status)
    await admin.record(principal.tenant, AdminEvent.ADMIN_REFUSED, outcome=outcome)
