"""Each line of a batch's file may do what the same request could, and no more; its answer reads as the same answer would."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.admin.administration import AdminEvent
from gateway.admin.keys import revoke_key
from gateway.authn.api_key_form import KeyId
from gateway.mapping import Mapper
from gateway.names import Kind, Owner, Visibility
from gateway.stores.contract import Mode
from gateway.upstreams.fleet import FIRST
from tests.forms import file, form, text
from tests.pipeline.batches import RESPONSES, content, create, line, lines_of, run, spell, stored, upload, uploaded
from tests.pipeline.desk import MODEL, Desk
from tests.pipeline.test_round_trips import counted

CHECKPOINTS = 20
"""Calls of the log's own that may fall into the time of a test; far fewer than there are lines."""

RAW = re.compile(rb"(?:resp|msg|batch|req|batch_req|conv|rs|file|org|proj|chatcmpl|modr)[_-][0-9A-Za-z]{20,}")


async def test_ids_in_lines_go_up_raw_and_answers_come_back_opaque(at: Desk) -> None:
    first = await at.created()
    ended = await run(at, line("a", previous_response_id=first["id"]), line("b", metadata={"k": "v"}))
    (sent,) = stored(at)
    assert first["id"].encode() not in sent
    raws = {json.loads(one)["body"].get("previous_response_id") for one in sent.splitlines()}
    assert raws - {None} <= set(at.stand_in.provider.responses)
    a, b = await lines_of(at, ended["output_file_id"])
    assert (a["custom_id"], b["custom_id"]) == ("a", "b")
    assert a["response"]["body"]["previous_response_id"] == first["id"]
    assert b["response"]["body"]["metadata"] == {"k": "v"}


async def test_what_a_line_made_is_its_owners_like_any_other(at: Desk) -> None:
    ended = await run(at, line())
    (made,) = await lines_of(at, ended["output_file_id"])
    response = made["response"]["body"]
    item = response["output"][0]["id"]
    assert (await at.call("GET", f"/responses/{response['id']}")).json()["id"] == response["id"]
    assert (await at.create(input=[{"type": "item_reference", "id": item}])).status_code == 200
    assert (await at.create(previous_response_id=response["id"])).status_code == 200
    for stranger in ("carol", "bob"):
        reply = await at.call("GET", f"/responses/{response['id']}", who=stranger)
        assert reply.status_code == 404


async def test_the_files_of_a_batch_are_its_owners_alone(at: Desk) -> None:
    ended = await run(at, line("good"), line("bad", model="no-such-model"))
    for name in ("output_file_id", "error_file_id"):
        assert (await content(at, ended[name])).status_code == 200
        for stranger in ("carol", "bob"):
            assert (await content(at, ended[name], stranger)).status_code == 404
    for stranger in ("carol", "bob"):
        assert (await at.call("GET", f"/batches/{ended['id']}", who=stranger)).status_code == 404
        assert (await at.call("POST", f"/batches/{ended['id']}/cancel", who=stranger)).status_code == 404


async def test_a_file_that_only_a_list_has_shown_is_its_owners_too(at: Desk) -> None:
    made = (await create(at, await uploaded(at, line()))).json()
    await at.call("GET", "/batches")
    (row,) = (await at.call("GET", "/batches")).json()["data"]
    assert (row["id"], row["status"]) == (made["id"], "completed")
    (answer,) = await lines_of(at, row["output_file_id"])
    assert (await at.call("GET", f"/responses/{answer['response']['body']['id']}")).status_code == 200
    assert (await content(at, row["output_file_id"], "carol")).status_code == 404


async def test_an_error_line_speaks_without_the_services_ids(at: Desk) -> None:
    ended = await run(at, line("bad", model="no-such-model"), line("quoting", input="[[script: status=500, quote]]"))
    reply = await content(at, ended["error_file_id"])
    assert not {raw.encode() for raw in at.stand_in.provider.issued} & set(RAW.findall(reply.content))
    bad = json.loads(reply.content.splitlines()[0])
    assert bad["response"]["status_code"] == 404
    assert bad["response"]["body"]["error"]["code"] == "model_not_found"
    assert at.stand_in.provider.project not in reply.text


