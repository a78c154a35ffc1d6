"""What a file to train on holds passes as it is, and names nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from tests.forms import uploaded
from tests.pipeline.desk import Desk

RAW = "file-" + "x1" * 11


async def upload(at: Desk, data: bytes, purpose: str = "fine-tune") -> httpx2.Response:
    return await at.call("POST", "/files", uploaded(data, purpose, "examples.jsonl"))


def example(**more: Any) -> bytes:
    said = {"role": "user", "content": "A coat, please"}
    return json.dumps({"messages": [said, {"role": "assistant", "content": f"As in {RAW}."}], **more}).encode()


@pytest.mark.parametrize(
    "data",
    [
        example() + b"\r\n\n  " + example(tools=[], weight=1.0, seed=2**64) + b"\n",
        example(),
        b'{"prompt":"' + RAW.encode() + b'","completion":"x"}\n{}\n',
        b'{"input":{"messages":[]},"preferred_output":[],"non_preferred_output":[]}\n',
        b"",
    ],
)
async def test_examples_pass_as_they_are(at: Desk, data: bytes) -> None:
    made = await upload(at, data)
    assert made.status_code == 200, made.text
    (stored,) = at.stand_in.provider.files.values()
    assert stored.data == data
    assert (await at.call("GET", f"/files/{made.json()['id']}/content")).content == data


def _named(raw: str) -> dict[str, bytes]:
    part = {"type": "file", "file": {"file_id": raw}}
    unknown = {"type": "image_file", "image_file": {"file_id": raw}}
    message = {"role": "user", "content": [part]}
    return {
        "a file": example(messages=[message]),
        "a file in a preference": json.dumps({"input": {"messages": [message]}, "preferred_output": []}).encode(),
        "a part that nobody knows": example(messages=[{"role": "user", "content": [unknown]}]),
        "a field that nobody knows": example(reference={"ids": [raw]}),
    }


@pytest.mark.parametrize("what", _named(RAW))
async def test_an_example_that_names_a_file_refuses_all_of_them(at: Desk, what: str) -> None:
    reply = await upload(at, example() + b"\n" + _named(RAW)[what] + b"\n" + example())
    assert reply.status_code in (400, 404), reply.text
    assert reply.json()["error"]["message"].startswith("Line 2: ")
    assert at.stand_in.provider.files == {}


async def test_ones_own_file_cannot_be_named_either(at: Desk) -> None:
    own = (await upload(at, b"notes", "user_data")).json()["id"]
    reply = await upload(at, _named(own)["a file"])
    assert reply.status_code == 400
    assert reply.json()["error"]["message"] == "Line 1: Invalid request: an example to train on can name no object."


@pytest.mark.parametrize("end", ["\u0085", "\u2028", "\u2029"])
async def test_what_other_readers_take_for_a_lines_end_goes_up_escaped(at: Desk, end: str) -> None:
    """Between two of them could stand a line that names a file."""
    said = f"a{end}{_named(RAW)['a file'].decode()}{end}b"
    data = json.dumps({"prompt": said, "completion": ""}, ensure_ascii=False).encode()
    for first in (len(data), data.index(end.encode()) + 1):
        form = uploaded(data, "fine-tune")
        at_byte = form.content.index(data) + first

        async def pieces(content: bytes = form.content, cut: int = at_byte) -> AsyncIterator[bytes]:
            yield content[:cut]
            yield content[cut:]

        headers = await at.headers(content_type=form.content_type)
        reply = await at.http.post(f"{at.gateway.url}/files", headers=headers, content=pieces())
        assert reply.status_code == 200, reply.text
        stored = [*at.stand_in.provider.files.values()][-1].data
        assert len(stored.decode().splitlines()) == 1
        assert json.loads(stored) == json.loads(data)


async def test_no_line_stands_within_an_example_for_who_ends_lines_at_a_cr(at: Desk) -> None:
    hidden = _named(RAW)["a file"]
    reply = await upload(at, example() + b'\r\n{"prompt":\r' + hidden + b'\r,"completion":""}\r\n')
    assert reply.status_code == 200, reply.text
    (stored,) = at.stand_in.provider.files.values()
    assert hidden not in stored.data.splitlines()
    assert stored.data.count(b"\r\n") == stored.data.count(b"\r") == 2


@pytest.mark.parametrize("data", [b'{"messages":[],"messages":[]}', b"{", b"\xef\xbb\xbf{}", b"[" * 100 + b"]" * 100])
async def test_what_two_readers_could_read_differently_is_refused(at: Desk, data: bytes) -> None:
    reply = await upload(at, example() + b"\n" + data)
    assert reply.status_code == 400
    assert reply.json()["error"]["message"].startswith("Line 2: ")
    assert at.stand_in.provider.files == {}
