"""Background jobs whose client left their stream: followed to their end, so that the log says how they ended.

The job runs on upstream. It is polled from here, ever less often; its children are recorded, so that whoever retrieves it can
name them, and its intent is closed. What outlives this process is closed as unknown by the log's sweeper.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import quote

import orjson

from gateway.errors import Problem, Reason
from gateway.names import Kind
from gateway.pipeline.exchange import Exchange
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.recording import Heritage, records
from gateway.pipeline.threads import Threads
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.outbound import translate_json
from gateway.surfaces.responses import RESPONSE
from gateway.upstreams import UpstreamError

LOG = logging.getLogger(__name__)

_UNDER_WAY: Final = frozenset({"queued", "in_progress"})
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Settler:
    recorder: Recorder
    open_intent_s: int
    threads: Threads

    def follow(self, exchange: Exchange, heritage: Heritage, table: IdTable) -> None:
        """Takes over a job that the client has detached from."""
        made = {Kind.RESPONSE: exchange.known_mapper.h(Kind.RESPONSE, exchange.job)}
        heritage = replace(heritage, roots={**heritage.roots, **made})
        self.recorder.tasks.spawn("settle detached job", self._follow(exchange, heritage, table))

    async def _follow(self, exchange: Exchange, heritage: Heritage, table: IdTable) -> None:
        pause_s, loop = _FIRST_PAUSE_S, asyncio.get_running_loop()
        while loop.time() - exchange.started + pause_s < self.open_intent_s:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            try:
                if await self._is_settled(exchange, heritage, table):
                    return
            except UpstreamError:
                continue
            except (Problem, ValueError, AttributeError):
                LOG.warning("settling.not_recorded")
            finally:
                exchange.known_lease.give_back()

    async def _is_settled(self, exchange: Exchange, heritage: Heritage, table: IdTable) -> bool:
        """Looks at the job once. Raises Problem and UpstreamError; ValueError or AttributeError for what is no answer."""
        provider = exchange.known_provider
        target = f"/responses/{quote(exchange.job, safe='')}".encode()
        async with await provider.call(exchange.known_mapper.tenant, provider.fetch("GET", target)) as answer:
            body = await answer.read(provider.max_answer_bytes, exchange.known_lease.grow)
        if answer.status == 404:
            await self.recorder.refuse(exchange, Problem(Reason.UPSTREAM_ERROR))
            return True
        if answer.status != 200:
            return False
        over = await self.threads.run(len(body), partial(_read, body, table))
        if over:
            made = records(exchange.known_mapper, heritage, table.take_new(), exchange.now)
            await self.recorder.finish(exchange, made, answer.status)
        return over


def _read(body: bytes, table: IdTable) -> bool:
    """Whether the job is over; then `table` has what it made."""
    if orjson.loads(body).get("status") in _UNDER_WAY:
        return False
    translate_json(body, RESPONSE, table)
    return True
