"""Forms as they arrive: what is held, what goes on at once, what waits, and what is refused."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

from gateway.errors import Problem, Reason
from gateway.names import RequestId
from gateway.rewrite.forms import FilePart
from gateway.surfaces.spec import FILE, PLAIN, Each, Either, File, Obj
from gateway.transport.budget import Budget
from gateway.transport.forms import Form, is_form, read_form
from gateway.transport.guard import Head, Message
from gateway.transport.limits import Limits
from gateway.transport.spool import PIECE_BYTES, Spools
from tests.forms import BOUNDARY, END, file, form, text

LIMITS = replace(
    Limits(), body_idle_s=0.2, form_total_s=0.5, form_bytes=4_000_000, form_text_bytes=10_000, form_parts=20,
    spool_bytes=2_000_000,
)  # fmt: skip
REQUEST = Obj({"purpose": PLAIN, "file": File(after=("purpose",)), "image": Either(FILE, Each(FILE)), "data": File(())})

PURPOSE = text("purpose", "user_data")
LEASE = Budget(1_000_000).lease()


def head(content_type: str = f"multipart/form-data; boundary={BOUNDARY}", **more: str) -> Head:
    headers = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in more.items()}}
    by_name = {name.encode(): value.encode() for name, value in headers.items()}
    return Head(RequestId("req_1"), "POST", b"/v1/files", b"", tuple(by_name.items()), by_name, "127.0.0.1")


class Sender:
    """Gives a body in pieces, and counts what was taken."""

    def __init__(self, body: bytes, step: int = 1 << 16, *, ends: str = "whole") -> None:
        self.pieces = [body[at : at + step] for at in range(0, len(body), step)] or [b""]
        self.taken = 0
        self.ends = ends

    async def receive(self) -> Message:
        if not self.pieces:
            if self.ends == "stall":
                await asyncio.sleep(60)
            return {"type": "http.disconnect"}
        piece = self.pieces.pop(0)
        self.taken += len(piece)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces) or self.ends != "whole"}


@pytest.fixture
def spools(tmp_path: Path) -> Spools:
    return Spools(tmp_path, Budget(10_000_000))


async def began(
    body: bytes, spools: Spools, of: Head | None = None, limits: Limits = LIMITS, step: int = 1 << 16
) -> Form:
    return await read_form(Sender(body, step).receive, of or head(), limits, REQUEST, spools, LEASE)


async def parts_of(form: Form) -> list[tuple[str, str, bytes]]:
    found = []
    async for part in form.parts():
        if isinstance(part, FilePart):
            found.append((part.name, part.filename, b"".join([piece async for piece in part.content])))
        else:
            found.append((part.name, "", part.text.encode()))
    return found


async def refusal(body: bytes, spools: Spools, of: Head | None = None, limits: Limits = LIMITS) -> Problem:
    """Why the form is refused, by its beginning or later."""
    with pytest.raises(Problem) as caught:
        await parts_of(await began(body, spools, of, limits))
    return caught.value


@pytest.mark.parametrize("step", [1, 2, 3, 7, 50, 1 << 16])
async def test_how_a_form_was_cut_does_not_show(spools: Spools, step: int) -> None:
    data = b"\r\n--" + BOUNDARY.encode()[:-1] + b"\r\n\r\r\n-- end"
    sent = PURPOSE + file("file", data, "a.txt") + text("x[y]", "ü") + END
    form = await began(sent, spools, step=step)
    assert form.value == {"purpose": "user_data"}
    assert await parts_of(form) == [("file", "a.txt", data), ("x[y]", "", "ü".encode())]
    assert form.value == {"purpose": "user_data", "x": {"y": "ü"}}


async def test_a_file_goes_on_while_it_arrives_where_its_purpose_is_known(spools: Spools) -> None:
    sender = Sender(PURPOSE + file("file", bytes(1_000_000)) + END)
    form = await read_form(sender.receive, head(), LIMITS, REQUEST, spools, LEASE)
    assert sender.taken == 1 << 16
    parts = form.parts()
    part = await anext(parts)
    assert isinstance(part, FilePart)
    async for _ in part.content:
        break
    assert sender.taken <= 2 << 16


async def test_a_file_that_comes_before_its_purpose_waits_for_it(spools: Spools) -> None:
    data = os.urandom(1_000_000)
    sender = Sender(file("file", data, "a.bin") + PURPOSE + END)
    form = await read_form(sender.receive, head(), LIMITS, REQUEST, spools, LEASE)
    assert form.value == {"purpose": "user_data"}
    assert not sender.pieces
    assert await parts_of(form) == [("file", "a.bin", data)]
    await form.aclose()
    assert spools.budget.left == 10_000_000


async def test_where_everything_may_decide_all_files_wait(spools: Spools) -> None:
    files = [os.urandom(PIECE_BYTES * 2 + 7), b"", b"b"]
    sent = form(PURPOSE, *[file("image[]", data, f"{n}.png") for n, data in enumerate(files)], text("model", "m"))
    read = await began(sent.content, spools)
    assert read.value == {"purpose": "user_data", "model": "m"}
    assert await parts_of(read) == [("image[]", f"{n}.png", data) for n, data in enumerate(files)]
    await read.aclose()


async def test_a_file_that_must_wait_does_not_follow_one_that_need_not(spools: Spools) -> None:
    problem = await refusal(form(PURPOSE, file("file", b"a"), file("image", b"b")).content, spools)
    assert (problem.reason, problem.param) == (Reason.BAD_PARAMETER, "image")


async def test_what_decides_and_comes_too_late_has_made_the_file_wait(spools: Spools) -> None:
    """A file that may go on at once still waits behind one that may not."""
    sent = form(file("image", b"a"), PURPOSE, file("file", b"b"), text("model", "m"))
    read = await began(sent.content, spools)
    assert read.value == {"purpose": "user_data", "model": "m"}
    assert await parts_of(read) == [("image", "notes.txt", b"a"), ("file", "notes.txt", b"b")]
    await read.aclose()


MALFORMED = {
    "nothing": b"",
    "no boundary": b"hello",
    "no end": PURPOSE,
    "cut in a file": PURPOSE + file("file", b"abc")[:-3],
    "a line break without CR": PURPOSE.replace(b"\r\n", b"\n") + END,
    "bytes before the boundary": b"x" + PURPOSE + END,
    "no name": PURPOSE.replace(b'; name="purpose"', b"") + END,
    "another disposition": PURPOSE.replace(b"form-data", b"attachment") + END,
    "a header twice": PURPOSE.replace(b"\r\n\r\n", b"\r\nContent-Type: a/b\r\nContent-Type: c/d\r\n\r\n") + END,
    "an encoded part": PURPOSE.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n") + END,
    "too many parts": b"".join(text(f"x{n}", "") for n in range(21)) + END,
    "a long header": PURPOSE.replace(b"\r\n\r\n", b"\r\nX: " + b"a" * 5000 + b"\r\n\r\n") + END,
    "a length that is not kept": PURPOSE.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n") + END,
    "a part of text that is no UTF-8": text("x", b"\xff") + END,
    "a file where the table has none": PURPOSE + file("x", b"a") + END,
    "a text where the table has a file": PURPOSE + text("file", "a") + END,
    "a purpose after all": PURPOSE + file("file", b"a") + PURPOSE + END,
    "a purpose in a list": PURPOSE + file("file", b"a") + text("purpose[]", "batch") + END,
    "a second file": PURPOSE + file("file", b"a") + file("file", b"b") + END,
    "a charset": text("_charset_", "utf-7") + END,
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_a_form_that_can_be_read_in_two_ways_or_not_at_all_is_refused(spools: Spools, what: str) -> None:
    problem = await refusal(MALFORMED[what], spools)
    assert (problem.status, problem.reason) in {(400, Reason.BAD_FORM), (400, Reason.BAD_PARAMETER)}
    assert spools.budget.left == 10_000_000


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary="a\tb"',
        f"multipart/form-data; boundary={'a' * 201}",
        f"multipart/mixed; boundary={BOUNDARY}",
        "text/plain",
    ],
)
async def test_a_content_type_that_is_no_forms_is_refused(spools: Spools, content_type: str) -> None:
    assert (await refusal(PURPOSE + END, spools, head(content_type))).reason is Reason.UNSUPPORTED_MEDIA_TYPE


async def test_a_coded_form_is_refused(spools: Spools) -> None:
    problem = await refusal(PURPOSE + END, spools, head(content_encoding="gzip"))
    assert problem.reason is Reason.UNSUPPORTED_ENCODING


async def test_sizes_are_counted_as_they_pass_files_too(spools: Spools) -> None:
    limits = replace(LIMITS, form_bytes=100_000)
    whole = PURPOSE + file("file", bytes(200_000)) + END
    sender = Sender(whole)
    with pytest.raises(Problem) as caught:
        await parts_of(await read_form(sender.receive, head(), limits, REQUEST, spools, LEASE))
    assert caught.value.reason is Reason.BODY_TOO_LARGE
    assert sender.taken <= 100_000 + (1 << 16)
    assert (await refusal(whole, spools, head(content_length="200001"), limits)).reason is Reason.BODY_TOO_LARGE
    assert (await refusal(text("x", "a" * 10_001) + END, spools)).reason is Reason.BODY_TOO_LARGE
    assert (await refusal(file("image", bytes(2_000_001)) + END, spools)).reason is Reason.BODY_TOO_LARGE
    full = Spools(spools.folder, Budget(500_000))
    assert (await refusal(file("image", bytes(600_000)) + END, full)).reason is Reason.SERVER_BUSY
    assert full.budget.left == 500_000


async def test_many_small_files_hold_no_more_than_one(spools: Spools) -> None:
    limits = replace(LIMITS, form_parts=1_000, form_text_bytes=100_000)
    files = [os.urandom(n * 50) for n in range(500)]
    sent = b"".join(file("image[]", data, f"{n}.png") for n, data in enumerate(files)) + END
    read = await began(sent, spools, limits=replace(limits, form_bytes=1 << 24, spool_bytes=1 << 24))
    assert len(read._spool._waiting) < PIECE_BYTES
    assert await parts_of(read) == [("image[]", f"{n}.png", data) for n, data in enumerate(files)]
    await read.aclose()
    names = b"".join(file("image[]", b"", "n" * 2_000) for _ in range(100)) + END
    assert (await refusal(names, spools, limits=limits)).reason is Reason.BODY_TOO_LARGE


async def test_texts_share_the_memory_that_all_bodies_have(spools: Spools) -> None:
    lease, limits = Budget(50_000).lease(), replace(LIMITS, form_text_bytes=1_000_000)
    sender = Sender(text("x", "a" * 200_000) + END)
    with pytest.raises(Problem) as caught:
        await read_form(sender.receive, head(), limits, REQUEST, spools, lease)
    assert caught.value.reason is Reason.SERVER_BUSY


async def test_a_sender_that_leaves_or_stalls_ends_the_form(spools: Spools) -> None:
    whole = PURPOSE + file("file", bytes(200_000)) + END
    for ends, reason in (("gone", Reason.CLIENT_CLOSED), ("stall", Reason.REQUEST_TIMEOUT)):
        sender = Sender(whole[:100_000], ends=ends)
        with pytest.raises(Problem) as caught:
            await parts_of(await read_form(sender.receive, head(), LIMITS, REQUEST, spools, LEASE))
        assert caught.value.reason is reason


async def test_a_dripping_sender_is_ended_by_the_total_time(spools: Spools) -> None:
    async def receive() -> Message:
        await asyncio.sleep(0.05)
        return {"type": "http.request", "body": b"x", "more_body": True}

    limits = replace(LIMITS, form_total_s=0.2)
    with pytest.raises(Problem) as caught:
        await read_form(receive, head(), limits, REQUEST, spools, LEASE)
    assert caught.value.reason in (Reason.REQUEST_TIMEOUT, Reason.BAD_FORM)


async def test_what_follows_the_end_is_taken_and_goes_nowhere(spools: Spools) -> None:
    read = await began(PURPOSE + file("file", b"a") + END + b"\r\nan epilogue", spools, step=40)
    assert await parts_of(read) == [("file", "notes.txt", b"a")]


def test_a_form_is_told_by_its_media_type() -> None:
    assert is_form(head("Multipart/Form-Data; boundary=x"))
    assert not is_form(head("application/json"))


async def test_what_waits_on_disk_is_noise_under_no_name(spools: Spools) -> None:
    data = b"a secret text " * 100_000
    sender = Sender(file("file", data) + PURPOSE + END)
    read = await read_form(
        sender.receive, head(), replace(LIMITS, form_bytes=1 << 24, spool_bytes=1 << 24), REQUEST, spools, LEASE
    )
    assert list(spools.folder.iterdir()) == []
    disk = read._spool._disk
    assert disk is not None
    assert disk._file is not None
    disk._file.seek(0)
    on_disk = await asyncio.to_thread(disk._file.read)
    assert len(on_disk) > 1_000_000
    assert b"secret" not in on_disk
    assert await parts_of(read) == [("file", "notes.txt", data)]
    await read.aclose()


async def test_a_disk_that_takes_nothing_is_told_as_busy(tmp_path: Path) -> None:
    spools = Spools(tmp_path / "gone", Budget(10_000_000))
    assert (await refusal(file("image", bytes(PIECE_BYTES)) + END, spools)).reason is Reason.SERVER_BUSY
    assert await parts_of(await began(form(file("image", b"small")).content, spools))


async def test_what_was_changed_on_disk_is_not_read(spools: Spools) -> None:
    spool = spools.open(None)
    await spool.write(bytes(PIECE_BYTES))
    disk = spool._disk
    assert disk is not None
    assert disk._file is not None
    disk._file.seek(100)
    await asyncio.to_thread(disk._file.write, b"x")
    with pytest.raises(InvalidTag):
        assert not [piece async for piece in spool.read(PIECE_BYTES)]
    spool.close()


async def test_closing_a_spool_in_the_middle_of_its_writing_ends_well(spools: Spools) -> None:
    spool = spools.open(None)
    writing = asyncio.ensure_future(spool.write(bytes(PIECE_BYTES)))
    await asyncio.sleep(0)
    writing.cancel()
    spool.close()
    spool.close()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert spools.budget.left == 10_000_000
