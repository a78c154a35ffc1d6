"""Evaluates the policies of a folder by Cedar (https://docs.cedarpolicy.com/auth/authorization.html).

Allowed is only what a policy permits and none forbids, where nothing went wrong: Cedar skips a policy that fails to
evaluate, which would lift a prohibition, so here any such failure is a deny.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import cedarpy

from gateway.errors import Reason
from gateway.names import Principal, PrincipalKind
from gateway.policy.cache import DecisionCache
from gateway.policy.decision import Allow, Circumstances, Decision, Deny, Resource
from gateway.policy.source import ENTITY_OF_KIND, Source, read_folder

DEFAULT_CACHE_ENTRIES: Final = 16_384
_MAX_TOOLS: Final = 64
_NAME: Final = re.compile(r"[A-Za-z0-9._:/@-]{1,256}")
"""A model's name or a tool's type. A request with others, or with more tools, is denied unseen: the service knows none of
that form, and whatever is seen is also kept in the cache."""
_LARGEST: Final = 2**63 - 1
"""Cedar's `Long` (https://docs.cedarpolicy.com/policies/syntax-datatypes.html)."""

_ENTITY_OF_PRINCIPAL: Final = {PrincipalKind.USER: "User", PrincipalKind.SERVICE: "Service"}
LOG = logging.getLogger(__name__)


class PolicySet:
    """The policies in force. `decide` neither waits nor raises."""

    def __init__(
        self, folder: Path, actions: Mapping[str, tuple[str, ...]], source: Source, cache_entries: int
    ) -> None:
        self._folder = folder
        self._actions = actions
        self._source = source
        self._cache = DecisionCache(cache_entries)

    @classmethod
    def load(
        cls, folder: Path, actions: Mapping[str, tuple[str, ...]], cache_entries: int = DEFAULT_CACHE_ENTRIES
    ) -> Self:
        """The policies of `folder`, validated. Raises PolicyError with every mistake, each with its file and line."""
        return cls(folder, actions, read_folder(folder, actions), cache_entries)

    @property
    def ids(self) -> tuple[str, ...]:
        return self._source.ids

    def reload(self) -> None:
        """Takes the folder as it is now and forgets every decision. Raises PolicyError; the old policies then stay."""
        self._source = read_folder(self._folder, self._actions)
        self._cache.clear()

    def decide(
        self, principal: Principal, action: str, resource: Resource | None, circumstances: Circumstances
    ) -> Decision:
        """The decision on one object, or on none where the request names none."""
        key = (principal, action, resource, circumstances)
        decision = self._cache.get(principal.tenant, key)
        if decision is None:
            if not _within_bounds(circumstances):
                return Deny(Reason.POLICY_DENIED)
            decision, sound = self._evaluate(principal, action, resource, circumstances)
            if sound:
                self._cache.put(principal.tenant, key, decision)
        return decision

    def _evaluate(
        self, principal: Principal, action: str, resource: Resource | None, circumstances: Circumstances
    ) -> tuple[Decision, bool]:
        """The decision, and whether it was reached without a failure."""
        who, what = _principal(principal), _resource(principal, resource)
        request = {
            "principal": who["uid"], "action": {"type": "Action", "id": action}, "resource": what["uid"],
            "context": _context(circumstances),
        }  # fmt: skip
        source = self._source
        try:
            entities = cedarpy.Entities.from_json_str(json.dumps([who, what]), source.schema)
            result = cedarpy.is_authorized(request, source.policies, entities, source.schema)
            names = result.diagnostics.id_annotations_by_reason
            policy = ",".join(sorted(names[reason] for reason in result.diagnostics.reasons))
        except Exception as error:
            # Its text may quote the principal and what the client sent.
            LOG.error("policy.failed", extra={"fields": {"action": action, "reason": type(error).__name__}})
            return Deny(Reason.POLICY_DENIED), False
        if result.diagnostics.errors or result.decision is cedarpy.Decision.NoDecision:
            LOG.error("policy.failed", extra={"fields": {"action": action, "failures": len(result.diagnostics.errors)}})
            return Deny(Reason.POLICY_DENIED), False
        return (Allow(policy), True) if result.allowed else (Deny(Reason.POLICY_DENIED, policy), True)


def _within_bounds(circumstances: Circumstances) -> bool:
    names = (*circumstances.tools, circumstances.model or "-")
    return (
        len(names) <= _MAX_TOOLS + 1
        and all(map(_NAME.fullmatch, names))
        and 0 <= circumstances.max_output_tokens <= _LARGEST
    )


def _uid(entity: str, name: str) -> dict[str, str]:
    return {"type": entity, "id": name}


def _principal(principal: Principal) -> dict[str, Any]:
    return {
        "uid": _uid(_ENTITY_OF_PRINCIPAL[principal.kind], str(principal.owner)),
        "attrs": {
            "tenant": {"__entity": _uid("Tenant", principal.tenant)},
            "owner": str(principal.owner),
            "issuer": principal.owner.issuer,
            "auth": principal.auth,
            "scopes": sorted(principal.scopes),
        },
        "parents": [_uid("Role", role) for role in sorted(principal.roles)],
    }


def _resource(principal: Principal, resource: Resource | None) -> dict[str, Any]:
    """The object, a member of its tenant; or the principal's tenant itself."""
    if resource is None:
        return {"uid": _uid("Tenant", principal.tenant), "attrs": {}, "parents": []}
    return {
        "uid": _uid(ENTITY_OF_KIND[resource.kind], "-"),
        "attrs": {"owner": str(resource.owner), "visibility": resource.visibility.value},
        "parents": [_uid("Tenant", resource.tenant)],
    }


def _context(circumstances: Circumstances) -> dict[str, Any]:
    context: dict[str, Any] = {
        "tools": list(circumstances.tools),
        "stream": circumstances.stream,
        "background": circumstances.background,
        "store": circumstances.store,
        "max_output_tokens": circumstances.max_output_tokens,
    }
    if circumstances.model:
        context["model"] = circumstances.model
    if circumstances.network:
        context["network"] = {"__extn": {"fn": "ip", "arg": circumstances.network}}
    return context
