"""Background jobs whose client left their stream: followed to their end, so that the log says how they ended.

The job runs on upstream. It is polled from here, ever less often; its children are recorded, so that whoever retrieves it can
name them, and its intent is closed. What outlives this process is closed as unknown by the log's sweeper.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

import orjson

from gateway.errors import Problem, Reason
from gateway.names import Kind
from gateway.pipeline.exchange import Exchange
from gateway.pipeline.provider import Provider
from gateway.pipeline.recorder import Recorder
from gateway.pipeline.recording import Heritage, records
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
                status, body = await _poll(exchange.known_provider, exchange.job)
            except UpstreamError:
                continue
            try:
                if status == 404:
                    await self.recorder.refuse(exchange, Problem(Reason.UPSTREAM_ERROR))
                    return
                if status != 200 or orjson.loads(body).get("status") in _UNDER_WAY:
                    continue
                translate_json(body, RESPONSE, table)
                made = records(exchange.known_mapper, heritage, table.take_new(), exchange.now)
                await self.recorder.finish(exchange, made, status)
            except (Problem, ValueError, AttributeError):
                LOG.warning("settling.not_recorded")
                continue
            return


async def _poll(provider: Provider, job: str) -> tuple[int, bytes]:
    target = f"/responses/{quote(job, safe='')}".encode()
    async with await provider.upstream.send(provider.fetch("GET", target)) as answer:
        return answer.status, await answer.read(provider.max_answer_bytes)
