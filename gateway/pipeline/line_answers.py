"""Lines of a batch's files on their way down: answers that come by the thousand, and the requests that were sent for them.

Each line is read by the table as the same answer would be on its own. What a group of lines shows is recorded, in one call of the
store, before any of them leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import orjson

from gateway.errors import Problem, Reason
from gateway.mapping import is_child
from gateway.names import Kind, RawId, TenantId
from gateway.pipeline.answering import heritage_of, let_go, table_of
from gateway.pipeline.exchange import Exchange, Lease
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.recording import Heritage, Record, records
from gateway.pipeline.transfer import Rewriter
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.jsonl import Group, LineGroups, LineTooLong, is_blank
from gateway.rewrite.outbound import translate_rows
from gateway.rewrite.splice import parse
from gateway.surfaces.batches import LINES
from gateway.surfaces.spec import Spec
from gateway.upstreams import UpstreamAnswer


@dataclass(frozen=True, slots=True)
class LineAnswers:
    recorder: Recorder
    lease: Callable[[TenantId], Lease]
    max_line_bytes: int

    async def translate(self, exchange: Exchange, upstream: UpstreamAnswer, table: IdTable) -> Rewriter | None:
        """For the file that the request downloads; None where its bytes are its owner's. The service's word on the file's
        purpose decides: of a file that a batch made, no record need say so. Raises Problem and UpstreamError."""
        file = next((one for name in exchange.known_route.path_ids if (one := exchange.at(name))), None)
        if file is None or file.kind is not Kind.FILE:
            return None
        spec = LINES.get(await _purpose(exchange, file.raw, table))
        if spec is None:
            return None
        heritage = heritage_of(exchange)
        # The owner's end user, as lines that named nobody were sent.
        exchange.added.append(exchange.known_mapper.end_user(heritage.owner))
        groups = LineGroups(self.max_line_bytes)
        return _Translated(self.recorder, exchange, heritage, spec, groups, self.lease(exchange.known_principal.tenant))


async def _purpose(exchange: Exchange, file: RawId, table: IdTable) -> str:
    provider = exchange.known_provider
    request = provider.fetch("GET", f"/files/{quote(file.text, safe='')}".encode())
    async with await provider.call(exchange.known_mapper.tenant, request) as answer:
        if answer.status != HTTPStatus.OK:
            raise await provider.refusal(answer, table)
        try:
            return str(orjson.loads(await answer.read(provider.max_answer_bytes))["purpose"])
        except (ValueError, TypeError, KeyError):
            raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None


@dataclass(slots=True, eq=False)
class _Translated:
    """Raises Problem: for what is no JSON, and for what must not leave."""

    recorder: Recorder
    exchange: Exchange
    heritage: Heritage
    spec: Spec
    groups: LineGroups
    lease: Lease

    async def feed(self, piece: bytes) -> bytes:
        try:
            full = self.groups.feed(piece)
        except LineTooLong:
            raise Problem(Reason.UPSTREAM_BAD_ANSWER) from None
        self.lease.hold(self.groups.held_bytes)
        return b"".join([await self._translated(group) for group in full])

    async def end(self) -> bytes:
        return b"".join([await self._translated(group) for group in self.groups.end()])

    def close(self) -> None:
        self.lease.give_back()

    async def _translated(self, group: Group) -> bytes:
        # A thread, so that a file of a hundred thousand answers does not hold up everybody else.
        data, made = await asyncio.to_thread(_translated, self.exchange, self.heritage, group, self.spec)
        if made:
            await self.recorder.finish(self.exchange, made, HTTPStatus.OK, last=False)
        return data


def _translated(exchange: Exchange, heritage: Heritage, group: Group, spec: Spec) -> tuple[bytes, list[Record]]:
    """Lines as they may leave, and what must be recorded first. Each has IDs of its own, so one table of them a line."""
    mapper, made = exchange.known_mapper, list[Record]()
    written: list[bytes] = []
    for _, line in group:
        if is_blank(line):
            written.append(line)
            continue
        table, document = table_of(exchange, heritage), parse(line)
        ((data, minted),) = translate_rows([(line, document)], spec, table)
        written.append(let_go(exchange, data, table, table.raws))
        if minted:
            body = _body(document)
            roots = {one.kind: mapper.h(one.kind, one.raw) for one in minted if not is_child(one.kind)}
            conversation = body.get("conversation")
            if isinstance(conversation, dict) and isinstance(conversation.get("id"), str):
                roots[Kind.CONVERSATION] = mapper.h(Kind.CONVERSATION, conversation["id"])
            kept = heritage.stored and body.get("store") is not False
            made += records(mapper, replace(heritage, roots=roots, stored=kept), minted, exchange.now)
    return b"".join(line + b"\n" for line in written), made


def _body(document: Any) -> dict[str, Any]:
    """The answer that a line of a batch's output holds, or nothing."""
    answer = document.get("response") if isinstance(document, dict) else None
    body = answer.get("body") if isinstance(answer, dict) else None
    return body if isinstance(body, dict) else {}
