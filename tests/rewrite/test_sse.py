"""Server-sent events: split by the grammar, translated event by event, whatever the chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import Problem, Reason
from gateway.names import Kind
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.sse import Out, Splitter, StreamTranslator
from gateway.surfaces.responses import EVENT
from tests.rewrite.answers import Writer, raw, responses, spoken, writers
from tests.rewrite.keys import ALICE

RESP, MSG, OTHER, FILE, VICTIM = raw("resp_", 1), raw("msg_", 1), raw("fc_", 2), raw("file-", 1), raw("resp_", 99)
OPAQUE_RESP, OPAQUE_MSG = ALICE.opaque(Kind.RESPONSE, RESP), ALICE.opaque(Kind.ITEM, MSG)


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def delta(text: str, number: int = 2, item: str = MSG, **fields: Any) -> bytes:
    place = {"item_id": item, "output_index": 0, "content_index": 0}
    return event("response.output_text.delta", sequence_number=number, **place, delta=text, logprobs=[], **fields)


CREATED = event("response.created", sequence_number=0, response={"id": RESP, "status": "in_progress", "output": []})
ADDED = event("response.output_item.added", sequence_number=1, output_index=0, item={"id": MSG, "type": "message"})
DONE = event("response.output_text.done", sequence_number=9, item_id=MSG, output_index=0, content_index=0, text="x")
COMPLETED = event("response.completed", sequence_number=10, response={"id": RESP, "status": "completed", "output": []})


def fed(chunks: Iterable[bytes], table: IdTable | None = None) -> list[Out]:
    stream = StreamTranslator(EVENT, table or IdTable(ALICE))
    outs = [out for chunk in chunks for out in stream.feed(chunk)]
    return outs + stream.end()


def sent(*events: bytes, table: IdTable | None = None) -> bytes:
    return b"".join(out.data for out in fed([b"".join(events)], table))


def values(stream: bytes) -> list[dict[str, Any]]:
    """The JSON of every event, as a client reads it."""
    blocks = stream.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n\n")
    datas = [
        "\n".join(ln[5:].removeprefix(" ") for ln in block.split("\n") if ln.startswith("data:")) for block in blocks
    ]
    return [json.loads(data) for data in datas if data.startswith("{")]


def texts(stream: bytes) -> list[str]:
    return [value["delta"] for value in values(stream) if "delta" in value]


# --- the grammar

GRAMMAR = (
    b"\xef\xbb\xbf: hi\rdata: a\r\n\r\n\r\nevent: x\ndata:b\ndata: c\n\r\nid: 1\r\rretry: 5\ndata\r\n\r: \xc3\xa9\n\n"
)
GRAMMAR += b"data: cut"


@pytest.mark.parametrize("ends", [None, b"\n", b"\r", b"\r\n"])
def test_splitting_gives_the_same_bytes_at_every_split_point(ends: bytes | None) -> None:
    stream = GRAMMAR if ends is None else GRAMMAR.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", ends)
    whole = b"".join(Splitter().feed(stream))
    assert stream.startswith(whole)
    assert stream.removeprefix(whole) == b"data: cut"
    for at in range(len(stream) + 1):
        splitter = Splitter()
        assert b"".join(splitter.feed(stream[:at]) + splitter.feed(stream[at:])) == whole
    splitter = Splitter()
    assert b"".join(piece for byte in stream for piece in splitter.feed(bytes([byte]))) == whole


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"a\n\nb\n\n", [b"a\n\n", b"b\n\n"]),
        (b"a\r\n\r\nb\r\n\r\n", [b"a\r\n\r\n", b"b\r\n\r\n"]),
        (b"a\r\rb\r\r", [b"a\r\r", b"b\r\r"]),
        (b"a\r\nb\r\n\r\n", [b"a\r\nb\r\n\r\n"]),
        (b"a\r\n\nb\n\r\n", [b"a\r\n\n", b"b\n\r\n"]),
        (b"a\n\r", [b"a\n\r"]),
        (b"a\r\n", []),
        (b"a\n", []),
    ],
)
def test_an_event_ends_in_a_blank_line(stream: bytes, events: list[bytes]) -> None:
    assert Splitter().feed(stream) == events


def test_an_event_does_not_wait_for_the_second_half_of_its_last_line_end() -> None:
    splitter = Splitter()
    assert splitter.feed(b"a\r\n\r") == [b"a\r\n\r"]
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\nb\r\n\r\n") == [b"\n", b"b\r\n\r\n"]


@pytest.mark.parametrize("chunks", [[b"x" * 101], [b"x" * 60, b"x" * 60], [b"a\n\n" + b"x" * 101]])
def test_an_event_that_is_too_long_ends_the_stream(chunks: list[bytes]) -> None:
    splitter = Splitter(max_event_bytes=100)
    with pytest.raises(Problem) as caught:
        list(map(splitter.feed, chunks))
    assert caught.value.reason is Reason.UPSTREAM_BAD_ANSWER


# --- chunks

STREAM = b"".join(
    [
        b": open\n\n",
        CREATED,
        ADDED,
        delta("Hello ", 2),
        b": ping " + VICTIM.encode() + b"\n\n",
        delta("see re", 3),
        delta(RESP[2:20], 4),
        delta(RESP[20:] + " \u2019 \U0001f600", 5),
        event("brand.new", thing_id=RESP, item_id=MSG, note=f"{VICTIM}."),
        delta("end ms", 6),
        delta("g_", 7),
        DONE,
        b"event: multi\r\ndata: {\"id\":\r\ndata: \"" + RESP.encode() + b"\"}\r\n\r\n",
        COMPLETED,
        b"data: [DONE]\n\n",
    ]
)  # fmt: skip


@pytest.mark.parametrize("ends", [None, b"\r", b"\r\n"])
def test_translation_gives_the_same_bytes_at_every_split_point(ends: bytes | None) -> None:
    stream = STREAM if ends is None else STREAM.replace(b"\r\n", b"\n").replace(b"\n", ends)
    whole = sent(stream)
    told = json.dumps(values(whole))
    assert RESP not in told
    assert RESP.encode() not in whole
    assert VICTIM.encode() not in whole
    for at in range(len(stream) + 1):
        assert b"".join(out.data for out in fed([stream[:at], stream[at:]])) == whole
    assert b"".join(out.data for out in fed(bytes([byte]) for byte in stream)) == whole


SPOKEN = [
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.code_interpreter_call_code.delta",
]


@st.composite
def streams(draw: st.DrawFn, kinds: tuple[str, ...] = (*SPOKEN, "response.new_thing.delta")) -> bytes:
    """Events of two interleaved items whose texts hold IDs, cut anywhere, in any spelling."""
    writer = draw(writers)
    ids = [raw("msg_", 1), raw("fc_", 2)]
    events: list[dict[str, Any]] = [{"type": "response.created", "response": draw(responses()) | {"id": RESP}}]
    events += [{"type": "response.output_item.added", "item": {"id": id_, "type": "message"}} for id_ in ids]
    pending = [[(index, kind, piece) for piece in draw(cuts)] for index, (kind, cuts) in enumerate(
        [(draw(st.sampled_from(kinds)), pieces), (draw(st.sampled_from(kinds)), pieces)])]  # fmt: skip
    while any(pending):
        index, kind, piece = draw(st.sampled_from([queue for queue in pending if queue])).pop(0)
        where = {"item_id": ids[index], "output_index": index, "content_index": 0}
        events.append({"type": kind, **where, "delta": piece} | draw(extras))
    events += [{"type": "response.output_item.done", "item": {"id": id_, "type": "message"}} for id_ in ids]
    events.append({"type": "response.completed", "response": {"id": RESP}})
    framed = draw(st.sampled_from(["event: {kind}\ndata: ", "data: ", "data:", "id: 7\nevent: {kind}\ndata: "]))
    ends = draw(st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"]))
    lines = b"".join(
        framed.format(kind=event["type"]).encode() + writer.write(event).replace(b"\n", b"\ndata: ") + b"\n\n"
        for event in events
    )
    return lines.replace(b"\n", ends)


@st.composite
def cut_texts(draw: st.DrawFn) -> list[str]:
    text = draw(spoken()) + draw(st.sampled_from(["", RESP, RESP[:30], f"{MSG}{RESP}", "msg_"])) + draw(spoken())
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


pieces = cut_texts()
extras: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {}, {"logprobs": []}, {"obfuscation": "aB3"}, {"sequence_number": 4}, {"fresh_id": VICTIM}]
)


@given(streams(), st.lists(st.integers(0, 4000), max_size=5))
def test_translation_does_not_depend_on_how_the_stream_was_cut(stream: bytes, cuts: list[int]) -> None:
    cuts = sorted(min(cut, len(stream)) for cut in cuts)
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert b"".join(out.data for out in fed(chunks)) == sent(stream)


@given(streams(tuple(SPOKEN)))
def test_texts_arrive_whole_with_every_touched_id_replaced(stream: bytes) -> None:
    table = IdTable(ALICE)
    before, after = values(stream), values(sent(stream, table=table))
    opaque = table.texts
    for id_ in (MSG, OTHER):
        spoke = "".join(value["delta"] for value in before if value.get("item_id") == id_)
        heard = "".join(value["delta"] for value in after if value.get("item_id") == opaque[id_])
        for one in table.touched:
            spoke = spoke.replace(one.raw, one.text)
        assert heard == spoke


@given(streams(tuple(SPOKEN)))
def test_translating_a_stream_again_changes_nothing_and_mints_nothing(stream: bytes) -> None:
    once, table = sent(stream), IdTable(ALICE)
    assert sent(once, table=table) == once
    assert not table.new


# --- fast path

PLAIN = delta("Hello", 3)


@pytest.mark.parametrize(
    "same",
    [
        PLAIN,
        PLAIN.replace(b", ", b",").replace(b": ", b":"),
        PLAIN.replace(b"event: response.output_text.delta\n", b""),
        delta('a "quote" \n\\', 3),
        delta("é \u2019", 3, obfuscation="a1B2"),
    ],
)
def test_a_plain_delta_changes_in_its_item_id_only(same: bytes) -> None:
    assert sent(CREATED, ADDED, same).endswith(same.replace(MSG.encode(), OPAQUE_MSG.encode()))


@pytest.mark.parametrize(
    "odd",
    [
        PLAIN.replace(b'"logprobs": []', b'"logprobs": [{"token": "%s"}]' % RESP.encode()),
        PLAIN.replace(b'"logprobs": []', b'"obfuscation": "%s"' % RESP.encode()),
        PLAIN.replace(b'"logprobs": []', b'"obfuscation": null, "logprobs": "%s"' % RESP.encode()),
        PLAIN.replace(b'"logprobs": []', b'"fresh": "%s"' % VICTIM.encode()),
        PLAIN.replace(b'"logprobs": []', b'"%s": 1' % VICTIM.encode()),
        PLAIN.replace(b'"sequence_number": 3', b'"sequence_number": "%s"' % VICTIM.encode()),
        PLAIN.replace(b'"Hello"', b'"%s"' % RESP.encode()),
        PLAIN.replace(b'"Hello"', b'"\\u0072%s"' % RESP[1:].encode()),
        PLAIN.replace(b"event: response.output_text.delta", b"event: " + VICTIM.encode()),
        PLAIN.replace(b"event: response.output_text.delta", b"id: " + VICTIM.encode()),
        PLAIN.replace(b"event: response.output_text.delta", b": " + VICTIM.encode()),
        PLAIN.replace(b"event: response.output_text.delta", b"unheard: " + VICTIM.encode()),
    ],
)
def test_a_delta_that_is_not_plain_hides_nothing(odd: bytes) -> None:
    written = sent(CREATED, ADDED, odd)
    for id_ in (RESP, VICTIM, MSG):
        assert id_.encode() not in written
        assert id_ not in json.dumps(values(written))


def test_plain_deltas_of_several_texts_are_told_apart() -> None:
    other = {"item_id": OTHER, "output_index": 1}
    item = event("response.output_item.added", output_index=1, item={"id": OTHER, "type": "function_call"})
    argued = [
        event("response.function_call_arguments.delta", sequence_number=n, **other, delta=text, obfuscation="x")
        for n, text in enumerate(["{}", "re", RESP[2:30], RESP[30:]])
    ]
    written = sent(
        CREATED, ADDED, item, delta("a"), argued[0], delta("b re"), argued[1], argued[2], delta("c"), argued[3]
    )
    heard = [(value["item_id"], value["delta"]) for value in values(written) if "delta" in value]
    assert "".join(text for id_, text in heard if id_ == OPAQUE_MSG) == "ab rec"
    assert "".join(text for id_, text in heard if id_ == ALICE.opaque(Kind.ITEM, OTHER)) == "{}" + OPAQUE_RESP


def test_a_delta_that_gives_a_key_twice_ends_the_stream() -> None:
    twice = PLAIN.replace(b'"delta"', b'"item_id": "%s", "delta"' % MSG.encode()).replace(
        MSG.encode(), VICTIM.encode(), 1
    )
    with pytest.raises(Problem):
        sent(CREATED, ADDED, twice)


@pytest.mark.parametrize("bad", [b'data: {"a":\n\n', b'data: {"a":1}{}\n\n', b'data: {"output_index": NaN}\n\n',
                                 delta("x").replace(b'"output_index": 0', b'"output_index": {}'),
                                 delta("x") + delta("x").replace(b'"x"', b'"\t"'),
                                 delta("x") + delta("x").replace(b'"x"', b'"\xff"'),
                                 delta("x") + delta("x").replace(b": 2", b": ")])  # fmt: skip
def test_an_event_that_cannot_be_read_ends_the_stream(bad: bytes) -> None:
    with pytest.raises(Problem) as caught:
        sent(CREATED, ADDED, bad)
    assert caught.value.reason is Reason.UPSTREAM_BAD_ANSWER


# --- what comes out


@pytest.mark.parametrize("kind", ["response.queued", "response.unheard_of", "keepalive", "response.output_item.done"])
def test_every_event_type_shows_the_same_id(kind: str) -> None:
    told = values(
        sent(CREATED, ADDED, event(kind, response_id=RESP, item_id=MSG, item={"id": MSG}, response={"id": RESP}))
    )
    assert told[-1]["response"]["id"] == told[-1]["response_id"] == OPAQUE_RESP
    assert told[-1]["item"]["id"] == told[-1]["item_id"] == OPAQUE_MSG


def test_an_event_that_mints_stands_alone_and_says_what() -> None:
    outs = fed([b": hi\n\n" + CREATED + ADDED + delta("a") + delta("b")])
    assert [[(one.kind, one.raw) for one in out.minted] for out in outs] == [
        [], [(Kind.RESPONSE, RESP)], [(Kind.ITEM, MSG)], [],
    ]  # fmt: skip
    assert outs[0].data == b": hi\n\n"
    assert outs[3].data.count(b"\n\n") == 2


def test_bytes_leave_with_the_ids_that_were_touched_when_they_were_written() -> None:
    reference = event("brand.new", item_id=MSG, thing_id=FILE)
    first, created, added, middle, last = fed([delta(FILE, item="x") + CREATED + ADDED + delta(FILE) + reference])
    assert first.touched == ()
    assert created.touched == (RESP.encode(),)
    assert added.touched == middle.touched == (RESP.encode(), MSG.encode())
    assert FILE.encode() in middle.data
    assert last.touched == (RESP.encode(), MSG.encode(), FILE.encode())


@pytest.mark.parametrize(
    "last",
    [
        COMPLETED,
        COMPLETED.replace(b"response.completed", b"response.failed"),
        COMPLETED.replace(b"response.completed", b"response.incomplete"),
        event("error", message="x", code=None, param=None),
        b'event: error\ndata: {"error": {"message": "x"}}\n\n',
        b"data: [DONE]\n\n",
    ],
)
def test_a_terminal_event_is_told(last: bytes) -> None:
    outs = fed([CREATED + ADDED + delta("a") + last])
    assert [out.terminal for out in outs] == [False, False, False, True]


def test_the_message_of_an_error_event_is_said_again() -> None:
    message = "Rate limit reached for gpt in organization org-0123456789abcdefghijABCD. Please try again in 20s."
    last = event("error", message=message, code="rate_limit_exceeded", param=None)
    assert values(sent(last)) == [
        {"type": "error", "message": "Rate limit reached. Please try again in 20s.", "code": "rate_limit_exceeded",
         "param": None}
    ]  # fmt: skip


def test_an_event_without_its_blank_line_does_not_leave() -> None:
    assert sent(CREATED[:-1]) == b""


def test_comments_and_retry_pass_as_they_came() -> None:
    assert sent(b": ping\n\n", b"retry: 3000\n\n", b"\n\n") == b": ping\n\nretry: 3000\n\n\n\n"


# --- texts over several events


def test_an_id_that_falls_over_three_deltas_is_replaced() -> None:
    written = sent(CREATED, ADDED, delta("see re", 2), delta(RESP[2:30], 3), delta(RESP[30:] + ".", 4), DONE)
    assert "".join(texts(written)) == f"see {OPAQUE_RESP}."
    assert [value["sequence_number"] for value in values(written)] == [0, 1, 2, 3, 4, 9]


def test_what_an_id_and_its_replacement_share_is_not_held_back() -> None:
    assert texts(sent(CREATED, ADDED, delta("from"), delta(" msg_"), delta("x"), delta(" re"))) == [
        "from",
        " msg_",
        "x",
        " re",
    ]


def test_what_turns_out_to_be_no_id_follows_with_the_next_delta() -> None:
    assert texts(sent(CREATED, ADDED, delta(RESP[:9]), delta("x"))) == [RESP[:5], RESP[5:9] + "x"]


@pytest.mark.parametrize("last", [DONE, COMPLETED, b"data: [DONE]\n\n", b""])
def test_what_is_held_back_leaves_before_the_text_ends(last: bytes) -> None:
    written = sent(CREATED, ADDED, delta(RESP[:9], 7, obfuscation="ab"), last)
    assert texts(written) == [RESP[:5], RESP[5:9]]
    added = next(value for value in values(written) if value.get("delta") == RESP[5:9])
    assert added == {
        "type": "response.output_text.delta", "sequence_number": 7, "item_id": OPAQUE_MSG, "output_index": 0,
        "content_index": 0, "delta": RESP[5:9], "logprobs": [],
    }  # fmt: skip


def test_events_of_other_items_release_nothing() -> None:
    item = event("response.output_item.added", output_index=1, item={"id": OTHER, "type": "function_call"})
    done = event("response.function_call_arguments.done", output_index=1, item_id=OTHER, arguments="{}")
    written = sent(CREATED, ADDED, item, delta(RESP[:30]), delta("other", item=OTHER), done, delta(RESP[30:]))
    assert RESP[5:30] not in written.decode()
    assert (
        "".join(v["delta"] for v in values(written) if v.get("item_id") == OPAQUE_MSG and "delta" in v) == OPAQUE_RESP
    )


def test_deltas_without_an_item_are_told_apart_by_their_places() -> None:
    def command(text: str, index: int) -> bytes:
        return event("response.shell_call_command.delta", output_index=0, command_index=index, delta=text)

    written = sent(CREATED, command(RESP[:30], 0), command(RESP[30:], 1), command(RESP[30:], 0))
    assert texts(written) == [RESP[:5], RESP[30:], OPAQUE_RESP[5:]]


def test_deltas_of_media_are_not_touched() -> None:
    audio = event("response.audio.delta", delta="UklGRg" + RESP[:20])
    assert sent(CREATED, audio).endswith(audio)


def test_log_probabilities_of_a_changed_delta_are_cleared() -> None:
    spelled = [{"token": RESP[:9], "logprob": -0.1, "bytes": [114], "top_logprobs": []}]
    changed = delta(RESP[:9]).replace(b'"logprobs": []', b'"logprobs": ' + json.dumps(spelled).encode())
    written = values(
        sent(
            CREATED,
            ADDED,
            changed,
            delta("x").replace(b'"logprobs": []', b'"logprobs": ' + json.dumps(spelled).encode()),
        )
    )
    assert [value["logprobs"] for value in written[2:]] == [[], []]


def test_annotations_that_follow_a_replaced_id_move_with_the_text() -> None:
    text = f"see {RESP} and here"
    annotation = {
        "type": "url_citation",
        "url": "u",
        "title": "t",
        "start_index": text.index("here"),
        "end_index": len(text),
    }
    place = {"item_id": MSG, "output_index": 0, "content_index": 0}
    added = event("response.output_text.annotation.added", **place, annotation_index=0, annotation=annotation)
    written = sent(CREATED, ADDED, delta(text[:20]), delta(text[20:40]), delta(text[40:]), added)
    said, moved = "".join(texts(written)), values(written)[-1]["annotation"]
    assert said[moved["start_index"] : moved["end_index"]] == "here"


@given(writers)
def test_a_held_delta_keeps_its_other_bytes(writer: Writer) -> None:
    first = {
        "type": "response.output_text.delta",
        "item_id": MSG,
        "output_index": 0,
        "n": 1.0,
        "delta": "x" + RESP[:20],
    }
    body = writer.write(first).replace(b"\n", b"")
    written = sent(CREATED, ADDED, b"data: " + body + b"\n\n")
    value = values(written)[2]
    assert value == first | {"item_id": OPAQUE_MSG, "delta": "xresp_"}
