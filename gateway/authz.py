"""Who may do what: ownership first, then the policies. Pure: values in, a decision out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gateway.names import Owner, Principal, Visibility
from gateway.policy.decision import Allow, Circumstances, Decision, Deny, Resource

__all__ = ["Allow", "Circumstances", "Decision", "Deny", "Policies", "Resource", "decide", "owns"]


class Policies(Protocol):
    """Evaluates one request on one resource (None: it names no object). An evaluation error is a deny."""

    def decide(
        self, principal: Principal, action: str, resource: Resource | None, circumstances: Circumstances
    ) -> Decision: ...


class Owned(Protocol):
    """Whatever says whose an object is: a root's record, or a `Resource`."""

    @property
    def owner(self) -> Owner: ...
    @property
    def visibility(self) -> Visibility: ...


def owns(principal: Principal, resource: Owned) -> bool:
    """Whether the principal may open the object. The record comes from the principal's own tenant by construction:
    the tenant is part of every storage key and of what every record is encrypted for."""
    return resource.visibility is Visibility.TENANT or resource.owner == principal.owner


def decide(
    policies: Policies,
    principal: Principal,
    action: str,
    resources: Sequence[Resource],
    circumstances: Circumstances,
) -> Decision:
    """The decision on an action that names `resources`, all of which `owns` has passed. All or nothing."""
    allowed: list[str] = []
    for resource in dict.fromkeys(resources) or (None,):
        decision = policies.decide(principal, action, resource, circumstances)
        if isinstance(decision, Deny):
            return decision
        allowed.append(decision.policy)
    return Allow(",".join(dict.fromkeys(allowed)) if len(allowed) > 1 else allowed[0])