async def test_nothing_raw_stands_in_a_batch_or_its_files(at: Desk) -> None:
    ended = await run(at, line("a"), line("b", model="no-such-model"))
    files = [(await content(at, ended[name])).content for name in ("input_file_id", "output_file_id", "error_file_id")]
    for data in (json.dumps(ended).encode(), *files):
        for raw in at.stand_in.provider.issued:
            assert raw.encode() not in data


async def test_the_file_of_a_batch_reads_back_with_the_ids_that_were_sent(at: Desk) -> None:
    first = await at.created()
    sent = line("a", previous_response_id=first["id"], prompt_cache_key="shelf", user="u")
    file = await uploaded(at, sent)
    (back,) = await lines_of(at, file)
    assert back["custom_id"] == "a"
    assert back["body"]["previous_response_id"] == first["id"]
    assert back["body"]["input"] == "hello"
    assert back["body"]["safety_identifier"] is None or back["body"]["safety_identifier"] != "u"


# --- what may not pass


def _refusals(theirs: str, raw: str) -> dict[str, tuple[dict[str, Any], int, str]]:
    """Place by place: a line that names `theirs` there, and the answer to it."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_file", "file_id": "file-" + "x1" * 11}]}
    return {
        "foreign": (line(previous_response_id=theirs), 400, "previous_response_not_found"),
        "raw": (line(previous_response_id=raw), 400, "previous_response_not_found"),
        "unknown": (line(previous_response_id="resp_nothing"), 400, "previous_response_not_found"),
        "raw in a field that nobody knows": (line(x_new={"ref": [raw]}), 404, "not_found"),
        "raw file in an item": (line(input=[item]), 404, ""),
        "foreign in a conversation": (line(conversation={"id": theirs.replace("resp_", "conv_")}), 404, ""),
        "reference to an item": (line(input=[{"type": "item_reference", "id": raw}]), 404, ""),
        "a store in a tool": (
            line(tools=[{"type": "file_search", "vector_store_ids": ["vs_" + "a1" * 16]}]),
            404,
            "",
        ),
    }


@pytest.mark.parametrize("what", list(_refusals("resp_", "resp_")))
async def test_an_id_that_is_not_the_callers_refuses_the_whole_file_and_names_the_line(at: Desk, what: str) -> None:
    theirs = (await at.created(who="bob"))["id"]
    raw = next(iter(at.stand_in.provider.responses))
    bad, status, code = _refusals(theirs, raw)[what]
    reply = await upload(at, line("one"), line("two"), bad, line("four"))
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert error["message"].startswith("Line 3: ")
    assert not code or error["code"] == code
    assert stored(at) == []


async def test_a_line_of_a_colleague_refuses_like_one_of_a_stranger(at: Desk) -> None:
    texts = []
    for who in ("carol", "bob"):
        theirs = (await at.created(who=who))["id"]
        reply = await upload(at, line(previous_response_id=theirs))
        texts.append((reply.status_code, reply.text.replace(theirs, "")))
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (line(url="/v1/files"), "method and url"),
        (line(url="/v1/responses/"), "method and url"),
        (line(url="https://api.openai.com/v1/responses"), "method and url"),
        (line(url="/v1/responses?x=1"), "method and url"),
        (line(url="/v1/responses/compact"), "method and url"),
        (line(method="GET"), "method and url"),
        (line(method="post"), "method and url"),
        ({**line(), "url": ["/v1/responses"]}, "method and url"),
        (line(url="/v1/embeddings"), "the same url"),
        ({**line(), "x": 1}, "custom_id, method, url and body"),
        ({"method": "POST", "url": RESPONSES, "body": {}}, "custom_id, method, url and body"),
        ({**line(), "custom_id": 7}, "a string"),
        ({**line(), "body": []}, "an object"),
        ({**line(), "body": "x"}, "an object"),
        ([line()], "custom_id, method, url and body"),
        (line(stream=True), "in a file"),
        (line(stream="true"), "in a file"),
        (line(background=True), "in a file"),
        (line(encrypted_content="made up"), "could not be verified"),
    ],
)
async def test_what_is_no_request_that_a_batch_runs_is_refused(at: Desk, bad: Any, says: str) -> None:
    reply = await upload(at, line("one"), bad)
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["message"].startswith("Line 2: ")
    assert says in reply.json()["error"]["message"]
    assert stored(at) == []


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b'\xef\xbb\xbf{"custom_id":1}\n', 1),
        (spell(line())[:-1] + spell(line()), 1),
        (spell(line()) + spell(line())[:-2] + b',"url":"/v1/files"}\n', 2),
        (spell(line()) + b"{\n", 2),
        (spell(line()) + b'{"a":NaN}\n', 2),
        (spell(line()) + b"\xff\xfe\n", 2),
        (spell(line()) + b"[" * 100 + b"]" * 100 + b"\n", 2),
        (spell(line()) + b"\n\n" + b"x", 4),
        (spell(line())[:-1] + b"\r" + spell(line("two")), 1),
    ],
    ids=["bom", "two values", "a key twice", "cut", "nan", "no text", "deep", "no end", "cr alone"],
)
async def test_a_line_that_two_readers_could_read_differently_is_refused(at: Desk, data: bytes, number: int) -> None:
    reply = await upload(at, content=data)
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["message"].startswith(f"Line {number}: ")
    assert stored(at) == []


async def test_windows_line_ends_blank_lines_and_no_end_at_the_end_are_taken(at: Desk) -> None:
    one, two = spell(line("one"))[:-1], spell(line("two"))[:-1]
    await uploaded(at, content=b"\r\n" + one + b"\r\n\n \n" + two)
    (sent,) = stored(at)
    assert [json.loads(each)["custom_id"] for each in sent.splitlines()] == ["one", "two"]
    assert b"\r" not in sent


async def test_a_file_without_a_line_is_refused(at: Desk) -> None:
    for data in (b"", b"\n\n"):
        reply = await upload(at, content=data)
        assert (reply.status_code, stored(at)) == (400, [])


async def test_a_file_that_comes_before_its_purpose_is_checked_all_the_same(at: Desk) -> None:
    first = (await at.created())["id"]
    for previous in (first, "resp_nothing"):
        data = file("file", spell(line("a"), line("b", previous_response_id=previous)))
        reply = await at.call("POST", "/files", form(data, text("purpose", "batch")))
        if previous == first:
            assert reply.status_code == 200, reply.text
        else:
            assert reply.json()["error"]["message"].startswith("Line 2: ")
    (sent,) = stored(at)
    assert first.encode() not in sent


async def test_two_purposes_are_one_too_many(at: Desk) -> None:
    data, harmless = file("file", spell(line(previous_response_id="resp_x"))), text("purpose", "user_data")
    for parts in ((harmless, text("purpose", "batch"), data), (harmless, data, text("purpose", "batch"))):
        reply = await at.call("POST", "/files", form(*parts))
        assert reply.status_code == 400, reply.text
    assert at.stand_in.provider.files == {}


async def test_how_a_file_is_cut_on_its_way_changes_nothing(at: Desk) -> None:
    data = spell(*(line(f"n{n}", input="ü" * n) for n in range(40)))
    for size in (1, 7, 1000, len(data)):
        parts = form(text("purpose", "batch"), file("file", data))

        async def pieces(content: bytes = parts.content, step: int = size) -> AsyncIterator[bytes]:
            for start in range(0, len(content), step):
                yield content[start : start + step]

        headers = await at.headers(content_type=parts.content_type)
        reply = await at.http.post(f"{at.gateway.url}/files", headers=headers, content=pieces())
        assert reply.status_code == 200, reply.text
    assert len(stored(at)) == 4
    assert len(set(stored(at))) == 1


async def test_an_endless_line_is_refused(at: Desk) -> None:
    reply = await upload(at, content=spell(line()) + b'{"custom_id":"' + b"x" * 17 * 1024 * 1024)
    assert reply.status_code == 413
    assert reply.json()["error"]["message"].startswith("Line 2: ")
    assert stored(at) == []


async def test_user_text_that_other_readers_take_for_line_ends_stays_in_its_line(at: Desk) -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\nf"
    await uploaded(at, line(input=text))
    (sent,) = stored(at)
    assert len(sent.decode().splitlines()) == 1
    assert json.loads(sent)["body"]["input"] == text


async def test_numbers_go_up_as_they_were_written(at: Desk) -> None:
    whole = spell(line())[:-3] + b',"temperature":1.0,"top_p":0.1,"seed":9223372036854775809}}\n'
    await uploaded(at, content=whole)
    assert b'"temperature":1.0,"top_p":0.1,"seed":9223372036854775809' in stored(at)[0]


# --- what a batch may run


async def test_a_batch_runs_no_file_whose_lines_were_not_checked(at: Desk) -> None:
    for purpose in ("user_data", "fine-tune"):
        file = (await upload(at, line(), purpose=purpose)).json()["id"]
        reply = await create(at, file)
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == "input_file_id"
    assert at.stand_in.provider.batches == {}


async def test_a_model_reads_no_file_of_a_batch(at: Desk) -> None:
    """The IDs in it are raw where the service keeps it."""
    first = await at.created()
    ended = await run(at, line(previous_response_id=first["id"]), line("bad", model="no-such-model"))
    for name in ("input_file_id", "output_file_id", "error_file_id"):
        named = {"type": "input_file", "file_id": ended[name]}
        asked: dict[str, Any] = {"input": [{"type": "message", "role": "user", "content": [named]}]}
        before = len(at.upstream)
        for reply in (
            await at.create(**asked),
            await upload(at, line(**asked)),
            await at.call("POST", "/vector_stores", {"file_ids": [ended[name]]}),
            await at.call("POST", "/containers", {"name": "x", "file_ids": [ended[name]]}),
        ):
            assert reply.status_code == 404, reply.text
        assert [one for one in at.upstream[before:] if one.path != "/v1/files"] == []


async def test_a_batch_runs_no_file_that_a_batch_made(at: Desk) -> None:
    ended = await run(at, line())
    for endpoint in ("answers", RESPONSES):
        assert (await create(at, ended["output_file_id"], endpoint=endpoint)).status_code == 400
    assert len(at.stand_in.provider.batches) == 1


async def test_a_batch_runs_no_file_of_a_stranger(at: Desk) -> None:
    file = await uploaded(at, line())
    for who in ("carol", "bob"):
        assert (await create(at, file, who)).status_code == 404
    assert at.stand_in.provider.batches == {}


@pytest.mark.parametrize("endpoint", ["/v1/chat/completions", "/v1/responses/", "", None, ["/v1/responses"], 1])
async def test_a_batch_runs_lines_as_what_they_were_checked_for(at: Desk, endpoint: Any) -> None:
    """Embeddings take any text, so what passed as one must not become a response."""
    file = await uploaded(at, line(url="/v1/embeddings", input=[{"type": "item_reference", "id": "msg_" + "0a" * 24}]))
    assert (await create(at, file, endpoint=endpoint)).status_code == 400
    assert (await create(at, file)).status_code == 400
    assert (await create(at, file, endpoint="/v1/embeddings")).status_code == 200
    assert len(at.stand_in.provider.batches) == 1


async def test_a_batch_of_chats_keeps_what_its_lines_ask_to_keep(at: Desk) -> None:
    def chat(custom_id: str, **more: Any) -> dict[str, Any]:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], **more}
        return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}

    for store, status in ((True, 200), (None, 404)):
        more = {} if store is None else {"store": store}
        ended = await run(at, chat("a", **more), endpoint="/v1/chat/completions")
        (made,) = await lines_of(at, ended["output_file_id"])
        assert made["response"]["body"]["object"] == "chat.completion"
        reply = await at.call("GET", f"/chat/completions/{made['response']['body']['id']}")
        assert reply.status_code == status


async def test_every_endpoint_answers_in_lines(at: Desk) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/v1/embeddings": {"model": "text-embedding-3-small", "input": "x"},
        "/v1/completions": {"model": MODEL, "prompt": "x"},
        "/v1/moderations": {"input": "x"},
        "/v1/images/generations": {"model": "gpt-image-1", "prompt": "x"},
        "/v1/images/edits": {"model": "gpt-image-1", "prompt": "x", "images": [{"image_url": "data:,"}]},
    }
    for url, body in bodies.items():
        ended = await run(at, {"custom_id": "a", "method": "POST", "url": url, "body": body}, endpoint=url)
        (made,) = await lines_of(at, ended["output_file_id"])
        assert made["response"]["status_code"] == 200, made


async def test_a_file_that_the_tenant_shares_is_run_by_its_owner_alone(at: Desk) -> None:
    """Its lines name what its owner may use, and were allowed to its owner."""
    file = await uploaded(at, line())
    keyring, tenant = at.gateway.gateway.shared.keyring, await at.tenant()
    mapper = Mapper(await keyring.deployment(), await keyring.tenant(tenant), FIRST, "default")
    (raw,) = at.stand_in.provider.files
    root = mapper.root(
        Kind.FILE, raw, owner=Owner("local", "alice"), visibility=Visibility.TENANT, parent=b"", now=int(time.time())
    )
    root.lines = RESPONSES
    async with at.admin.recorded(tenant, AdminEvent.ID_ADOPT) as recording:
        await recording.write(replace(mapper.write_root(root, Mode.CREATE), mode=Mode.TOMBSTONE))
    assert (await at.call("GET", f"/files/{file}", who="carol")).status_code == 200
    assert (await create(at, file, "carol")).status_code == 400
    assert (await create(at, file, "bob")).status_code == 404
    assert at.stand_in.provider.batches == {}
    assert (await create(at, file)).status_code == 200


async def test_the_end_user_is_told_for_each_line(at: Desk) -> None:
    await uploaded(at, line("a"), line("b", safety_identifier="someone"))
    a, b = (json.loads(one)["body"]["safety_identifier"] for one in stored(at)[0].splitlines())
    assert len({a, b, "someone"}) == 3


@pytest.mark.parametrize(
    "closed",
    [
        {"model": "davinci:ft-acme-2023"},
        {"tools": [{"type": "a_tool_of_tomorrow"}]},
        {"input": [{"type": "tool_search_output", "tools": [{"type": "a_tool_of_tomorrow"}], "execution": "server"}]},
    ],
    ids=["model", "tool", "tool in an item"],
)
async def test_what_a_policy_closes_to_a_request_is_closed_to_a_line(at: Desk, closed: dict[str, Any]) -> None:
    alone = await at.create(**closed)
    reply = await upload(at, line("a"), line("b", **closed))
    assert (alone.status_code, reply.status_code) == (403, 403), reply.text
    assert reply.json()["error"] == {
        **alone.json()["error"],
        "message": f"Line 2: {alone.json()['error']['message']}",
    }
    assert stored(at) == []


async def test_the_log_tells_what_lines_named_and_which_one_was_refused(at: Desk) -> None:
    first = (await at.created())["id"]
    await uploaded(at, line(previous_response_id=first))
    events = [one for one in await at.log() if one["type"] == "files.create"]
    assert [(one["phase"], one["outcome"] and one["outcome"]["result"]) for one in events] == [
        ("intent", None),
        ("outcome", "accepted"),
        ("outcome", "allow"),
    ]
    assert events[1]["targets"] == [{"id": first, "kind": "response"}]
    await upload(at, line("a"), line(previous_response_id="resp_nothing"))
    last = (await at.log())[-1]
    assert (last["outcome"]["result"], last["outcome"]["reason"]) == ("deny", "not_an_opaque_id")
    assert last["changes"] == {"line": 2}


async def test_hundreds_of_lines_that_name_objects_are_one_call_of_the_store(at: Desk) -> None:
    named = [(await at.created())["id"] for _ in range(3)]
    many = [line(f"n{n}", previous_response_id=named[n % 3]) for n in range(200)]
    await at.headers()
    with counted(at) as calls:
        file = await uploaded(at, *many)
    # The intent, one for all lines, the outcome with the record, and beside it the claim; once a second a checkpoint.
    assert 4 <= calls["evalsha"] <= 4 + CHECKPOINTS
    ended = await at.call("GET", f"/batches/{(await create(at, file)).json()['id']}")
    ended = await at.call("GET", f"/batches/{ended.json()['id']}")
    with counted(at) as calls:
        answers = await lines_of(at, ended.json()["output_file_id"])
    claims = len({one["response"]["body"]["id"] for one in answers})
    assert claims == 200
    assert 3 + claims <= calls["evalsha"] <= 3 + claims + CHECKPOINTS
    with counted(at) as calls:
        await lines_of(at, file)
    assert 2 <= calls["evalsha"] <= 2 + CHECKPOINTS


async def test_what_is_read_twice_is_recorded_once(at: Desk) -> None:
    ended = await run(at, line())
    once, again = await lines_of(at, ended["output_file_id"]), await lines_of(at, ended["output_file_id"])
    assert once == again
    assert (await at.call("DELETE", f"/responses/{once[0]['response']['body']['id']}")).status_code == 200
    await lines_of(at, ended["output_file_id"])
    assert (await at.call("GET", f"/responses/{once[0]['response']['body']['id']}")).status_code == 404


async def test_an_answer_that_another_tenant_holds_is_withheld(at: Desk) -> None:
    ended = await run(at, line())
    theirs = (await at.created(who="bob"))["id"]
    raw = list(at.stand_in.provider.responses)[-1]
    (output,) = [one for one in at.stand_in.provider.files.values() if one.body["purpose"] == "batch_output"]
    mine = json.loads(output.data)["response"]["body"]["id"]
    output.data = output.data.replace(mine.encode(), raw.encode())
    reply = await content(at, ended["output_file_id"])
    assert reply.status_code == 502
    assert (await at.call("GET", f"/responses/{theirs}", who="bob")).status_code == 200


async def test_an_output_that_is_no_json_is_withheld(at: Desk) -> None:
    for data in (b"{\n", b'{"id":"resp_' + b"0a" * 25 + b'","id":"x"}\n', b"x" * (17 * 1024 * 1024)):
        ended = await run(at, line())
        output = list(at.stand_in.provider.files.values())[-1]
        assert output.body["purpose"] == "batch_output"
        output.data = data
        assert (await content(at, ended["output_file_id"])).status_code == 502


async def test_a_file_is_withheld_whose_purpose_the_service_does_not_tell(at: Desk) -> None:
    ended = await run(at, line())
    output = list(at.stand_in.provider.files.values())[-1]
    del output.body["purpose"]
    assert (await content(at, ended["output_file_id"])).status_code == 502


async def test_a_revoked_key_ends_an_upload_at_its_next_lines(at: Desk) -> None:
    first = (await at.created())["id"]
    lines = spell(*(line(f"n{n}", previous_response_id=first) for n in range(300)))
    whole = form(text("purpose", "batch"), file("file", lines))

    async def slowly() -> AsyncIterator[bytes]:
        yield whole.content[:-200]
        for tag in await at.gateway.gateway.shared.store.api_keys(await at.tenant()):
            await revoke_key(at.admin, KeyId(await at.tenant(), tag))
        yield whole.content[-200:]

    headers = await at.headers(content_type=whole.content_type)
    reply = await at.http.post(f"{at.gateway.url}/files", headers=headers, content=slowly())
    assert reply.status_code == 401, reply.text
    assert stored(at) == []
