"""One event: what it says, the bytes that were signed, what belongs to it, and whether it is the one that was signed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from gateway.audit.event import EventType
from gateway.audit.proof import write_proof
from gateway.audit.search.query import Field, Query
from gateway.console.desk import Page, Refusal, Refused, Visit, allowed
from gateway.console.integrity import Verdict
from gateway.console.people import rows_of, spread
from gateway.console.reading import Row
from gateway.console.text import plain
from gateway.stores.contract import StoredEvent

RELATED: Final = 8


@dataclass(frozen=True, slots=True)
class Related:
    title: str
    field: Field
    value: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    name: str
    before: str | None
    after: str | None


async def event(visit: Visit) -> Page:
    stored = await _stored(visit)
    (row,) = await rows_of(visit, (stored,))
    checked, related, around = await asyncio.gather(
        visit.desk.integrity.check(visit.tenant, visit.keys, stored), _related(visit, row), _neighbours(visit, row.seq)
    )
    return Page("event.html", {
        "row": row,
        "checked": checked,
        "proof": write_proof(stored.seq, stored.body, checked.proof, checked.note) if checked.proof_holds else "",
        "public_keys": visit.desk.integrity.public_keys(visit.tenant, visit.keys),
        "related": related,
        "changes": changed(row.changes),
        "previous": around[0],
        "following": around[1],
        "raw": stored.body.decode("utf-8", "replace"),
    }, {"record": row.seq})  # fmt: skip


async def proof(visit: Visit) -> Response:
    """The proof file of one event (docs/audit-format.md), which anybody verifies with the public key alone."""
    stored = await _stored(visit)
    checked = await visit.desk.integrity.check(visit.tenant, visit.keys, stored)
    if checked.verdict is not Verdict.MATCHES:
        raise Refused(
            Refusal.NOT_FOUND, "There is no proof of this record: no checkpoint that matches it covers it yet."
        )
    await visit.record(EventType.CONSOLE_EXPORT, allowed(), {"record": stored.seq, "what": "proof"})
    file = write_proof(stored.seq, stored.body, checked.proof, checked.note)
    return download(file.encode(), "text/plain; charset=utf-8", f"{visit.tenant}-{stored.seq}.tlog-proof")


async def key(visit: Visit) -> Response:
    """The tenant's public keys, a line each, the newest first."""
    await visit.record(EventType.CONSOLE_EXPORT, allowed(), {"what": "key"})
    lines = "".join(f"{one}\n" for one in visit.desk.integrity.public_keys(visit.tenant, visit.keys))
    return download(lines.encode(), "text/plain; charset=utf-8", f"{visit.tenant}.pub")


async def checkpoint(visit: Visit) -> Response:
    """The newest checkpoint as a signed note (https://c2sp.org/tlog-checkpoint): whoever keeps it holds an anchor."""
    finding = await visit.desk.integrity.look(visit.tenant, visit.keys)
    if finding.checkpoint is None:
        raise Refused(Refusal.NOT_FOUND, "There is no checkpoint of this log yet.")
    await visit.record(EventType.CONSOLE_EXPORT, allowed(), {"what": "checkpoint", "size": finding.size})
    return download(finding.note.encode(), "text/plain; charset=utf-8", f"{visit.tenant}-{finding.size}.checkpoint")


def download(content: bytes, media_type: str, name: str) -> Response:
    return Response(
        content, headers={"content-type": media_type, "content-disposition": f'attachment; filename="{name}"'}
    )


def changed(changes: Iterable[tuple[str, str]]) -> tuple[Changed, ...]:
    """`x_before` and `x_after` are one change; everything else is a fact of its own."""
    values = dict(changes)
    rows: dict[str, Changed] = {}
    for name, value in values.items():
        stem, _, side = name.rpartition("_")
        if stem and side in ("before", "after"):
            rows[stem] = Changed(stem, values.get(f"{stem}_before"), values.get(f"{stem}_after"))
        else:
            rows[name] = Changed(name, None, value)
    return tuple(rows.values())


async def _stored(visit: Visit) -> StoredEvent:
    """The event of the address. Another tenant's is not there, as one that never was."""
    named, text = visit.request.path_params["tenant"], visit.request.path_params["seq"]
    seq = int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else 0
    if named == visit.tenant and seq:
        for stored in await visit.desk.store.read_events(visit.tenant, seq - 1, 1):
            if stored.seq == seq:
                return stored
    raise Refused(Refusal.NOT_FOUND, "There is no such record in your log.")


async def _related(visit: Visit, row: Row) -> tuple[Related, ...]:
    wanted = [("Of the same request", Field.REQUEST, row.request_id)]
    wanted += [
        (f"On the same {plain(target.kind, 40) or 'object'}", Field.TARGET, target.id) for target in row.targets[:2]
    ]
    wanted += [("By the same person", Field.ACTOR, row.pseudonym)]

    async def find(title: str, field: Field, value: str) -> Related:
        query = await spread(visit, Query().with_filter(field, value[:256]))
        near = await visit.desk.search.search(visit.tenant, query, before_seq=row.seq + RELATED // 2 + 1, limit=RELATED)
        rows = await rows_of(visit, (one for one in near.rows if one.seq != row.seq))
        return Related(title, field, value, rows)

    found = await asyncio.gather(*(find(*one) for one in wanted if one[2]))
    return tuple(one for one in found if one.rows)


async def _neighbours(visit: Visit, seq: int) -> tuple[int | None, int | None]:
    before, after = await asyncio.gather(
        visit.desk.store.read_events_before(visit.tenant, seq, 1), visit.desk.store.read_events(visit.tenant, seq, 1)
    )
    return (before[0].seq if before else None), (after[0].seq if after else None)
