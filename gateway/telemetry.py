"""What operators see: JSON log lines and Prometheus metrics. Neither holds an ID, a token, a body or a whole URL.

A log call names its event by a constant (`subject.action`) and gives data as fields: `LOG.info("stream.closed",
extra={"fields": {"reason": "client_closed"}})`. The audit log is another thing (gateway/audit) and shares no code with this.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from itertools import accumulate
from math import inf
from typing import Any, Final, TextIO

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""The request under way; the guard sets it, every log line shows it."""

FORBIDDEN: Final = frozenset(
    {
        "authorization", "api_key", "body", "content", "cookie", "credential", "email", "headers", "key", "password", "path",
        "prompt", "query", "raw", "raw_id", "secret", "subject", "token", "url",
    }
)  # fmt: skip
"""Names of fields that are not written, whatever they hold; the line says which were left out."""

_LONGEST: Final = 1000
"""Characters of one value."""


class JsonFormatter(logging.Formatter):
    """One line of ASCII JSON a record: time (UTC), level, logger, event, request_id, fields, error.

    Of an exception its type and where it passed are shown, never its text, which may quote what must not be seen.
    `redact` replaces raw IDs in every string, for texts of other libraries are not ours to trust.
    """

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": self._text(record.getMessage()),
        }
        if request_id := REQUEST_ID.get():
            line["request_id"] = request_id
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= self._shown(fields)
        if record.exc_info and record.exc_info[0]:
            line["error"] = record.exc_info[0].__name__
            line["trace"] = [
                f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(record.exc_info[2])
            ]
        return json.dumps(line, ensure_ascii=True, separators=(",", ":"))

    def _shown(self, fields: dict[Any, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        refused: list[str] = []
        for name, value in fields.items():
            key = self._text(str(name))
            if key.lower() in FORBIDDEN:
                refused.append(key)
            elif isinstance(value, bool | int | float) or value is None:
                shown[key] = value
            else:
                shown[key] = self._text(str(value))
        return {"fields": shown} | ({"refused_fields": sorted(refused)} if refused else {})

    def _text(self, text: str) -> str:
        return self._redact(text)[:_LONGEST]


def configure_logging(level: str, redact: Callable[[str], str] = str, stream: TextIO | None = None) -> None:
    """Every logger of the process writes through one `JsonFormatter` to `stream` (standard error). What the HTTP server says of
    its own begin and end is left out: the gateway says so itself."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(redact))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, logging.getLogger().level))


_METHODS: Final = frozenset({"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"})
_BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, inf)
_BUCKET_NAMES: Final = (*map(str, _BUCKETS_S[:-1]), "+Inf")


class Metrics:
    """The process's metrics. Every label's values come from a closed table of ours, so that none can name a tenant or an ID,
    and none can grow without bound.

    Plain numbers of the event loop's thread, told to `registry` when it is read: the library's own counters take a lock each,
    and the three calls of a request cost 3.1 us with them, 0.7 without.
    """

    def __init__(self) -> None:
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._decisions: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._upstream_calls: defaultdict[int, int] = defaultdict(int)
        self._upstream_seconds = _Seconds()
        self._streams: defaultdict[str, int] = defaultdict(int)
        self._watched: list[tuple[str, str, str, Callable[[], Mapping[str, float]]]] = []
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def request(self, route: str, method: str, status: int) -> None:
        """One answer. `route` is the action of the route's table row (`responses.create`), or `unknown`."""
        self._requests[route, method if method in _METHODS else "other", status // 100] += 1

    def decision(self, outcome: str, reason: str) -> None:
        """One decision: `allow`, `deny` or `error` (nobody decided), and the `Reason`'s value."""
        self._decisions[outcome, reason] += 1

    def upstream_call(self, status: int, seconds: float) -> None:
        """One upstream call and the time to its header; status 0 where there was none."""
        self._upstream_calls[status // 100] += 1
        self._upstream_seconds.add(seconds)

    def stream_opened(self, form: str) -> None:
        """`sse` or `websocket`."""
        self._streams[form] += 1

    def stream_closed(self, form: str) -> None:
        self._streams[form] -= 1

    def watch(self, name: str, about: str, read: Callable[[], Mapping[str, float]], label: str = "") -> None:
        """A gauge whose values, by the label's, are asked for at each reading; without a label the one under ""."""
        self._watched.append((name, about, label, read))

    def collect(self) -> Iterator[Metric]:
        """All families as they stand, for `registry`."""
        requests = CounterMetricFamily("coatcheck_requests", "Answered requests.", labels=("route", "method", "status"))
        for (route, method, status), count in self._requests.items():
            requests.add_metric((route, method, f"{status}xx"), count)
        yield requests
        decisions = CounterMetricFamily(
            "coatcheck_decisions", "Decisions by outcome and reason.", labels=("outcome", "reason")
        )
        for labels, count in self._decisions.items():
            decisions.add_metric(labels, count)
        yield decisions
        upstream_calls = CounterMetricFamily(
            "coatcheck_upstream_calls", "Calls of the upstream by status class.", labels=("status",)
        )
        for status, count in self._upstream_calls.items():
            upstream_calls.add_metric((f"{status}xx" if status else "failed",), count)
        yield upstream_calls
        upstream_seconds = HistogramMetricFamily("coatcheck_upstream_seconds", "Time to the upstream's header.")
        upstream_seconds.add_metric((), self._upstream_seconds.buckets(), self._upstream_seconds.total)
        yield upstream_seconds
        streams = GaugeMetricFamily("coatcheck_open_streams", "Open streams and sockets.", labels=("form",))
        for form, count in self._streams.items():
            streams.add_metric((form,), count)
        yield streams
        for name, about, label, read in self._watched:
            gauge = GaugeMetricFamily(name, about, labels=(label,) if label else ())
            for value, number in read().items():
                gauge.add_metric((value,) if label else (), number)
            yield gauge


class _Seconds:
    """How many times fell between two bounds of `_BUCKETS_S`, and their sum."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * len(_BUCKETS_S)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_BUCKETS_S, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """By upper bound, how many are not above it."""
        return list(zip(_BUCKET_NAMES, accumulate(self._counts), strict=True))


_Message = MutableMapping[str, Any]


def metrics_app(
    metrics: Metrics,
) -> Callable[[_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Awaitable[None]]:
    """An ASGI app of `GET /metrics` alone, to be served on a port of its own that clients cannot reach."""

    async def app(
        scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            raise RuntimeError("only http is served here")
        status, body = 404, b""
        headers = [(b"content-type", CONTENT_TYPE_LATEST.encode())]
        if scope["path"] == "/metrics":
            if scope["method"] in ("GET", "HEAD"):
                status, body = 200, generate_latest(metrics.registry)
            else:
                status = 405
                headers.append((b"allow", b"GET, HEAD"))
        headers.append((b"content-length", str(len(body)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    return app
