from __future__ import annotations

import hashlib
import json

from gateway.audit.chain import NO_EVENT, Ended, Writer, succeed
from gateway.audit.event import SYSTEM, Event, Phase
from gateway.names import TenantId

TENANT = TenantId("aaaabbbbccccdddd")
EVENT = Event(TENANT, 1, "x.y", Phase.SINGLE, SYSTEM)


def test_each_entry_names_the_hash_of_the_one_before() -> None:
    writer, entries = Writer("w1"), []
    for _ in range(3):
        writer, entry = writer.next(EVENT)
        entries.append(entry)
    assert [entry.wseq for entry in entries] == [1, 2, 3]
    hashes = [hashlib.sha256(entry.body).hexdigest() for entry in entries]
    assert [json.loads(entry.body)["wprev"] for entry in entries] == [NO_EVENT, *hashes[:2]]
    assert writer == Writer("w1", 3, hashes[2])


def test_a_writer_is_a_value_and_does_not_change() -> None:
    writer = Writer("w1")
    assert writer.next(EVENT) == writer.next(EVENT)


def test_a_successor_names_its_predecessor_and_what_was_confirmed_of_it() -> None:
    writer, entry = succeed(Ended("w1", 41), "w2", TENANT, 5)
    fields = json.loads(entry.body)
    assert (fields["type"], fields["wseq"], fields["wprev"]) == ("writer.opened", 1, NO_EVENT)
    assert fields["changes"] == {"confirmed": 41, "predecessor": "w1"}
    assert (entry.ends, entry.ends_after) == ("w1", 41)
    assert writer.last_wseq == 1
