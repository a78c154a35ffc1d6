"""What a policy decides on, and what it decides. Values only; `gateway/authz.py` speaks of them too."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.errors import Reason
from gateway.names import Kind, Owner, TenantId, Visibility


@dataclass(frozen=True, slots=True)
class Resource:
    """An object that a request names, as its root's record describes it."""

    kind: Kind
    owner: Owner
    visibility: Visibility
    tenant: TenantId
    """Whose keys opened the record; never taken from the principal, so that the two can be compared."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the policies see of a request besides principal, action and resources. Nothing of what a user wrote."""

    model: str = ""
    tools: tuple[str, ...] = ()
    """Types of the tools that the request brings, at whatever depth."""
    stream: bool = False
    background: bool = False
    store: bool = True
    max_output_tokens: int = 0
    """0: the request sets no limit."""
    network: str = ""
    """The client's IP address."""


@dataclass(frozen=True, slots=True)
class Allow:
    policy: str
    """IDs of the policies that allowed it, for the audit event."""


@dataclass(frozen=True, slots=True)
class Deny:
    reason: Reason
    policy: str = ""
    """IDs of the policies that forbade it; empty where none allowed it."""


Decision = Allow | Deny
