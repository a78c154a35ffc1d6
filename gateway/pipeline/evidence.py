"""What the audit log is told of a request: who, what, on which opaque IDs, with what outcome. Never a raw ID, a prompt or a
credential; a person stands in it as a pseudonym and, sealed under the tenant's audit key, by name.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import time
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

from gateway.audit.event import Actor, Event, Outcome, Phase, RequestFacts, Result, Target
from gateway.errors import Problem, Reason
from gateway.ids.encoding import lp
from gateway.ids.keys import NONCE_BYTES, AuditKeys, Versions
from gateway.names import Owner, Principal, TenantId
from gateway.pipeline.exchange import Exchange

_LONGEST_AGENT: Final = 512
"""Bytes."""

UNROUTED: Final = "request.unrouted"
"""The type of a refusal of something that is no route."""

_FAILED: Final = frozenset(
    {
        Reason.CLIENT_CLOSED,
        Reason.EGRESS_BLOCKED,
        Reason.INTERNAL,
        Reason.MAPPING_CONFLICT,
        Reason.MAPPING_UNAVAILABLE,
        Reason.SERVER_DRAINING,
        Reason.UPSTREAM_BAD_ANSWER,
        Reason.UPSTREAM_ERROR,
        Reason.UPSTREAM_TIMEOUT,
        Reason.UPSTREAM_UNAVAILABLE,
    }
)
"""Reasons that say that something went wrong; every other one is a refusal."""


def intent(exchange: Exchange) -> Event:
    """Before anything is done."""
    return _event(exchange, Phase.INTENT, None, _named(exchange))


def accepted(exchange: Exchange, status: int) -> Event:
    """The answer has begun; its objects are recorded, another outcome follows."""
    return _event(exchange, Phase.OUTCOME, Outcome(Result.ACCEPTED, "", status, exchange.policy), _made(exchange))


def detached(exchange: Exchange) -> Event:
    """The client left its stream and the job runs on; another outcome follows at its end."""
    return _event(exchange, Phase.OUTCOME, Outcome(Result.ACCEPTED, "detached", 200, exchange.policy), _made(exchange))


def outcome(exchange: Exchange, status: int) -> Event:
    """Done, and about to be told."""
    return _event(exchange, Phase.OUTCOME, Outcome(Result.ALLOW, "", status, exchange.policy), _made(exchange))


def failure(exchange: Exchange, problem: Problem) -> Event:
    """Refused or failed: the outcome of an intent, or an event of its own where there was none."""
    result = Result.ERROR if has_failed(problem) else Result.DENY
    ending = Outcome(result, problem.reason.value, problem.status, exchange.policy)
    if exchange.begun is None:
        return _event(exchange, Phase.SINGLE, ending, _named(exchange))
    return _event(exchange, Phase.OUTCOME, ending, _made(exchange))


def has_failed(problem: Problem) -> bool:
    """Whether it says that something went wrong, and not that something was refused."""
    return problem.reason in _FAILED


def actor(keys: Versions[AuditKeys], principal: Principal) -> Actor:
    """The principal as the tenant's log shows it."""
    return _actor(keys.newest, keys.current, principal)


def sealed(keys: AuditKeys, version: int, tenant: TenantId, what: str, text: str) -> str:
    """`text` for the tenant's auditors: the same each time, so that equal values can be told without opening them."""
    nonce = hmac.digest(keys.seal, lp("nonce", tenant, what, text), "sha256")[:NONCE_BYTES]
    box = AESGCMSIV(keys.seal).encrypt(nonce, text.encode("utf-8", "surrogatepass"), lp("audit field", tenant, what))
    return f"{version}.{base64.urlsafe_b64encode(nonce + box).decode().rstrip('=')}"


@lru_cache(maxsize=4096)
def _actor(keys: AuditKeys, version: int, principal: Principal) -> Actor:
    tenant, owner = principal.tenant, principal.owner
    return Actor(
        kind=principal.kind.value,
        pseudonym=_pseudonym(keys, tenant, owner),
        issuer=owner.issuer,
        auth=principal.auth,
        sealed=sealed(keys, version, tenant, "subject", owner.subject),
        chain=tuple(_pseudonym(keys, tenant, Owner.parse(link)) for link in principal.chain if "#" in link),
    )


def _pseudonym(keys: AuditKeys, tenant: TenantId, owner: Owner) -> str:
    return _digest(keys, "actor", tenant, owner.issuer, owner.subject)


@lru_cache(maxsize=8192)
def _network(keys: AuditKeys, version: int, tenant: TenantId, network: str) -> str:
    return sealed(keys, version, tenant, "network", network)


@lru_cache(maxsize=8192)
def _agent(keys: AuditKeys, tenant: TenantId, agent: bytes) -> str:
    return _digest(keys, "agent", tenant, agent)


def brief(agent: bytes) -> bytes:
    """`agent`, or what stands for it where it is longer than any client's: it is kept among thousands of others."""
    return agent if len(agent) <= _LONGEST_AGENT else hashlib.sha256(agent).digest()


def _digest(keys: AuditKeys, *parts: str | bytes) -> str:
    return hmac.digest(keys.aud, lp(*parts), "sha256")[:12].hex()


def _shown(exchange: Exchange) -> tuple[Actor, str, str]:
    """Actor, network and agent as the log shows them: the same in all events of a request."""
    principal, keys, head = exchange.known_principal, exchange.known_mapper.keys.audit, exchange.head
    agent = head.by_name.get(b"user-agent")
    exchange.shown = (
        actor(keys, principal),
        _network(keys.newest, keys.current, principal.tenant, head.client) if head.client else "",
        _agent(keys.newest, principal.tenant, brief(agent)) if agent else "",
    )
    return exchange.shown


def _named(exchange: Exchange) -> tuple[Target, ...]:
    """What the request names. What is no opaque ID of ours may be anything, a raw ID too, so only its digest is kept."""
    mapper = exchange.known_mapper
    named: dict[tuple[str, str], None] = {}
    for reference in exchange.collected.references:
        shown = reference.text
        if reference.parsed is None and mapper.verify(shown) is None:
            shown = f"?{_digest(mapper.keys.audit.newest, 'stranger', shown)}"
        named[reference.kind, shown] = None
    return tuple([Target(kind, shown) for kind, shown in named])


def _made(exchange: Exchange) -> tuple[Target, ...]:
    return tuple([Target(kind, text) for kind, text in exchange.made])


def _event(exchange: Exchange, phase: Phase, ending: Outcome | None, targets: tuple[Target, ...]) -> Event:
    head, route = exchange.head, exchange.route
    who, network, agent = exchange.shown or _shown(exchange)
    spent = asyncio.get_running_loop().time() - exchange.started
    length = head.by_name.get(b"content-length")
    request = RequestFacts(
        id=head.request_id,
        method=head.method if route else "",
        route=route.path if route else "",
        network=network,
        agent=agent,
        bytes_in=int(length) if length else None,
        bytes_out=exchange.bytes_out if ending else None,
        duration_us=round(spent * 1e6) if ending else None,
        stream=exchange.streaming or None,
        model=exchange.model,
    )
    return Event(
        tenant=exchange.known_principal.tenant,
        ts_us=time.time_ns() // 1000,
        type=route.action if route else UNROUTED,
        phase=phase,
        actor=who,
        request=request,
        outcome=ending,
        targets=targets,
        changes={"dropped_ids": exchange.collected.dropped} if exchange.collected.dropped and ending else {},
    )
