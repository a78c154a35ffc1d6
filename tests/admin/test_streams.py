"""`audit stream …` as an operator uses it: real commands, a real Redis, a real receiver."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.command_fixture import Shell, shell
from tests.redis_fixture import _session_redis_server, redis_server

__all__ = ["_session_redis_server", "redis_server", "shell"]


class Receiver(ThreadingHTTPServer):
    status = 200
    bodies: list[bytes]
    heads: list[dict[str, str]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?token=hush"


class _Hook(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.heads.append({name.lower(): value for name, value in self.headers.items()})
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(("127.0.0.1", 0), _Hook) as server:
        server.bodies, server.heads = [], []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def desk(shell: Shell) -> Shell:
    shell.out("tenant", "create", "acme")
    return shell.using(COATCHECK_AUDIT_WEBHOOKS_ON_LOOPBACK="true")


def test_a_stream_is_added_tried_listed_and_removed_and_all_of_it_is_on_record(desk: Shell, receiver: Receiver) -> None:
    added = desk.spawn("audit", "stream", "add", "acme", receiver.url, "--format", "ocsf", "--whole")
    assert (added.code, added.out.startswith("whsec_"), len(added.out.split())) == (0, True, 1)
    row = desk.out("audit", "stream", "list", "acme")
    stream = row.split()[0]
    assert stream in added.err
    assert "ocsf" in row
    assert "delivering" in row, "what made the tenant is in its log and not delivered yet"
    assert "hush" not in row
    assert "answered 200" in desk.spawn("audit", "stream", "test", "acme", stream).err
    (told,) = json.loads(receiver.bodies[0])
    assert (told["class_uid"], told["api"]["operation"]) == (6003, "stream.test")
    receiver.status = 500
    refused = desk.spawn("audit", "stream", "test", "acme", stream)
    assert (refused.code, "answered 500" in refused.err) == (1, True)
    assert desk.spawn("audit", "stream", "remove", "acme", stream).code == 0
    assert desk.out("audit", "stream", "list", "acme") == ""
    lines = [json.loads(line)["event"] for line in desk.out("audit", "tail", "acme", "--json").splitlines()]
    done = [
        (one["type"], one["outcome"]["result"]) for one in lines if one["type"].startswith("stream.") and one["outcome"]
    ]
    assert done == [
        ("stream.add", "allow"),
        ("stream.list", "allow"),
        ("stream.test", "allow"),
        ("stream.test", "allow"),
        ("stream.remove", "allow"),
        ("stream.list", "allow"),
    ]
    assert "hush" not in json.dumps(lines)
    assert added.out.strip() not in json.dumps(lines)


def test_an_address_inside_is_refused_and_the_refusal_is_on_record(shell: Shell) -> None:
    shell.out("tenant", "create", "acme")
    for url in ("http://127.0.0.1:1/", "https://169.254.169.254/latest", "ftp://example.com/"):
        refused = shell.spawn("audit", "stream", "add", "acme", url)
        assert (refused.code, refused.out) == (1, "")
        assert "address" in refused.err
    lines = [json.loads(line)["event"] for line in shell.out("audit", "tail", "acme", "--json").splitlines()]
    assert [one["outcome"]["result"] for one in lines if one["type"] == "stream.add" and one["outcome"]] == ["deny"] * 3


def test_a_stream_that_is_not_there_is_refused(desk: Shell) -> None:
    for command in ("remove", "test"):
        done = desk.spawn("audit", "stream", command, "acme", "st_nothing")
        assert (done.code, "no such stream" in done.err) == (1, True)
