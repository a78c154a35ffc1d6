"""The canary: a service that writes fresh raw IDs everywhere, and a search for them in everything that comes out.

Every row of the table is asked and every script word of the stand-in is played, faults included; then what clients received,
the log lines, the metrics and all that Redis holds is searched for every raw ID, for the account's names, and for other
spellings of both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from gateway.demo.stand_in.raw_ids import IdStyle
from gateway.surfaces.table import EVERY
from tests.attack.canary_haul import Haul, hauled, row
from tests.attack.canary_search import Search, readings, said
from tests.attack.canary_sockets import REFUSED
from tests.attack.canary_words import every_word
from tests.redis_fixture import RedisServer


@pytest.fixture(scope="module")
def haul(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Haul]:
    yield from hauled(tmp_path_factory.mktemp("data"), IdStyle.HEX50, every_word())


def dump(server: RedisServer) -> Iterator[tuple[str, bytes]]:
    """All keys of Redis with their values, by type, and every command that it has written to its file."""
    client: Any = redis.Redis(unix_socket_path=str(server.socket_path))
    with client:
        for key in client.scan_iter(count=1000):
            match client.type(key):
                case b"none":
                    continue  # it has expired since; the file has the command that wrote it
                case b"string":
                    parts = [client.get(key) or b""]
                case b"hash":
                    parts = [part for pair in client.hgetall(key).items() for part in pair]
                case b"set":
                    parts = list(client.smembers(key))
                case b"zset":
                    parts = client.zrange(key, 0, -1)
                case b"stream":
                    parts = [part for _, pairs in client.xrange(key) for pair in pairs.items() for part in pair]
                case kind:
                    raise AssertionError(f"{key!r} is a {kind!r}, which is not searched")
            yield repr(key), b"\0".join([key, *parts])
    folder = server.socket_path.parent
    files = [path for path in folder.rglob("*") if path.is_file() and "appendonly" in str(path)]
    assert files
    for path in files:
        yield path.name, path.read_bytes()


def test_every_row_of_the_table_was_asked_and_answered(haul: Haul) -> None:
    """A new row is searched for leaks once the day plays it; until then it stands here."""
    assert {row(route) for route in EVERY} - haul.succeeded == REFUSED


def test_no_client_received_a_raw_id_in_any_form(haul: Haul) -> None:
    assert len(haul.secrets) > 5000
    assert sum(one.data.startswith(b"HTTP/1.1 200") for one in haul.exchanges) > 150
    leaks = haul.leaks(Search(haul.secrets))
    assert not leaks, "\n".join(leaks[:40])


def test_no_answer_had_to_be_withheld(haul: Haul) -> None:
    """What leaves is right when it reaches the last look; that look is for mistakes."""
    assert [one.what for one in haul.exchanges if b"answer_withheld" in one.data] == []


def test_no_log_line_and_no_metric_holds_a_raw_id_in_any_form(haul: Haul) -> None:
    search = Search(haul.secrets)
    assert b"coatcheck_requests" in haul.metrics
    assert "[id]" in haul.log.getvalue()
    assert search(haul.metrics) == set()
    assert search(haul.log.getvalue().encode()) == set()


def test_redis_holds_no_raw_id_in_any_form_nor_does_the_audit_log(haul: Haul) -> None:
    search, leaks, events = Search(haul.secrets), {}, 0
    for what, data in dump(haul.house.redis):
        events += data.count(b'"targets"')
        if found := search(data):
            leaks[what] = sorted(found)[:3]
    assert events > 200
    assert not leaks, leaks


def test_the_search_finds_a_record_that_is_not_encrypted(haul: Haul) -> None:
    secret = next(raw for raw, issued in haul.house.stand_in.provider.issued.items() if issued.place == "response.id")
    packed = bytes.fromhex(secret.removeprefix("resp_"))
    search = Search(haul.secrets)
    plants = [secret.encode(), packed, secret[::-1].encode(), b"\1\1" + packed + b"\0"]
    names = [f"{{t:x}}:id:response:{number}" for number in range(len(plants))]
    with RedisServer() as server:
        for name, planted in zip(names, plants, strict=True):
            server.command("SET", name, planted)
        found = {what for what, data in dump(server) if search(data)}
    assert {repr(name.encode()) for name in names} < found, "each key, and the file of commands"


def test_the_search_finds_an_id_that_is_split_escaped_or_chunked() -> None:
    secret = "msg_0123456789abcdef006b0d9241ca964e0a362ec6952c46c52c"
    search = Search([secret])
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    chunked = head + b"14\r\n" + secret[:20].encode() + b"\r\n22\r\n" + secret[20:].encode() + b"\r\n0\r\n\r\n"
    escaped = (
        b'HTTP/1.1 200 OK\r\n\r\n{"id": "'
        + secret.replace("_", "\\u005f").replace("0123", "\\u0030123").encode()
        + b'"}'
    )
    events = "".join(
        f'data: {{"type": "d", "item_id": "x", "delta": "{secret[at : at + 5]}"}}\n\n'
        for at in range(0, len(secret), 5)
    )
    for data in (chunked, escaped, b"HTTP/1.1 200 OK\r\n\r\n" + events.encode()):
        assert any(search(reading) for reading in readings(data)), data


def test_what_a_model_says_counts_where_its_answer_ends_in_the_middle_of_it() -> None:
    secret = "file-0123456789abcdefABCDEF"
    for name, counts in ("delta", True), ("obfuscation", False):
        pieces = [{"type": "d", "item_id": "x", name: secret[at : at + 5]} for at in range(0, len(secret), 5)]
        data = b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(f"data: {json.dumps(one)}\n\n".encode() for one in pieces)
        spoken, written = said(data)
        assert (secret in spoken, secret in written) == (counts, False)


def test_what_a_model_says_counts_in_each_line_of_a_file() -> None:
    lines = [{"text": "file-0123456789abcdefABCDEF"}, {"id": "file-0123456789abcdefABCDEG"}]
    data = b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(json.dumps(one).encode() + b"\n" for one in lines)
    spoken, written = said(data)
    assert lines[0]["text"] in spoken
    assert lines[1]["id"] in written
    assert lines[1]["id"] not in spoken


# A short tail guards nothing: it is replaced by place alone (`tests/pipeline/test_other_servers.py`).
@pytest.mark.parametrize("style", [style for style in IdStyle if style not in (IdStyle.HEX50, IdStyle.SHORT)])
def test_ids_of_other_servers_stay_inside_too(tmp_path: Path, style: IdStyle) -> None:
    for haul in hauled(tmp_path, style, ["quote", "delta=3"]):
        search = Search(haul.secrets)
        leaks = haul.leaks(search)
        for what, data in [*dump(haul.house.redis), ("log", haul.log.getvalue().encode())]:
            leaks += [f"{what}: {leak}" for leak in search(data)]
        assert not leaks, "\n".join(leaks[:40])
        assert [one.what for one in haul.exchanges if b"answer_withheld" in one.data] == []
