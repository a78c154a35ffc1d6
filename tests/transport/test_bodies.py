"""JSON bodies: what is read, what is refused, and that what goes on is what was checked."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Problem, Reason
from gateway.names import RequestId
from gateway.transport.bodies import parse_json, read_json
from gateway.transport.guard import HEAD, Head, Message, Receive, Scope, Send, refuse
from gateway.transport.limits import Limits
from gateway.transport.server import running
from tests.transport.raw import connected, request

LIMITS = Limits(body_idle_s=0.1, body_total_s=0.3)
SMALL = replace(LIMITS, body_bytes=100_000)


def head(**headers: str) -> Head:
    by_name = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Head(RequestId("req_1"), "POST", b"/v1/responses", b"", tuple(by_name.items()), by_name, "127.0.0.1")


JSON = head(content_type="application/json")


async def read(
    body: bytes, of: Head = JSON, limits: Limits = LIMITS, *, step: int = 1 << 16, allow_empty: bool = False
) -> Any:
    chunks = [body[at : at + step] for at in range(0, len(body), step)] or [b""]
    messages = [{"type": "http.request", "body": c, "more_body": n < len(chunks)} for n, c in enumerate(chunks, 1)]

    async def receive() -> Message:
        return messages.pop(0)

    return await read_json(receive, of, limits, allow_empty=allow_empty)


@given(st.binary(max_size=40), st.sampled_from([JSON, head(), head(content_type="text/plain")]), st.booleans())
async def test_a_body_that_is_there_is_read_as_one_that_is_received(body: bytes, of: Head, allow_empty: bool) -> None:
    async def read_arrived() -> Any:
        async def receive() -> Message:
            raise AssertionError("nothing is waited for")

        return await read_json(receive, of, limits, allow_empty=allow_empty, arrived=body)

    async def result(reading: Awaitable[Any]) -> Any:
        try:
            return repr(await reading)
        except Problem as problem:
            return problem.reason, problem.detail

    limits = replace(LIMITS, body_bytes=30)
    assert await result(read_arrived()) == await result(read(body, of, limits, allow_empty=allow_empty))


async def refusal(body: bytes, of: Head = JSON, limits: Limits = LIMITS) -> Problem:
    with pytest.raises(Problem) as caught:
        await read(body, of, limits)
    return caught.value


def coded(coding: str) -> Head:
    return head(content_type="application/json", content_encoding=coding)


def zstd(data: bytes, *, sized: bool = True) -> bytes:
    if sized:
        return zstandard.ZstdCompressor().compress(data)
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


BODY = json.dumps({"model": "gpt-5", "input": "hällo" * 100}).encode()
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "zstd": zstd,
    "zstd ": lambda data: zstd(data, sized=False),
}


@pytest.mark.parametrize("coding", ENCODERS)
@pytest.mark.parametrize("step", [1, 7, 1 << 16])
async def test_a_body_reads_the_same_in_every_coding_and_chunking(coding: str, step: int) -> None:
    assert await read(ENCODERS[coding](BODY), coded(coding), step=step) == json.loads(BODY)


async def test_gzip_of_several_members_is_one_body() -> None:
    assert await read(gzip.compress(BODY[:50]) + gzip.compress(BODY[50:]), coded("gzip")) == json.loads(BODY)


@pytest.mark.parametrize(
    "coding", ["br", "deflate", "gzip, gzip", "gzip, zstd", "compress", "chunked", "aws-chunked", "*"]
)
async def test_another_coding_is_refused(coding: str) -> None:
    assert (await refusal(BODY, coded(coding))).status == 415


CORRUPT = {
    "gzip_cut": ("gzip", gzip.compress(BODY)[:-9]),
    "gzip_cut_in_the_checksum": ("gzip", gzip.compress(BODY)[:-1]),
    "gzip_wrong_checksum": ("gzip", gzip.compress(BODY)[:-8] + b"\0" * 8),
    "gzip_with_garbage_behind": ("gzip", gzip.compress(BODY) + b"garbage"),
    "gzip_with_zeros_behind": ("gzip", gzip.compress(BODY) + b"\0\0"),
    "gzip_second_member_cut": ("gzip", gzip.compress(BODY) + gzip.compress(b"x")[:-3]),
    "gzip_of_nothing_at_all": ("gzip", b""),
    "gzip_that_is_plain": ("gzip", BODY),
    "gzip_that_is_deflate": ("gzip", zlib.compress(BODY)),
    "gzip_of_a_thousand_empty_members": ("gzip", gzip.compress(b"") * 1001),
    "zstd_cut": ("zstd", zstd(BODY)[:-3]),
    "zstd_cut_of_unknown_size": ("zstd", zstd(BODY, sized=False)[:-1]),
    "zstd_with_garbage_behind": ("zstd", zstd(BODY) + b"garbage"),
    "zstd_of_two_frames": ("zstd", zstd(BODY) + zstd(BODY)),
    "zstd_that_is_plain": ("zstd", BODY),
    "zstd_of_nothing_at_all": ("zstd", b""),
    "identity_that_is_gzip": ("identity", gzip.compress(BODY)),
}


@pytest.mark.parametrize("form", CORRUPT)
async def test_a_body_that_cannot_be_decoded_is_refused_never_passed(form: str) -> None:
    coding, body = CORRUPT[form]
    assert (await refusal(body, coded(coding))).status == 400


@pytest.mark.parametrize(
    ("coding", "bomb"),
    [
        ("gzip", gzip.compress(b"[" + b" " * 100_000_000 + b"]")),
        ("gzip", gzip.compress(b"[" + b" " * 20_000_000 + b"]") * 3),
        ("zstd", zstd(b"[" + b" " * 100_000_000 + b"]")),
        ("zstd", zstd(b"[" + b" " * 100_000_000 + b"]", sized=False)),
    ],
    ids=["gzip", "gzip_members", "zstd_sized", "zstd_unsized"],
)
async def test_a_decompression_bomb_is_refused_in_a_moment(coding: str, bomb: bytes) -> None:
    started = time.process_time()
    assert (await refusal(bomb, coded(coding))).status == 413
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("coding", ["gzip", "zstd", "zstd "])
async def test_the_ratio_is_capped_before_the_size_is(coding: str) -> None:
    white = b"[" + b" " * 5_000_000 + b"]"
    assert len(white) < LIMITS.body_bytes
    assert (await refusal(ENCODERS[coding](white), coded(coding))).status == 413


async def test_a_small_body_may_be_compressed_however_well() -> None:
    assert await read(gzip.compress(b"[" + b" " * 900_000 + b"]"), coded("gzip")) == []


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
async def test_a_body_over_the_cap_is_refused_as_sent_and_as_decoded(coding: str) -> None:
    noisy = json.dumps([hash(str(n)) for n in range(20_000)]).encode()
    assert len(noisy) > SMALL.body_bytes
    assert (await refusal(ENCODERS[coding](noisy), coded(coding), SMALL)).status == 413


async def test_a_declared_length_over_the_cap_is_refused_before_anything_is_read() -> None:
    async def receive() -> Message:
        raise AssertionError("read")

    with pytest.raises(Problem) as caught:
        await read_json(receive, head(content_type="application/json", content_length="100001"), SMALL)
    assert caught.value.status == 413


async def test_a_client_that_leaves_before_the_end_is_a_closed_client_whatever_it_sent() -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": BODY, "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    with pytest.raises(Problem) as caught:
        await read_json(receive, JSON, LIMITS)
    assert caught.value.reason is Reason.CLIENT_CLOSED


@pytest.mark.parametrize(("pause_s", "at_most_s"), [(5.0, 3.0), (0.05, 3.0)], ids=["idle", "in_total"])
async def test_a_body_that_comes_too_slowly_is_timed_out(pause_s: float, at_most_s: float) -> None:
    async def receive() -> Message:
        await asyncio.sleep(pause_s)
        return {"type": "http.request", "body": b" ", "more_body": True}

    started = time.perf_counter()
    with pytest.raises(Problem) as caught:
        await read_json(receive, JSON, LIMITS)
    assert caught.value.reason is Reason.REQUEST_TIMEOUT
    assert time.perf_counter() - started < at_most_s


@pytest.mark.parametrize(
    "media_type",
    ["application/json", "Application/JSON", "application/json; charset=UTF-8", 'application/json;charset="utf-8"'],
)
async def test_json_is_known_by_its_media_type(media_type: str) -> None:
    assert await read(b"{}", head(content_type=media_type)) == {}


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/json; charset=utf-16",
        "application/jsonp",
        "multipart/form-data; boundary=a",
        "application/x-www-form-urlencoded",
        "text/json",
        "",
    ],
)
async def test_another_media_type_is_refused(media_type: str) -> None:
    assert (await refusal(b"{}", head(content_type=media_type))).status == 415
    with pytest.raises(Problem):
        await read(b"{}", head(content_type=media_type), allow_empty=True)


async def test_no_body_is_read_as_none_only_where_the_route_allows_it() -> None:
    assert await read(b"", head(), allow_empty=True) is None
    assert await read(b"", JSON, allow_empty=True) is None
    assert (await refusal(b"", head())).status == 415
    assert (await refusal(b"", JSON)).status == 400
    with pytest.raises(Problem) as caught:
        await read(b"{}", head(), allow_empty=True)
    assert caught.value.status == 415


NOT_JSON = {
    "nan": b'{"a": NaN}',
    "infinity": b"[Infinity]",
    "minus_infinity": b"[-Infinity]",
    "bom": b"\xef\xbb\xbf{}",
    "utf_16": '{"a": 1}'.encode("utf-16"),
    "utf_8_cut": b'"\xc3"',
    "utf_8_overlong": b'"\xc0\xaf"',
    "utf_8_surrogate": b'"\xed\xa0\x80"',
    "escaped_half_surrogate": b'{"a": "\\ud800"}',
    "escaped_half_surrogate_as_a_name": b'{"\\uDC00": 1}',
    "same_name_twice": b'{"model": "a", "model": "b"}',
    "same_name_twice_by_escape": b'{"model": "a", "mod\\u0065l": "b"}',
    "same_name_twice_deep": b'[{"a": {"b": 1, "b": 2}}]',
    "two_values": b"{} {}",
    "comma_behind": b"[1,]",
    "comment": b"{}//",
    "single_quotes": b"{'a': 1}",
    "control_in_string": b'"a\nb"',
    "nul_behind": b"{}\0",
    "leading_zero": b"[01]",
    "plus": b"[+1]",
    "hexadecimal": b"[0x1]",
    "only_blanks": b"  ",
    "cut": b'{"a": [1',
    "too_deep": b"[" * 65 + b"]" * 65,
    "too_deep_in_objects": b'{"a":' * 65 + b"1" + b"}" * 65,
    "far_too_deep": b"[" * 900_000,
    "far_too_deep_and_closed": b"[" * 100_000 + b"]" * 100_000,
}


@pytest.mark.parametrize("form", NOT_JSON)
async def test_what_is_not_strict_json_is_refused(form: str) -> None:
    problem = await refusal(NOT_JSON[form])
    assert (problem.reason, problem.status) == (Reason.BAD_JSON, 400)


@pytest.mark.parametrize(
    "body", [b"[" * 64 + b"]" * 64, b"[" * 64 + b"1" + b"]" * 64, b'{"a":' * 64 + b'"b"' + b"}" * 64]
)
def test_sixty_four_levels_pass(body: bytes) -> None:
    assert orjson.dumps(parse_json(body, LIMITS)) == body


def test_brackets_in_strings_are_no_depth() -> None:
    assert parse_json(b'"' + b"[{" * 1000 + b'"', LIMITS) == "[{" * 1000


def test_a_body_of_too_many_containers_is_refused() -> None:
    with pytest.raises(Problem) as caught:
        parse_json(b"[" + b"[]," * 1000 + b"[]]", replace(LIMITS, json_containers=1000))
    assert caught.value.status == 413


@pytest.mark.parametrize(
    "number",
    [
        "0", "-0", "-1", "1.5", "0.1", "-0.0", "1.50", "0.70", "1E2", "1e0", "1E-7", "1e16", "1e+16",
        "18446744073709551615", "-9223372036854775808", "18446744073709551616",
        "-9223372036854775809", "1" * 400, "0.10000000000000000001", "1e400", "-1e400", "1e-400", "3.141592653589793238462643",
        "9007199254740993.0", "1" * 50_000, "0." + "1" * 50_000, "1e99999999999999999999", "123456789012345678901234567890",
    ],
)  # fmt: skip
def test_numbers_go_on_as_they_were_written(number: str) -> None:
    assert orjson.dumps(parse_json(f'{{"n":[{number}]}}'.encode(), LIMITS)) == f'{{"n":[{number}]}}'.encode()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES, st.booleans())
def test_a_value_survives_being_parsed_and_written(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert json.loads(orjson.dumps(parse_json(text, LIMITS))) == value


@given(st.binary(max_size=40) | st.text('[]{}",:\\u0123dDeE.-+ntf ', max_size=30).map(str.encode))
def test_any_bytes_are_a_value_that_can_be_written_or_a_problem(data: bytes) -> None:
    try:
        value = parse_json(data, LIMITS)
    except Problem:
        return
    assert json.loads(data) == json.loads(orjson.dumps(value))


@given(st.binary(max_size=60), st.sampled_from(["gzip", "zstd"]), st.integers(0, 40))
async def test_damaged_codings_are_problems_or_the_same_body(noise: bytes, coding: str, at: int) -> None:
    whole = ENCODERS[coding](BODY)
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    try:
        value = await read(damaged, coded(coding))
    except Problem:
        return
    assert isinstance(value, dict)


async def test_a_body_that_is_cut_over_the_wire_calls_nothing() -> None:
    outcome: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            outcome.append(await read_json(receive, scope[HEAD], LIMITS))
        except Problem as problem:
            outcome.append(problem.reason)
            await refuse(problem, scope[HEAD].request_id, scope, send)

    async with running(app, LIMITS) as server:
        for sent in (
            request("/", "Content-Type: application/json", "Content-Length: 4", method=b"POST", body=b"{}"),
            request(
                "/", "Content-Type: application/json", "Transfer-Encoding: chunked", method=b"POST", body=b"2\r\n{}\r\n"
            ),
        ):
            async with connected(server.port) as connection:
                await connection.send(sent)
                connection.writer.write_eof()
                await connection.rest()
    assert outcome == [Reason.CLIENT_CLOSED, Reason.CLIENT_CLOSED]


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
async def test_a_large_body_does_not_hold_up_the_event_loop(coding: str) -> None:
    large = json.dumps([{"n": n, "text": str(hash(str(n)))} for n in range(150_000)]).encode()
    sent = ENCODERS[coding](large)
    longest = 0.0
    done = asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        while not done.is_set():
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        started = time.perf_counter()
        assert len(await read(sent, coded(coding), Limits())) == 150_000
        taken = time.perf_counter() - started
        done.set()
    assert longest < 0.7 * taken
