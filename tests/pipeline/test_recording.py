"""What an answer makes the gateway remember: whose, under which root, in which order."""

from __future__ import annotations

import pytest

from gateway.mapping import Mapper
from gateway.names import Kind, Owner, Visibility
from gateway.pipeline.recording import Heritage, Record, records
from gateway.rewrite.id_table import Minted
from gateway.stores.contract import Found, Lookup, Mode
from gateway.stores.records import Child, Root, open_record, record_key
from tests.mapping_fixture import mapper

ALICE = Owner("issuer", "alice")
MAPPER: Mapper = mapper()
RESPONSE = Minted(Kind.RESPONSE, "resp_" + "1" * 48, "")
MESSAGE = Minted(Kind.ITEM, "msg_" + "2" * 48, RESPONSE.raw)
REASONING = Minted(Kind.ITEM, "rs_" + "3" * 48, RESPONSE.raw)
FILE = Minted(Kind.FILE, "file-" + "4" * 24, MESSAGE.raw)
CONTAINER = Minted(Kind.CONTAINER, "cntr_" + "5" * 48, MESSAGE.raw)
CITED = Minted(Kind.CONTAINER_FILE, "cfile_" + "6" * 48, CONTAINER.raw)
CONVERSATION_H = MAPPER.h(Kind.CONVERSATION, "conv_" + "7" * 48)


def heritage(creates: Kind | None = Kind.RESPONSE, **more: object) -> Heritage:
    return Heritage(ALICE, Visibility.PRIVATE, creates, **more)  # type: ignore[arg-type]


def made(heritage: Heritage, *minted: Minted) -> list[Record]:
    return records(MAPPER, heritage, minted, 1_700_000_000)


def opened(record: Record) -> Root | Child:
    write = record.write
    got = open_record(MAPPER.keys.storage, record_key(MAPPER.tenant, write.kind, write.h), write.data)
    assert got is not None
    return got


def test_a_created_response_is_its_creators_and_its_items_hang_on_it() -> None:
    response, message, reasoning = made(heritage(), RESPONSE, MESSAGE, REASONING)
    root = opened(response)
    assert isinstance(root, Root)
    assert (root.raw.text, root.owner, root.visibility, root.created) == (
        RESPONSE.raw, ALICE, Visibility.PRIVATE, 1_700_000_000
    )  # fmt: skip
    assert response.write.mode is Mode.CREATE
    for record, raw in ((message, MESSAGE.raw), (reasoning, REASONING.raw)):
        child = opened(record)
        assert isinstance(child, Child)
        assert (child.raw.text, child.root_kind, child.root_h) == (raw, Kind.RESPONSE, response.write.h)
        assert record.write.mode is Mode.PUT
        assert record.claim is None


def test_roots_come_before_children_however_they_were_found() -> None:
    kinds = [record.write.kind for record in made(heritage(), MESSAGE, FILE, RESPONSE)]
    assert kinds == [Kind.FILE, Kind.RESPONSE, Kind.ITEM]


def test_messages_hang_on_the_chat_completion_that_the_path_names() -> None:
    message = Minted(Kind.CHAT_MESSAGE, "chatcmpl-" + "8" * 29 + "-0", "")
    h = MAPPER.h(Kind.CHAT_COMPLETION, "chatcmpl-" + "8" * 29)
    (record,) = made(heritage(None, roots={Kind.CHAT_COMPLETION: h}), message)
    child = opened(record)
    assert isinstance(child, Child)
    assert (child.raw.text, child.root_kind, child.root_h) == (message.raw, Kind.CHAT_COMPLETION, h)
    assert record.opaque == ""
    assert made(heritage(None), message) == []


def test_a_chat_completion_is_recorded_where_it_is_kept_and_its_audio_in_any_case() -> None:
    completion = Minted(Kind.CHAT_COMPLETION, "chatcmpl-" + "8" * 29, "")
    audio = Minted(Kind.CHAT_AUDIO, "audio_" + "9" * 32, completion.raw)
    for stored, kinds in ((True, [Kind.CHAT_COMPLETION, Kind.CHAT_AUDIO]), (False, [Kind.CHAT_AUDIO])):
        told = made(heritage(Kind.CHAT_COMPLETION, stored=stored), completion, audio)
        assert [record.write.kind for record in told] == kinds
        assert told[-1].write.mode is Mode.PUT
        assert told[-1].write.lifetime_s == 3600


def test_items_of_a_conversation_hang_on_the_conversation() -> None:
    response, message = made(heritage(roots={Kind.CONVERSATION: CONVERSATION_H}), RESPONSE, MESSAGE)
    root, child = opened(response), opened(message)
    assert isinstance(root, Root)
    assert isinstance(child, Child)
    assert root.parent == CONVERSATION_H.hex()
    assert (child.root_kind, child.root_h) == (Kind.CONVERSATION, CONVERSATION_H)


