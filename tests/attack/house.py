"""A whole gateway for attacks: Redis, stand-in and gateway run beside the tests, which speak raw HTTP to it.

The gateway has a thread and an event loop of its own, so that thousands of requests need no task switching in the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gateway.admin.ids import Upstream, show
from gateway.audit.flood import Floods
from gateway.demo.stand_in.provider import Options, Received
from gateway.mapping import Mapper
from gateway.names import TenantId
from gateway.upstreams.fleet import FIRST
from tests.forms import Form
from tests.gateway_fixture import Deployment, deployment
from tests.redis_fixture import RedisServer
from tests.stand_in_fixture import Running
from tests.stand_in_fixture import running as stand_in_running

T = TypeVar("T")

PROJECT = "default"
"""The upstream project where none is set: part of every ID."""

PATIENCE_S = 10.0
"""How long the log may take here: what is proven is what is answered, not how fast a busy machine is."""

_VOLATILE = frozenset({"x-request-id", "date"})


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it stood on the wire. Header names are in lower case and in order."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def everything(self) -> bytes:
        """Headers and body, for searches."""
        return b"\r\n".join(f"{name}: {value}".encode("latin-1") for name, value in self.headers) + b"\r\n" + self.body

    def without(self, quoted: str) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
        """Status, headers and body but for request ID, date, and `quoted`, which the body may repeat."""
        body = self.body.replace(quoted.encode(), b"") if quoted else self.body
        shorter = len(self.body) - len(body)
        headers = tuple(
            (name, str(int(value) - shorter) if name == "content-length" else value)
            for name, value in self.headers
            if name not in _VOLATILE
        )
        return self.status, headers, body


@dataclass(slots=True, eq=False)
class Caller:
    """Somebody with an API key, on a kept connection."""

    house: House
    tenant: str
    subject: str
    key: str
    _connection: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None, *, data: bytes = b""
    ) -> Reply:
        """`path` is sent as it stands, below `/v1`; `body` as JSON or as the form that it is, or `data` as it is."""
        sent = {"authorization": f"Bearer {self.key}", **(headers or {})}
        content: bytes | None
        if isinstance(body, Form):
            content, sent["content-type"] = body.content, body.content_type
        else:
            content = json.dumps(body).encode() if body is not None else data or None
            if content is not None:
                sent["content-type"] = "application/json"
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self.house.port, timeout=20)
            try:
                self._connection.request(method, f"/v1{path}", content, sent)
                answer = self._connection.getresponse()
                reply = answer.read()
            except (http.client.RemoteDisconnected, ConnectionError):
                self.close()
                if attempt == 2:
                    raise
                continue
            if answer.will_close:
                self.close()
            return Reply(answer.status, tuple((n.lower(), v) for n, v in answer.getheaders()), reply)
        raise AssertionError

    def ok(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of a success."""
        reply = self.call(method, path, body)
        assert reply.status == 200, (method, path, reply.status, reply.body)
        return reply.json()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(slots=True, eq=False)
class House:
    """`tenant` and `caller` make what does not exist yet."""

    redis: RedisServer
    stand_in: Running
    deployment: Deployment
    loop: asyncio.AbstractEventLoop
    callers: dict[tuple[str, str], Caller] = field(default_factory=dict)
    _raws: dict[str, str] = field(default_factory=dict)
    _mappers: dict[str, Mapper] = field(default_factory=dict)

    @property
    def port(self) -> int:
        return int(self.deployment.url.rpartition(":")[2].partition("/")[0])

    @property
    def received(self) -> list[Received]:
        return self.stand_in.provider.received

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work` on the gateway's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def caller(self, tenant: str, subject: str) -> Caller:
        made = self.callers.get((tenant, subject))
        if made is None:
            key = self.run(self.deployment.key(tenant, subject))
            made = self.callers[tenant, subject] = Caller(self, tenant, subject, key)
        return made

    def tenant(self, name: str) -> TenantId:
        return self.run(self.deployment.tenant(name))

    def mapper(self, tenant: str) -> Mapper:
        """The tenant's keys at work, as the gateway itself has them."""
        if tenant not in self._mappers:
            keyring = self.deployment.gateway.shared.keyring
            deployed = self.run(keyring.deployment())
            unlocked = self.run(keyring.tenant(self.tenant(tenant)))
            self._mappers[tenant] = Mapper(deployed, unlocked, FIRST, PROJECT)
        return self._mappers[tenant]

    def raw_of(self, tenant: str, opaque: str) -> str:
        """What the tenant's opaque ID stands for, as the operator's command shows it."""
        if opaque not in self._raws:
            shown = self.run(show(self.deployment.admin, self.tenant(tenant), opaque, Upstream(FIRST, PROJECT)))
            self._raws[opaque] = shown.raw.text
        return self._raws[opaque]


@contextlib.contextmanager
def house(folder: Path, *, options: Options | None = None, floods: bool = False, **env: str) -> Iterator[House]:
    """A running house. Unless `floods`, a principal may be refused as often as it likes: the limit has tests of its own,
    and would turn away here what must be decided."""
    with RedisServer() as redis, stand_in_running(options) as stand_in:
        started, ended = threading.Event(), threading.Event()
        made: list[House] = []
        failed: list[BaseException] = []

        async def serve() -> None:
            async with deployment(redis.url, stand_in, folder, **env) as deployed:
                log = deployed.gateway.shared.log
                if not floods:
                    log._floods = Floods(first=1_000_000)
                made.append(House(redis, stand_in, deployed, asyncio.get_running_loop()))
                started.set()
                while not ended.is_set():  # noqa: ASYNC110 - the end is told by another thread
                    await asyncio.sleep(0.02)

        def run() -> None:
            try:
                asyncio.run(serve())
            except BaseException as error:
                failed.append(error)
            finally:
                started.set()

        thread = threading.Thread(target=run, name="gateway", daemon=True)
        thread.start()
        try:
            assert started.wait(20)
            if failed:
                raise failed[0]
            yield made[0]
        finally:
            for caller in made[0].callers.values() if made else ():
                caller.close()
            ended.set()
            thread.join(20)
        if failed:
            raise failed[0]
