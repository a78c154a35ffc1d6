"""Who reviews a log, and what they may do there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gateway.authn.relying_party import RelyingParty
from gateway.names import Owner, Principal, PrincipalKind, TenantId

AUTH = "oidc"


class Role(StrEnum):
    ADMIN = "admin"
    """Reads, exports, and changes sessions, streams and retention."""
    AUDITOR = "auditor"
    """Reads and exports."""


@dataclass(frozen=True, slots=True)
class Reviewer:
    tenant: TenantId
    owner: Owner
    role: Role
    tenant_label: str
    """What the provider calls the tenant; the tenant's own name is not the console's to know."""

    @property
    def principal(self) -> Principal:
        return Principal(self.tenant, self.owner, PrincipalKind.USER, AUTH)

    def may(self, needed: Role) -> bool:
        return self.role is Role.ADMIN or self.role is needed


def reviewer_of(party: RelyingParty, principal: Principal) -> Reviewer | None:
    """The reviewer that an ID token's principal is; None where none of their roles lets in."""
    names = {tenant: value for value, tenant in party.provider.tenants}
    label = names.get(principal.tenant, principal.tenant)
    for roles, role in ((party.admin_roles, Role.ADMIN), (party.auditor_roles, Role.AUDITOR)):
        if principal.roles & set(roles):
            return Reviewer(principal.tenant, principal.owner, role, label)
    return None