def test_items_of_a_response_that_was_read_hang_on_that_response() -> None:
    h = MAPPER.h(Kind.RESPONSE, RESPONSE.raw)
    (message,) = made(heritage(None, roots={Kind.RESPONSE: h}), MESSAGE)
    child = opened(message)
    assert isinstance(child, Child)
    assert (child.root_kind, child.root_h) == (Kind.RESPONSE, h)


def test_items_without_any_root_get_no_record() -> None:
    assert made(heritage(None), MESSAGE) == []


def test_only_what_the_route_makes_must_be_new() -> None:
    modes = {record.write.kind: record.write.mode for record in made(heritage(), RESPONSE, FILE, CONTAINER, CITED)}
    assert modes == {
        Kind.RESPONSE: Mode.CREATE, Kind.FILE: Mode.PUT, Kind.CONTAINER: Mode.PUT, Kind.CONTAINER_FILE: Mode.PUT
    }  # fmt: skip
    (again,) = made(heritage(None), RESPONSE)
    assert again.write.mode is Mode.PUT


def test_a_containers_file_hangs_on_its_container() -> None:
    container, cited = made(heritage(None), CONTAINER, CITED)
    child = opened(cited)
    assert isinstance(child, Child)
    assert (child.root_kind, child.root_h) == (Kind.CONTAINER, container.write.h)


def test_a_containers_file_hangs_on_the_container_that_the_path_names_rather_than_on_what_the_answer_says() -> None:
    h = MAPPER.h(Kind.CONTAINER, "cntr_" + "9" * 48)
    (file,) = made(heritage(None, roots={Kind.CONTAINER: h}), CITED)
    child = opened(file)
    assert isinstance(child, Child)
    assert (child.root_kind, child.root_h) == (Kind.CONTAINER, h)


def test_a_container_that_an_answer_brings_along_does_not_take_in_the_files_of_another() -> None:
    other = Minted(Kind.CONTAINER_FILE, "cfile_" + "9" * 48, "cntr_" + "9" * 48)
    child = opened(made(heritage(), RESPONSE, CONTAINER, other)[-1])
    assert isinstance(child, Child)
    assert child.root_h == MAPPER.h(Kind.CONTAINER, other.parent)


@pytest.mark.parametrize(
    ("kind", "prefix", "root"),
    [
        (Kind.VECTOR_STORE_BATCH, "vsfb_", Kind.VECTOR_STORE),
        (Kind.UPLOAD_PART, "part_", Kind.UPLOAD),
        (Kind.SKILL_VERSION, "skillver_", Kind.SKILL),
        (Kind.CHECKPOINT, "ftckpt_", Kind.FINE_TUNING_JOB),
        (Kind.FINE_TUNING_EVENT, "ftevent-", Kind.FINE_TUNING_JOB),
    ],
)
def test_a_child_hangs_on_the_root_of_its_kind_that_the_path_names(kind: Kind, prefix: str, root: Kind) -> None:
    h = MAPPER.h(root, "whatever_1")
    (record,) = made(heritage(None, roots={Kind.FILE: b"f" * 16, root: h}), Minted(kind, prefix + "8" * 24, ""))
    child = opened(record)
    assert isinstance(child, Child)
    assert (child.root_kind, child.root_h) == (root, h)


def test_every_root_is_claimed_and_derived_ones_inherit_the_owner() -> None:
    roots = [record for record in made(heritage(), RESPONSE, FILE, CONTAINER) if record.claim]
    assert len(roots) == 3
    for record in roots:
        root = opened(record)
        assert isinstance(root, Root)
        assert root.owner == ALICE
        assert record.opaque == MAPPER.to_opaque(record.write.kind, record.raw).text


def test_what_the_service_does_not_keep_gets_no_record() -> None:
    kept = made(heritage(stored=False), RESPONSE, MESSAGE, FILE)
    assert {record.write.kind for record in kept} <= {Kind.FILE}


def test_a_background_job_is_marked_as_one_and_what_it_shows_is_not() -> None:
    response, file = made(heritage(background=True), RESPONSE, FILE)
    one, other = opened(response), opened(file)
    assert isinstance(one, Root)
    assert isinstance(other, Root)
    assert (one.background, other.background) == (True, False)


def test_a_shared_conversations_response_is_shared() -> None:
    shared = Heritage(ALICE, Visibility.TENANT, Kind.RESPONSE, roots={Kind.CONVERSATION: CONVERSATION_H})
    root = opened(made(shared, RESPONSE)[0])
    assert isinstance(root, Root)
    assert root.visibility is Visibility.TENANT


def test_a_record_opens_again_through_the_mapper() -> None:
    response, message = made(heritage(), RESPONSE, MESSAGE)
    lookup = Lookup(Kind.ITEM, message.write.h)
    got = MAPPER.to_raw(lookup, Found(message.write.data, response.write.data))
    assert got is not None
    assert (got.raw.text, got.root.owner) == (MESSAGE.raw, ALICE)


def test_no_raw_id_shows_in_a_records_text_or_bytes() -> None:
    for record in made(heritage(), RESPONSE, MESSAGE):
        assert record.raw not in repr(record)
        assert record.raw.encode() not in record.write.data
