"""The stand-in's webhooks: signed events about what has ended, to the project's one endpoint, and again until it takes them."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final

from gateway.demo.stand_in.outputs import Json

_TIMEOUT_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **named: Any) -> None:
        return None


@dataclass(slots=True)
class Sent:
    """One event, and the statuses that its attempts met (0: none)."""

    id: str
    body: bytes
    statuses: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Sender:
    """`secret`: `whsec_` and base64. Sends from a thread of its own, whatever is due next."""

    url: str
    secret: str = field(repr=False)
    sent: list[Sent] = field(default_factory=list)
    _queue: SimpleQueue[tuple[float, Sent] | None] = field(default_factory=SimpleQueue)
    _thread: threading.Thread | None = None

    def announce(self, new_id: Callable[[], str], type_: str, data: Json) -> Sent:
        """`new_id` makes the event's own ID."""
        id_ = new_id()
        value = {"id": id_, "object": "event", "created_at": int(time.time()), "type": type_, "data": data}
        one = Sent(f"wh_{id_.removeprefix('evt_')}", json.dumps(value).encode())
        self.sent.append(one)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="stand-in webhooks", daemon=True)
            self._thread.start()
        self._queue.put((time.monotonic(), one))
        return one

    def close(self) -> None:
        self._queue.put(None)

    def _work(self) -> None:
        waiting: list[tuple[float, Sent]] = []
        while True:
            try:
                pause = max(0.001, min(due for due, _ in waiting) - time.monotonic()) if waiting else None
                taken = self._queue.get(timeout=pause)
            except Empty:
                waiting.sort(key=lambda row: row[0])
                _, one = waiting.pop(0)
                if not 200 <= self.send(one) < 300:
                    pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** len(one.statuses))
                    waiting.append((time.monotonic() + pause, one))
            else:
                if taken is None:
                    return
                waiting.append(taken)

    def send(self, one: Sent) -> int:
        """The status of one attempt."""
        now = int(time.time())
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        signed = hmac.digest(key, f"{one.id}.{now}.".encode() + one.body, "sha256")
        headers = {
            "content-type": "application/json",
            "user-agent": "OpenAI/1.0 (+https://platform.openai.com/docs/webhooks)",
            "webhook-id": one.id,
            "webhook-timestamp": str(now),
            "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
        }
        request = urllib.request.Request(self.url, one.body, headers)  # noqa: S310 - the address is the test's or demo's own
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S) as answer:
                status = int(answer.status)
        except urllib.error.HTTPError as refused:
            refused.close()
            status = refused.code
        except OSError:
            status = 0
        one.statuses.append(status)
        return status
