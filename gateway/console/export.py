"""The current filter as a file: a zip, written while it is read.

As JSONL or CSV it is for reading: the events, a manifest and the newest checkpoint. As evidence it is what `audit export` writes,
for whoever wants it proven: with the tenant's public key, and without the gateway.
"""

from __future__ import annotations

import csv
import io
import time
import zipfile
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack
from typing import Final

import orjson
from starlette.responses import Response

from gateway.audit.event import EventType
from gateway.audit.search.query import Query, write_moment
from gateway.clock import now_us
from gateway.console.desk import Refusal, Refused, Visit, allowed
from gateway.console.evidence import evidence
from gateway.console.integrity import Finding
from gateway.console.people import resolved, spread
from gateway.console.reading import Row, read
from gateway.console.seats import Seated
from gateway.console.sending import Pieces, ensure_session
from gateway.stores.contract import StoredEvent

AT_ONCE: Final = 500
EVIDENCE: Final = "evidence"
FORMATS: Final = ("jsonl", "csv", EVIDENCE)
COLUMNS: Final = (
    "seq", "time", "action", "result", "reason", "status", "policy", "person", "pseudonym", "kind", "issuer",
    "credential", "request", "method", "route", "model", "network", "targets", "changes",
)  # fmt: skip
_DANGEROUS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A spreadsheet takes a cell that begins so for a formula (https://owasp.org/www-community/attacks/CSV_Injection)."""


async def export(visit: Visit) -> Response:
    pairs = visit.query()
    formats = [value for name, value in pairs if name == "format"]
    if len(formats) != 1 or formats[0] not in FORMATS:
        raise Refused(Refusal.BAD_REQUEST, "An export is jsonl, csv or evidence.")
    asked = Query.parse([(name, value) for name, value in pairs if name != "format"]).at(now_us())
    query = await spread(visit, await resolved(visit, asked))
    if visit.desk.exports.are_full(visit.session):
        raise Refused(Refusal.TOO_MANY, "Too many exports are on their way. Wait until one has ended.")
    with ExitStack() as held:
        held.enter_context(visit.desk.exports.taken(visit.session))
        finding = await visit.desk.integrity.look(visit.tenant, visit.keys)
        await visit.record(EventType.CONSOLE_EXPORT, allowed(), {"what": formats[0]})
        name = f"coatcheck-{visit.tenant}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.zip"
        headers = {"content-type": "application/zip", "content-disposition": f'attachment; filename="{name}"'}
        content = evidence(visit, query) if formats[0] == EVIDENCE else _zipped(visit, query, formats[0], finding)
        return Seated(held.pop_all(), content, headers)


async def events(visit: Visit, query: Query) -> AsyncIterator[StoredEvent]:
    """All that the query finds up to this moment, oldest first. Raises SessionOver."""
    after, upto = 0, None
    while True:
        await ensure_session(visit)
        page = await visit.desk.search.search(visit.tenant, query, after_seq=after, limit=AT_ONCE)
        upto = page.upto_seq + page.behind if upto is None else upto
        for stored in reversed(page.rows):
            if stored.seq > upto:
                return
            yield stored
        if page.newer is None:
            return
        after = page.newer


async def _zipped(visit: Visit, query: Query, form: str, finding: Finding) -> AsyncIterator[bytes]:
    sink = Pieces()
    number, first, last = 0, 0, 0
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open(f"events.{form}", "w", force_zip64=True) as file:
            if form == "csv":
                file.write(csv_lines([COLUMNS]))
            async for stored in events(visit, query):
                number, first, last = number + 1, first or stored.seq, stored.seq
                file.write(_line(visit, form, stored))
                if len(sink.waiting) >= 1 << 16:
                    yield sink.take()
        manifest = {
            "format": "coatcheck-console-export/1",
            "tenant": visit.tenant,
            "made": write_moment(now_us()),
            "query": [list(pair) for pair in query.items()],
            "events": number,
            "first": first,
            "last": last,
            "log": finding.state.value,
            "checkpoint_size": finding.size,
            "log_read": write_moment(int(finding.at_s) * 1_000_000),
        }
        archive.writestr(
            "manifest.json", orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        )
        if finding.note:
            archive.writestr("checkpoint", finding.note)
    yield sink.take()


def _line(visit: Visit, form: str, stored: StoredEvent) -> bytes:
    if form == "jsonl":
        return b'{"seq":%d,"event":%b}\n' % (stored.seq, _json(stored.body))
    return csv_lines([cells(read(stored, visit.tenant, visit.keys))])


def _json(body: bytes) -> bytes:
    """The stored bytes as they are; what is no JSON, as a text."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return orjson.dumps(body.decode("utf-8", "replace"))
    return body.replace(b"\n", b" ").replace(b"\r", b" ")


def cells(row: Row) -> tuple[str, ...]:
    """A row of the table, in the order of `COLUMNS`."""
    return (
        str(row.seq),
        row.when.isoformat() if row.when else "",
        row.type,
        row.result,
        row.reason,
        str(row.status or ""),
        row.policy,
        row.name,
        row.pseudonym,
        row.kind,
        row.issuer,
        row.auth,
        row.request_id,
        row.method,
        row.route,
        row.model,
        row.network,
        " ".join(target.id for target in row.targets),
        " ".join(f"{name}={value}" for name, value in row.changes),
    )


def csv_lines(rows: Iterable[Iterable[str]]) -> bytes:
    """RFC 4180, every cell quoted, and none that a spreadsheet would compute."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows([guarded(cell) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def guarded(cell: str) -> str:
    return "'" + cell if cell.lstrip(" ").startswith(_DANGEROUS) else cell
