from __future__ import annotations

import orjson
import pytest

from gateway.audit.streams.batch import Batch, Format, Notice, Told
from gateway.standard_webhooks import message_id
from gateway.stores.contract import StoredEvent

GOOD = b'{"actor":{"kind":"user","pseudonym":"a"},"ts":5000,"type":"responses.create"}'
BATCH = Batch((Told(Notice.GAP, 7_000_000, 3, 8),), (StoredEvent(9, GOOD), StoredEvent(10, b"no event \xff")))


def test_stored_bytes_go_along_as_they_are() -> None:
    body = BATCH.body(Format.JSON, "tenant")
    assert b'{"seq":9,"event":%b}' % GOOD in body
    told, event, unreadable = orjson.loads(body)
    assert told == {
        "seq": None,
        "event": {
            "actor": {"kind": "system"},
            "changes": {"first": 3, "last": 8},
            "phase": "single",
            "tenant": "tenant",
            "ts": 7_000_000,
            "type": "stream.gap",
        },
    }
    assert event["seq"] == 9
    assert unreadable == {"seq": 10, "unreadable": "no event \\xff"}


def test_both_formats_tell_the_same_events() -> None:
    told, event, unreadable = orjson.loads(BATCH.body(Format.OCSF, "tenant"))
    assert (told["api"]["operation"], told["severity_id"], "sequence" in told["metadata"]) == ("stream.gap", 4, False)
    assert (event["metadata"]["sequence"], event["raw_data"]) == (9, GOOD.decode())
    assert unreadable["api"]["operation"] == "event.unreadable"


@pytest.mark.parametrize("format_", Format)
def test_a_batch_that_goes_again_has_the_same_id_and_another_one_has_not(format_: Format) -> None:
    def id_of(stream: str, batch: Batch) -> str:
        return message_id(stream, batch.body(format_, "tenant"))

    once = id_of("st_1", BATCH)
    assert id_of("st_1", BATCH) == once
    assert id_of("st_2", BATCH) != once
    assert id_of("st_1", Batch((), BATCH.rows)) != once
    assert "." not in once
