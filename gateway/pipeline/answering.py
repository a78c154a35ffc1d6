"""From the upstream's answer to the client's: translate, check, record, and only then hand over."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from gateway.errors import Problem, Reason
from gateway.mapping import Opened, is_child
from gateway.names import Kind, Visibility
from gateway.pipeline.catalogue import without_others
from gateway.pipeline.exchange import Answer, Exchange, Outlet
from gateway.pipeline.expiry import as_missing, check_alive
from gateway.pipeline.minting import Minting
from gateway.pipeline.provider import Provider
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.recording import Heritage, Record, records
from gateway.pipeline.settling import Settler
from gateway.pipeline.standing import Watch
from gateway.pipeline.streaming import PING, Begun, Mailbox, error_event
from gateway.pipeline.threads import Threads
from gateway.pipeline.transfer import Rewriters, download, sending
from gateway.rewrite import egress
from gateway.rewrite.id_table import IdTable, Minted
from gateway.rewrite.outbound import translate_json
from gateway.rewrite.sse import Out, StreamTranslator
from gateway.surfaces.spec import UNKNOWN
from gateway.upstreams import UpstreamAnswer, UpstreamError
from gateway.upstreams.openai import answer_headers

LOG = logging.getLogger(__name__)

_EVENTS: Final = b"text/event-stream"
_JSON: Final = b"application/json"
_ID: Final = re.compile(rb'\s*\{\s*"id"\s*:\s*"([A-Za-z0-9_-]{1,512})"')
"""How every object of the service begins. What a tenant chose follows it."""


@dataclass(frozen=True, slots=True)
class Answering:
    recorder: Recorder
    settler: Settler
    ping_s: float
    """Silence after which a stream gets a comment, so that nothing between here and the client gives up."""
    rewriters: Rewriters
    threads: Threads
    watch: Watch

    async def answer(self, exchange: Exchange) -> Answer:
        """Forwards the request and gives the client's answer. Raises Problem and UpstreamError."""
        upstream = await self._send(exchange)
        try:
            heritage = heritage_of(exchange)
            table = table_of(exchange, heritage)
            if not 200 <= upstream.status < 300:
                raise as_missing(exchange, await exchange.known_provider.refusal(upstream, table))
            media_type = (upstream.header(b"content-type") or b"").partition(b";")[0].strip().lower()
            if media_type == _EVENTS and exchange.known_route.streams:
                return await self._stream(exchange, upstream, table, heritage)
            if exchange.known_route.media and media_type.startswith(exchange.known_route.media):
                asked = self.rewriters.download
                rewriter = await asked(exchange, upstream, table) if asked else None
                return await download(exchange, upstream, table, self.recorder, rewriter)
            content = await self._whole(exchange, upstream, table, heritage, is_json=media_type == _JSON)
            exchange.bytes_out = len(content)
            await self.recorder.finish(exchange, self._made(exchange, heritage, table), upstream.status)
            return Answer(upstream.status, _headers(exchange, upstream, content), content, exchange.action)
        except BaseException:
            upstream.abort()
            raise

    async def _send(self, exchange: Exchange) -> UpstreamAnswer:
        form = sending(exchange, self.rewriters)
        if form is None:
            return await exchange.known_provider.send(exchange)
        async with aclosing(form.body):
            return await exchange.known_provider.send(exchange, form)

    async def _whole(
        self, exchange: Exchange, upstream: UpstreamAnswer, table: IdTable, heritage: Heritage, *, is_json: bool
    ) -> bytes:
        """What the client gets of an answer in one piece. Where that is nothing, what the answer made is undone, as far as it
        was read."""
        body = b""
        try:
            body = await upstream.read(exchange.known_provider.max_answer_bytes, exchange.known_lease.grow)
            if upstream.status == 204:
                return b""
            if not is_json:
                raise Problem(Reason.UPSTREAM_BAD_ANSWER)
            return await self.threads.run(len(body), partial(_translate, exchange, body, table))
        except BaseException:
            created, begins = exchange.known_route.creates, _ID.match(body or upstream.begun)
            if created and begins and not table.new:
                table.mint(created, begins[1].decode(), "")
            await self._undo(exchange, self._made(exchange, heritage, table))
            raise

    async def _undo(self, exchange: Exchange, made: list[Record]) -> None:
        """Also where the client has left."""
        if made:
            work = self.recorder.undo(exchange, made)
            await asyncio.shield(self.recorder.tasks.spawn("undo withheld answer", work))

    @staticmethod
    def _made(exchange: Exchange, heritage: Heritage, table: IdTable) -> list[Record]:
        return records(exchange.known_mapper, heritage, table.take_new(), exchange.now)

    # --- streams

    async def _stream(self, exchange: Exchange, upstream: UpstreamAnswer, table: IdTable, heritage: Heritage) -> Answer:
        """The stream, once its first bytes may leave: what fails before that is an ordinary error answer."""
        exchange.streaming = True
        translator = StreamTranslator(exchange.known_route.events or UNKNOWN, table)
        passage = _Passage(exchange, table, translator)
        sent = self._sent(passage, upstream, heritage)
        first = await anext(sent)
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            (b"x-request-id", exchange.head.request_id.encode()),
        ]
        return Answer(200, headers, _BegunPassage(first, sent, passage), exchange.action)

    async def _sent(
        self, passage: _Passage, upstream: UpstreamAnswer, heritage: Heritage
    ) -> AsyncGenerator[bytes, None]:
        """What the client gets: the events, and after a failure under way the error as the last one. What fails before
        the first of them is raised."""
        exchange = passage.exchange
        events = self._events(passage, upstream, heritage)
        begun = failed = False
        try:
            async for data in events:
                exchange.bytes_out += len(data)
                begun = True
                yield data
        except Exception as error:
            if not begun:
                failed = True
                raise
            yield error_event(await self.recorder.refuse(exchange, self._problem(error)), exchange.known_route.events)
        finally:
            await events.aclose()
            if not failed and await self.recorder.abandon(exchange):
                self.settler.follow(exchange, heritage, passage.table)

    def _problem(self, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, UpstreamError):
            return Provider.problem(error)
        LOG.error("request.failed", exc_info=error)
        return Problem(Reason.INTERNAL)

    async def _events(
        self, passage: _Passage, upstream: UpstreamAnswer, heritage: Heritage
    ) -> AsyncGenerator[bytes, None]:
        exchange, translator, lease = passage.exchange, passage.translator, passage.exchange.known_lease
        mailbox, unrecorded = Mailbox(upstream, self.ping_s, passage.passes), Unrecorded(exchange, heritage)
        between = False
        self.watch.add(mailbox, exchange)
        try:
            while True:
                pieces = await mailbox.pieces()
                if pieces == []:
                    if between:
                        yield PING
                    continue
                ready: list[bytes] = []
                size = translator.waiting_bytes + sum(map(len, pieces or ()))
                lease.shrink(size)  # what came before was held until now
                lease.hold(size)
                work = partial(_translated, translator, pieces)
                outs, failure = await self.threads.run(translator.waiting_bytes, work)
                for out in outs:
                    unrecorded.add(out.minted)
                    ends = out.terminal and not exchange.closed
                    if ready and (unrecorded.roots or ends):
                        yield b"".join(ready)
                        ready = []
                    data = await self._let_go_or_undo(passage, out, unrecorded)
                    if unrecorded.roots:
                        made = unrecorded.take_roots()
                        exchange.job = exchange.job or _job(heritage, made)
                        await self.recorder.finish(exchange, made, 200, last=False)
                    if ends:
                        said = Problem(Reason.UPSTREAM_ERROR) if out.failed else None
                        await self.recorder.finish(exchange, unrecorded.take_children(), 200, failure=said)
                    ready.append(data)
                if ready:
                    yield b"".join(ready)
                    # The LF of a last CR LF may be under way: what came between would make a blank line of its own.
                    between = not ready[-1].endswith(b"\r")
                if failure is not None:
                    raise failure
                if pieces is None:
                    if not exchange.closed:
                        raise Problem(Reason.UPSTREAM_BAD_ANSWER)
                    return
        finally:
            self.watch.remove(mailbox)
            mailbox.close()
            exchange.unrecorded = unrecorded.take_children()

    async def _let_go_or_undo(self, passage: _Passage, out: Out, unrecorded: Unrecorded) -> bytes:
        try:
            return await self.threads.run(len(out.data), partial(passage.let_go, out))
        except BaseException:
            await self._undo(passage.exchange, unrecorded.take_roots())
            raise


