"""What the audit log is told of a request: who, what, on which opaque IDs, with what outcome. Never a raw ID, a prompt or a
credential; a person stands in it as a pseudonym and, sealed under the tenant's audit key, by name.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from gateway.audit.event import Actor, Change, Event, Outcome, Phase, RequestFacts, Result, Target
from gateway.audit.persons import NETWORK, digest, person, sealed
from gateway.clock import now_us
from gateway.errors import Problem, Reason
from gateway.ids.keys import AuditKeys, Versions
from gateway.names import Principal, TenantId
from gateway.pipeline.exchange import Exchange

_LONGEST_AGENT: Final = 512
"""Bytes."""

_NOTHING: Final[Mapping[str, Change]] = MappingProxyType({})

UNROUTED: Final = "request.unrouted"
"""The type of a refusal of something that is no route."""

_FAILED: Final = frozenset(
    {
        Reason.CLIENT_CLOSED,
        Reason.EGRESS_BLOCKED,
        Reason.IDS_RETIRED,
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
    changes = {"line": problem.line} if problem.line else {}
    if exchange.begun is None:
        return _event(exchange, Phase.SINGLE, ending, _named(exchange), changes)
    return _event(exchange, Phase.OUTCOME, ending, _made(exchange), changes)


def lines(exchange: Exchange, asked: Iterable[Exchange]) -> Event:
    """Lines of the file that the request brings are about to be decided: what they name."""
    targets = tuple(dict.fromkeys(target for one in asked for target in _named(one)))
    return _event(exchange, Phase.OUTCOME, Outcome(Result.ACCEPTED, "lines"), targets)


def has_failed(problem: Problem) -> bool:
    """Whether it says that something went wrong, and not that something was refused."""
    return problem.reason in _FAILED


def actor(keys: Versions[AuditKeys], principal: Principal) -> Actor:
    """The principal as the tenant's log shows it."""
    return _actor(keys.newest, keys.current, principal)


@lru_cache(maxsize=4096)
def _actor(keys: AuditKeys, version: int, principal: Principal) -> Actor:
    return person(keys, version, principal)


@lru_cache(maxsize=8192)
def _network(keys: AuditKeys, version: int, tenant: TenantId, network: str) -> str:
    return sealed(keys, version, tenant, NETWORK, network)


@lru_cache(maxsize=8192)
def _agent(keys: AuditKeys, tenant: TenantId, agent: bytes) -> str:
    return digest(keys, "agent", tenant, agent)


def brief(agent: bytes) -> bytes:
    """`agent`, or what stands for it where it is longer than any client's: it is kept among thousands of others."""
    return agent if len(agent) <= _LONGEST_AGENT else hashlib.sha256(agent).digest()


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
        if shown in exchange.passing:
            continue
        if reference.parsed is None and mapper.verify(shown) is None:
            shown = f"?{digest(mapper.keys.audit.newest, 'stranger', shown)}"
        named[reference.kind, shown] = None
    return tuple([Target(kind, shown) for kind, shown in named])


def _made(exchange: Exchange) -> tuple[Target, ...]:
    return tuple([Target(kind, text) for kind, text in (*exchange.made, *exchange.listed)])


def _event(
    exchange: Exchange,
    phase: Phase,
    ending: Outcome | None,
    targets: tuple[Target, ...],
    changes: Mapping[str, Change] = _NOTHING,
) -> Event:
    head, route = exchange.head, exchange.route
    who, network, agent = exchange.shown or _shown(exchange)
    spent = asyncio.get_running_loop().time() - exchange.started
    length = head.by_name.get(b"content-length")
    if ending and exchange.collected.dropped:
        changes = {**changes, "dropped_ids": exchange.collected.dropped}
    if ending and exchange.ending:
        changes = {**changes, **exchange.ending}
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
        ts_us=now_us(),
        type=route.action if route else UNROUTED,
        phase=phase,
        actor=who,
        request=request,
        outcome=ending,
        targets=targets,
        changes=changes,
    )
