"""Files on their way up and down: in which order the parts of a form may come, what refuses them, and what cuts them off."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from gateway.demo.stand_in.forms import Form as Received
from gateway.demo.stand_in.forms import read
from gateway.errors import Problem, Reason
from gateway.mapping import Mapper
from gateway.names import Owner, Visibility
from gateway.pipeline.exchange import Exchange
from gateway.pipeline.minting import Minting
from gateway.pipeline.transfer import Rewriters, disposition
from gateway.rewrite.id_table import IdTable
from tests.forms import BOUNDARY, END, Form, file, form, text, uploaded
from tests.pipeline.desk import MODEL, Desk
from tests.transport.raw import connected, request

PURPOSE = text("purpose", "user_data")


def received(at: Desk) -> Received:
    """The form that reached the service last."""
    last = at.upstream[-1]
    return read(last.header("content-type") or "", last.body)


async def made(at: Desk, body: Form, who: str = "alice") -> httpx2.Response:
    reply = await at.call("POST", "/files", body, who)
    assert reply.status_code == 200, reply.text
    return reply


# --- up


async def test_the_texts_may_come_before_the_file_or_after_it(at: Desk) -> None:
    data = os.urandom(700_000)
    expiry = text("expires_after[anchor]", "created_at") + text("expires_after[seconds]", "3600")
    for parts in (
        (PURPOSE, expiry, file("file", data)),
        (file("file", data), PURPOSE, expiry),
        (PURPOSE, file("file", data), expiry),
        (expiry, file("file", data), PURPOSE),
    ):
        reply = await made(at, form(*parts))
        assert reply.json()["bytes"] == len(data)
        assert received(at).texts == {
            "purpose": "user_data",
            "expires_after[anchor]": "created_at",
            "expires_after[seconds]": "3600",
        }
        assert received(at).file("file").data == data


@pytest.mark.parametrize("name", ["ümlaut €.txt", "a%22b.txt", "a;b,c=d.txt", "..\\..\\x.txt", " .txt ", "cfile_x.png"])
async def test_a_file_s_name_goes_up_and_comes_down_as_it_was(at: Desk, name: str) -> None:
    reply = await made(at, uploaded(filename=name))
    raw_head = at.upstream[-1].body
    assert f'; filename="{name}"\r\n'.encode() in raw_head
    told = received(at).file("file").filename
    assert reply.json()["filename"] == told
    again = await at.call("GET", f"/files/{reply.json()['id']}")
    assert again.json()["filename"] == told


async def test_headers_that_a_part_brings_stay_here(at: Desk) -> None:
    part = file("file", b"a").replace(b"\r\n\r\n", b"\r\nX-Secret: 7\r\nContent-Length: 1\r\n\r\n")
    await made(at, form(PURPOSE.replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\n\r\n"), part))
    sent = at.upstream[-1]
    assert b"secret" not in sent.body.lower()
    assert b"content-length" not in sent.body.lower()
    assert b"application/json" not in sent.body
    assert BOUNDARY.encode() not in sent.body
    assert sent.header("transfer-encoding") == "chunked"


LATE = {
    "a raw ID": (text("x_new", "resp_" + "0a1b2c3d4e" * 5), 404),
    "a raw ID in JSON": (text("x_new", '{"id": "resp_' + "0a1b2c3d4e" * 5 + '"}'), 404),
    "what a policy looks at": (text("stream", "true"), 400),
    "a model": (text("model", MODEL), 400),
    "the purpose again": (text("purpose", "batch"), 400),
    "a second file": (file("file", b"b"), 400),
    "a file where there is none": (file("x", b"b"), 400),
    "nothing at all": (b"--" + BOUNDARY.encode() + b"\r\n\r\n", 400),
}


@pytest.mark.parametrize("what", LATE)
async def test_what_may_not_follow_a_file_ends_the_upload_before_anything_is_made(at: Desk, what: str) -> None:
    part, status = LATE[what]
    reply = await at.call("POST", "/files", form(PURPOSE, file("file", bytes(300_000)), part))
    assert reply.status_code == status, reply.text
    assert not at.stand_in.provider.files
    assert all(not one.status for one in at.upstream)
    assert (await at.outcomes(reply.headers["x-request-id"]))[-1][0] == "deny"
    assert (await at.call("GET", "/models")).status_code == 200


async def test_a_purpose_that_is_said_in_another_way_is_refused(at: Desk) -> None:
    for name in ("purpose[]", "purpose[0]", "purpose[x]"):
        for parts in ((text(name, "batch"), file("file", b"{}")), (file("file", b"{}"), text(name, "batch"))):
            reply = await at.call("POST", "/files", form(*parts))
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, "purpose")
    assert not at.upstream


async def test_what_a_form_asks_is_decided_by_policies_wherever_it_stands(at: Desk) -> None:
    """`model` decides, and this file waits for it."""
    for parts in (
        (file("file", b"a"), text("model", "ft:gpt-4o:x::y")),
        (text("model", "ft:gpt-4o:x::y"), file("file", b"a")),
    ):
        reply = await at.call("POST", "/audio/transcriptions", form(*parts))
        assert reply.status_code == 404
    assert not at.upstream


async def test_a_tokens_place_in_a_form_is_hashed_and_its_echo_restored(at: Desk) -> None:
    picture = form(text("prompt", "a coat"), file("image", b"a"), text("safety_identifier", "alice@example.org"))
    reply = await at.call("POST", "/images/edits", picture)
    assert reply.json()["safety_identifier"] == "alice@example.org"
    assert received(at).texts["safety_identifier"] not in ("alice@example.org", "")


async def test_a_form_needs_a_form_and_json_json(at: Desk) -> None:
    for path in ("/files", "/audio/transcriptions", "/images/variations"):
        assert (await at.call("POST", path, {"purpose": "user_data"})).status_code == 415
    for path in ("/responses", "/uploads", "/embeddings"):
        assert (await at.call("POST", path, uploaded())).status_code == 415
    assert not at.upstream


async def streamed(at: Desk, parts: AsyncIterator[bytes] | Sequence[bytes], who: str = "alice") -> httpx2.Response:
    async def content() -> AsyncIterator[bytes]:
        if isinstance(parts, AsyncIterator):
            async for part in parts:
                yield part
        else:
            for part in parts:
                yield part

    headers = await at.headers(who, content_type=f"multipart/form-data; boundary={BOUNDARY}")
    return await at.http.request("POST", at.gateway.url + "/files", headers=headers, content=content())


async def test_a_form_without_a_length_is_taken_too(at: Desk) -> None:
    reply = await streamed(at, [PURPOSE, file("file", bytes(100_000)), END])
    assert reply.json()["bytes"] == 100_000


@pytest.mark.parametrize("first", [PURPOSE, b""])
async def test_a_client_that_leaves_in_the_middle_of_its_file_leaves_nothing(at: Desk, first: bytes) -> None:
    headers = await at.headers()
    lines = (
        f"Authorization: {headers['authorization']}",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}",
        "Content-Length: 1000000",
    )
    async with connected(at.port) as connection:
        await connection.send(request("/v1/files", *lines, method=b"POST") + first + file("file", bytes(200_000))[:-2])
        await asyncio.sleep(0.2)

    async def told() -> bool:
        return await at.last_outcome() == ("error", "client_closed")

    await at.until(told)
    assert not at.stand_in.provider.files
    assert await at.unanswered() == []
    assert at.gateway.app.spools.budget.left == at.gateway.gateway.limits.spools_bytes


async def test_an_answer_that_comes_before_the_file_s_end_is_the_clients(at: Desk) -> None:
    """The service refuses a purpose that it does not know when it has read it all; a failure of its own comes earlier."""
    reply = await at.call("POST", "/files", form(text("purpose", "no-such"), file("file", bytes(300_000))))
    assert reply.status_code == 400
    assert (await at.outcomes(reply.headers["x-request-id"]))[-1] == ("error", "upstream_error", 400)


async def test_a_refusal_reaches_a_sender_that_is_still_sending(at: Desk) -> None:
    big = uploaded(bytes(30_000_000))
    headers = {"authorization": "Bearer cck_nobody", "content-type": big.content_type}
    reply = await at.http.post(f"{at.gateway.url}/files", headers=headers, content=big.content)
    assert reply.status_code == 401
    elsewhere = form(PURPOSE, file("x", bytes(30_000_000)))
    assert (await at.call("POST", "/files", elsewhere)).status_code == 400
    assert not at.upstream


# --- down


async def test_a_download_is_bytes_and_headers_that_are_the_gateways_own(at: Desk) -> None:
    data = os.urandom(300_000)
    made_id = (await made(at, uploaded(data, filename="a b.bin"))).json()["id"]
    reply = await at.call("GET", f"/files/{made_id}/content", range="bytes=0-5")
    assert reply.content == data
    assert reply.status_code == 200
    assert at.upstream[-1].header("range") is None
    assert reply.headers["content-disposition"] == 'attachment; filename="a b.bin"'
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert {
        name for name in reply.headers if name.startswith(("openai-org", "openai-pro", "cf-", "set-cookie"))
    } == set()
    assert await at.outcomes(reply.headers["x-request-id"]) == [("allow", "", 200)]


async def test_the_log_says_how_many_bytes_were_downloaded(at: Desk) -> None:
    made_id = (await made(at, uploaded(bytes(123_456)))).json()["id"]
    reply = await at.call("GET", f"/files/{made_id}/content")
    (event,) = [
        one
        for one in await at.log()
        if one["outcome"] and (one["request"] or {}).get("id") == reply.headers["x-request-id"]
    ]
    assert event["request"]["bytes_out"] == 123_456


@pytest.mark.parametrize("media_type", ["text/html", "image/svg+xml", "application/javascript", "nonsense"])
async def test_what_a_browser_could_run_comes_as_octets(at: Desk, media_type: str) -> None:
    made_id = (await made(at, uploaded())).json()["id"]
    (stored,) = at.stand_in.provider.files.values()
    stored.body["filename"], stored.media_type = 'x".html', media_type
    reply = await at.call("GET", f"/files/{made_id}/content")
    assert reply.headers["content-type"] == "application/octet-stream"
    assert reply.headers["content-disposition"].startswith("attachment; filename=")


SAID = {
    b"": "attachment",
    b'attachment; filename="a.txt"': 'attachment; filename="a.txt"',
    b"inline; filename=a.txt": 'attachment; filename="a.txt"',
    b"attachment; filename*=utf-8''%C3%BC%22.txt": "attachment; filename=\"__.txt\"; filename*=UTF-8''%C3%BC%22.txt",
    'attachment; filename="ü.txt"'.encode(): "attachment; filename=\"_.txt\"; filename*=UTF-8''%C3%BC.txt",
    b'attachment; filename="\xfc.txt"': "attachment",
    b"attachment; filename*=latin-1''%FC.txt; filename=a": 'attachment; filename="a"',
    b"attachment; filename=b; filename*=UTF-8'de'a.txt": 'attachment; filename="a.txt"',
    b"attachment; filename*=utf-8''%FC.txt": "attachment",
    b'attachment; filename="a\tb\x7f.txt"': 'attachment; filename="ab.txt"',
    b'attachment; filename="batch_0123456789abcdef0123_output.jsonl"': "replaced",
    b"attachment; filename=batch_0123456789abcdef0123.jsonl": "replaced",
}
"""What the upstream says → what the client reads."""


@pytest.mark.parametrize("said", SAID)
async def test_a_downloads_name_is_written_anew_and_holds_no_raw_id(at: Desk, said: bytes) -> None:
    await made(at, uploaded())
    deployment, unlocked = at.gateway.gateway.shared.keyring.at_hand(await at.tenant()) or (None, None)
    assert deployment
    assert unlocked
    mapper = Mapper(deployment, unlocked, "openai", "default")
    table = IdTable(Minting(mapper, Owner("local", "alice"), Visibility.PRIVATE, {}))
    shown = disposition(said, table).decode()
    if SAID[said] == "replaced":
        assert "batch_0123456789abcdef0123" not in shown
        assert re.fullmatch(r'attachment; filename="batch_[0-9A-Za-z]{34}(_output)?\.jsonl"', shown)
    else:
        assert shown == SAID[said]


async def test_a_download_that_breaks_off_is_never_taken_for_whole(at: Desk) -> None:
    made_id = (await made(at, uploaded(bytes(2_000_000)))).json()["id"]
    at.script("cut=1000000")
    headers = await at.headers()
    got = b""

    async def download() -> None:
        nonlocal got
        async with at.http.stream("GET", f"{at.gateway.url}/files/{made_id}/content", headers=headers) as reply:
            assert reply.status_code == 200
            async for piece in reply.aiter_bytes():
                got += piece

    with pytest.raises(httpx2.RemoteProtocolError):
        await download()
    assert got == bytes(len(got))
    assert await at.last_outcome() == ("error", "upstream_bad_answer")
    assert await at.unanswered() == []


async def test_a_download_that_fails_before_its_first_byte_is_an_error_answer(at: Desk) -> None:
    made_id = (await made(at, uploaded())).json()["id"]
    at.script("close")
    at.script("close")
    at.script("close")
    reply = await at.call("GET", f"/files/{made_id}/content")
    assert reply.status_code == 503
    at.stand_in.provider.files.clear()
    at.stand_in.provider.ids.attachable.clear()
    reply = await at.call("GET", f"/files/{made_id}/content")
    assert reply.status_code == 404
    assert "file-" not in reply.json()["error"]["message"].replace(made_id, "")


async def test_a_reader_that_leaves_a_download_ends_it(at: Desk) -> None:
    made_id = (await made(at, uploaded(bytes(20_000_000)))).json()["id"]
    at.script("split=100000")
    headers = await at.headers()
    async with at.http.stream("GET", f"{at.gateway.url}/files/{made_id}/content", headers=headers) as reply:
        async for _ in reply.aiter_bytes():
            break

    async def told() -> bool:
        return await at.last_outcome() == ("error", "client_closed")

    await at.until(told)
    assert at.upstream[-1].bytes_sent < 20_000_000
    assert await at.unanswered() == []


# --- what stands in the way


class Upper:
    """Gives pieces late and in capitals."""

    def __init__(self, refuses: bytes = b"") -> None:
        self.held = b""
        self.refuses = refuses
        self.closed = False

    async def feed(self, piece: bytes) -> bytes:
        await asyncio.sleep(0)
        if self.refuses and self.refuses in piece:
            raise Problem(Reason.BAD_PARAMETER, "no such word")
        given, self.held = self.held, piece.upper()
        return given

    async def end(self) -> bytes:
        return self.held

    def close(self) -> None:
        self.closed = True


async def rewriting(at: Desk, rewriters: Rewriters) -> None:
    app: Any = at.gateway.app
    answering = replace(app.pipeline.answering, rewriters=rewriters)
    object.__setattr__(app, "pipeline", replace(app.pipeline, answering=answering))


async def test_a_file_of_a_purpose_passes_through_its_rewriter_and_may_be_refused_there(at: Desk) -> None:
    rewriter = [Upper(), Upper(b"secret")]

    def chosen(exchange: Exchange) -> Upper:
        return rewriter.pop(0)

    await rewriting(at, Rewriters({"vision": chosen}))
    first, second = rewriter
    await made(at, uploaded(b"keep my coat", "vision"))
    assert received(at).file("file").data == b"KEEP MY COAT"
    reply = await at.call("POST", "/files", uploaded(b"a secret" + bytes(200_000), "vision"))
    assert (reply.status_code, reply.json()["error"]["message"]) == (400, "Invalid request: no such word.")
    assert len(at.stand_in.provider.files) == 1
    await made(at, uploaded(b"keep my coat"))
    assert received(at).file("file").data == b"keep my coat"
    assert (first.closed, second.closed) == (True, True)