@dataclass(slots=True, eq=False)
class _Passage:
    """One stream's way out. Nearly every event is a delta with nothing in it that anybody waits for: it passes straight from
    the upstream's connection to the client's, without waking the reader. Where events come one by one, 0.8 ms apart, each costs
    62 us so, and 86 through the reader, timers and polling included."""

    exchange: Exchange
    table: IdTable
    translator: StreamTranslator
    outlet: Outlet | None = None
    cleared: set[bytes] = field(default_factory=set)

    def passes(self, piece: bytes) -> bool:
        """Whether `piece` has left. False: nothing has happened. Raises Problem, as `let_go` does."""
        outlet = self.outlet
        if outlet is None or not outlet.is_ready():
            return False
        out = self.translator.pass_alone(piece)
        if out is None:
            return False
        data = self.let_go(out)
        self.exchange.bytes_out += len(data)
        outlet.push(data)
        return True

    def let_go(self, out: Out) -> bytes:
        return let_go(self.exchange, out.data, self.table, out.touched, self.cleared)


@dataclass(slots=True, eq=False)
class _BegunPassage(Begun):
    passage: _Passage

    def lend(self, outlet: Outlet) -> None:
        self.passage.outlet = outlet


@dataclass(slots=True, eq=False)
class Unrecorded:
    """What a stream has minted and not written yet: roots wait for nothing, children for the terminal event."""

    exchange: Exchange
    heritage: Heritage
    roots: list[Minted] = field(default_factory=list)
    children: list[Minted] = field(default_factory=list)

    def add(self, minted: tuple[Minted, ...]) -> None:
        for one in minted:
            (self.children if is_child(one.kind) else self.roots).append(one)

    def take_roots(self) -> list[Record]:
        made, created = self._take(self.roots), self.heritage.creates
        for record in made:
            if record.write.kind is created:
                self.heritage = replace(self.heritage, roots={**self.heritage.roots, created: record.write.h})
        return made

    def take_children(self) -> list[Record]:
        return self._take(self.children)

    def _take(self, minted: list[Minted]) -> list[Record]:
        taken = records(self.exchange.known_mapper, self.heritage, minted, self.exchange.now)
        minted.clear()
        return taken


