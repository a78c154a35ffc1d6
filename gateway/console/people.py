"""People and addresses by what they are called, though the log knows pseudonyms and seals: a name that was typed becomes what
stands in the log, and what stands there a name.

Both are keyed by the tenant's audit keys, so after a rotation one person, or one address, is in the log as two. The pages take
them for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

from gateway.audit.event import EventType
from gateway.audit.persons import NETWORK, is_pseudonym, pseudonym, pseudonyms, sealed, unsealed
from gateway.audit.search.query import Field, Filter, Query
from gateway.console.desk import Refusal, Refused, Visit
from gateway.console.reading import Row, read_all
from gateway.names import Owner
from gateway.stores.contract import StoredEvent

_API_KEYS: Final = "local"
"""The issuer of people who have an API key, unless the key names another."""
_PEOPLE: Final = (Field.ACTOR, Field.VIA)
_LOOKED_AT: Final = 5
"""Events that a name is looked for in."""
_SPARE: Final = 4
"""At most so many times as many pseudonyms as people are asked for, since after a rotation some are one person's."""


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    """The pseudonym where no event of theirs says more."""
    issuer: str
    pseudonyms: tuple[str, ...]
    """Under every version of the keys."""


async def people_of(visit: Visit, named: Iterable[str]) -> dict[str, Person]:
    """The people behind pseudonyms, as far as an event of theirs says."""

    async def find(name: str) -> tuple[str, Person]:
        # A sum of somebody's refusals is said by the gateway, which seals nobody's name in it.
        theirs = Query().with_filter(Field.ACTOR, name)
        theirs = theirs.with_filter(Field.TYPE, EventType.REFUSALS_SUMMED.value, negated=True)
        found = await visit.desk.search.search(visit.tenant, theirs, limit=_LOOKED_AT)
        for row in read_all(found.rows, visit.tenant, visit.keys):
            if row.pseudonym == name and row.name:
                every = pseudonyms(visit.keys, visit.tenant, Owner(row.issuer, row.name)) if row.issuer else ()
                return name, Person(row.name, row.issuer, every if name in every else (name,))
        return name, Person(name, "", (name,))

    return dict(await asyncio.gather(*(find(one) for one in dict.fromkeys(named))))


async def rows_of(visit: Visit, found: Iterable[StoredEvent]) -> tuple[Row, ...]:
    """Events as a page shows them, sums of refusals with the name of who was refused."""
    rows = read_all(found, visit.tenant, visit.keys)
    people = await people_of(visit, (row.pseudonym for row in rows if row.refusals and row.pseudonym))
    return tuple(
        replace(row, name=person.name, issuer=person.issuer)
        if row.refusals and (person := people.get(row.pseudonym)) and person.issuer
        else row
        for row in rows
    )


async def most_frequent(visit: Visit, query: Query, n: int) -> tuple[tuple[str, str, int], ...]:
    """The `n` people whom most of the found events are about: a pseudonym, the name and the number."""
    asked = n * min(len(visit.keys.keys), _SPARE)
    top = await visit.desk.search.top(visit.tenant, query, Field.ACTOR, asked)
    people = await people_of(visit, (name for name, _ in top))
    counted: dict[tuple[str, ...], tuple[str, str, int]] = {}
    for name, number in top:
        person = people[name]
        first, _, before = counted.get(person.pseudonyms, (name, "", 0))
        counted[person.pseudonyms] = first, person.name, before + number
    return tuple(sorted(counted.values(), key=lambda one: -one[2])[:n])


async def resolved(visit: Visit, query: Query) -> Query:
    """The query with what was typed in for people and addresses as it stands in the log. Raises Refused."""
    filters = [await _resolved(visit, one) for one in query.filters]
    return replace(query, filters=tuple(dict.fromkeys(filters)))


async def spread(visit: Visit, query: Query) -> Query:
    """The query as it is asked of the index: a person or an address under every version of the keys."""
    if len(visit.keys.keys) == 1:
        return query
    people = await people_of(visit, (one.value for one in query.filters if one.field in _PEOPLE))
    for one in query.filters:
        others: Iterable[str] = ()
        if one.field in _PEOPLE:
            others = people[one.value].pseudonyms
        elif one.field is Field.NETWORK:
            address = unsealed(visit.keys, visit.tenant, NETWORK, one.value)
            others = _seals(visit, address) if address else ()
        for other in others:
            query = query.with_filter(one.field, other, negated=one.negated)
    return query


async def called(visit: Visit, query: Query) -> Mapping[str, str]:
    """By value: what a page calls the people and addresses of a query."""
    people = await people_of(visit, (one.value for one in query.filters if one.field in _PEOPLE))
    addresses = {
        one.value: unsealed(visit.keys, visit.tenant, NETWORK, one.value) or one.value
        for one in query.filters
        if one.field is Field.NETWORK
    }
    return {name: person.name for name, person in people.items()} | addresses


async def _resolved(visit: Visit, one: Filter) -> Filter:
    if one.field is Field.NETWORK:
        try:
            return replace(one, value=_seals(visit, str(ip_address(one.value)))[0])
        except ValueError:
            return one
    if one.field not in _PEOPLE or is_pseudonym(one.value):
        return one
    return replace(one, value=await _pseudonym(visit, one.value))


async def _pseudonym(visit: Visit, typed: str) -> str:
    if "#" in typed:
        try:
            return pseudonym(visit.keys.newest, visit.tenant, Owner.parse(typed))
        except ValueError:
            raise Refused(Refusal.BAD_REQUEST, "A person is written issuer#subject.") from None
    owners = [Owner(issuer, typed) for issuer in dict.fromkeys((visit.reviewer.owner.issuer, _API_KEYS))]
    known = [owner for owner in owners if await _is_known(visit, owner)]
    if len(known) == 1:
        return pseudonym(visit.keys.newest, visit.tenant, known[0])
    said = " and ".join(map(str, known))
    text = (
        f"These are two: {said}. Write one of them." if known else "Nobody is known by that name. Write issuer#subject."
    )
    raise Refused(Refusal.BAD_REQUEST, text)


async def _is_known(visit: Visit, owner: Owner) -> bool:
    query = Query()
    for name in pseudonyms(visit.keys, visit.tenant, owner):
        query = query.with_filter(Field.ACTOR, name)
    return await visit.desk.search.count(visit.tenant, query) > 0


def _seals(visit: Visit, address: str) -> tuple[str, ...]:
    """The newest first. Equal addresses have equal seals, so that one is found without opening any event."""
    keys = visit.keys.keys
    return tuple(
        sealed(keys[version], version, visit.tenant, NETWORK, address) for version in sorted(keys, reverse=True)
    )