def heritage_of(exchange: Exchange) -> Heritage:
    """Whose the answer's objects are: of whoever owns what the path names, else of the caller; in a shared conversation as
    visible as that is. A branch off somebody's shared response is the brancher's own."""
    principal, route = exchange.known_principal, exchange.known_route
    conversation = exchange.at("conversation") or exchange.at("conversation.id") or exchange.at("conversation_id")
    path = [opened for name in route.path_ids if (opened := exchange.at(name))]
    named = conversation or (path[0] if path else None)
    if route.creates or named is None:
        owner, visibility = principal.owner, conversation.root.visibility if conversation else Visibility.PRIVATE
    else:
        owner, visibility = named.root.owner, named.root.visibility
    roots = {one.root.kind: one.root_h for one in path}
    if conversation:
        roots[Kind.CONVERSATION] = conversation.h
    elif path and path[0].root.parent:
        roots[Kind.CONVERSATION] = bytes.fromhex(path[0].root.parent)
    return Heritage(
        owner,
        visibility,
        route.creates,
        roots=roots,
        stored=conversation is not None or _kept(exchange, named),
        background=isinstance(exchange.body, dict) and exchange.body.get("background") is True,
        lines=exchange.lines,
    )


def _kept(exchange: Exchange, named: Opened | None) -> bool:
    """Whether the service keeps what the answer shows: as its making asked for, which for a batch its lines did."""
    route = exchange.known_route
    if exchange.lines:
        return exchange.keeps
    if named is None and route.runs:
        named = exchange.at(route.runs)
    return named.root.stored if named is not None else route.stores(exchange.body)


def _translate(exchange: Exchange, body: bytes, table: IdTable) -> bytes:
    check_alive(exchange, body)
    content = translate_json(without_others(exchange, body), exchange.known_route.answer, table)
    return let_go(exchange, content, table, table.raws)


def _translated(translator: StreamTranslator, pieces: list[bytes] | None) -> tuple[list[Out], Problem | None]:
    """What leaves for `pieces` (None: the end), and why nothing more does: how they were cut must not show."""
    try:
        return translator.end() if pieces is None else translator.feed(b"".join(pieces)), None
    except Problem as problem:
        return translator.drain(), problem


def _job(heritage: Heritage, made: list[Record]) -> str:
    """The raw ID of the background response that a stream has just shown, or nothing."""
    responses = (record.raw for record in made if record.write.kind is Kind.RESPONSE)
    return next(responses, "") if heritage.background and heritage.creates is Kind.RESPONSE else ""


def table_of(exchange: Exchange, heritage: Heritage) -> IdTable:
    """What this request knows of IDs before its answer is read."""
    minting = Minting(exchange.known_mapper, heritage.owner, heritage.visibility, exchange.tokens)
    sent = {opened.raw.text: text for text, opened in exchange.opened.items()} | exchange.stand_ins
    table = IdTable(minting, sent)
    if exchange.model:
        table.say(exchange.model)
    return table


def let_go(
    exchange: Exchange,
    data: bytes,
    table: IdTable,
    touched: tuple[bytes, ...],
    cleared: set[bytes] | None = None,
    *,
    event_id: str = "",
) -> bytes:
    """The very bytes that leave, after a last look. Tokens that the client did not ask for read as null. `cleared`: what
    the stream's earlier looks found to be ours. `event_id`: what the service calls this very event, which names no object."""
    for token in exchange.added:
        quoted = b'"' + token.encode() + b'"'
        if quoted in data:
            data = data.replace(quoted, b"null")
    finding = egress.scan(
        data,
        issued=table.issued,
        touched=touched,
        verify=table.minter.verify,
        quoted=(*exchange.opened, event_id) if event_id else exchange.opened,
        cleared=cleared,
    )
    if finding is not None:
        LOG.critical("egress.blocked", extra={"fields": {"found": finding.what.value, "prefix": finding.prefix}})
        raise Problem(Reason.EGRESS_BLOCKED)
    return data


def _headers(exchange: Exchange, upstream: UpstreamAnswer, content: bytes) -> list[tuple[bytes, bytes]]:
    headers = [*answer_headers(upstream.headers), (b"x-request-id", exchange.head.request_id.encode())]
    if upstream.status != 204:  # RFC 9110 section 8.6
        headers.append((b"content-length", b"%d" % len(content)))
    return headers
