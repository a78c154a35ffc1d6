"""A table that lasts forgets, and says the same again."""

from __future__ import annotations

import json

import pytest

from gateway.names import Kind
from gateway.rewrite.events import EventTranslator
from gateway.rewrite.id_table import IdTable
from gateway.surfaces.realtime import REALTIME
from tests.rewrite.answers import raw
from tests.rewrite.keys import ALICE


def test_what_was_forgotten_is_minted_again_and_reads_as_before() -> None:
    table = IdTable(ALICE)
    ids = [raw("item_", number) for number in range(300)]
    texts = {one: table.mint(Kind.ITEM, one, "") for one in ids}
    assert len(table.take_new()) == 300
    table.forget(ids[:200])
    assert table.raws == tuple(one.encode() for one in ids[200:])
    assert table.issued == {texts[one] for one in ids[200:]}
    whole = " ".join(ids).encode()
    assert [one for one in ids if one.encode() in table.replace(whole)] == ids[:200]
    assert table.mint(Kind.ITEM, ids[0], "") == texts[ids[0]]
    assert [one.raw for one in table.take_new()] == [ids[0]]
    assert ids[0].encode() not in table.replace(whole)
    assert table.mint(Kind.ITEM, ids[299], "") == texts[ids[299]]
    assert not table.take_new()


def test_a_text_under_way_goes_on_where_its_item_is_forgotten() -> None:
    table = IdTable(ALICE)
    events = EventTranslator(REALTIME.events, table)
    items = [raw("item_", number) for number in range(3)]
    kept = raw("item_", 9)
    table.mint(Kind.ITEM, kept, "")

    def say(item: str, text: str) -> str:
        said = {
            "type": "response.output_text.delta",
            "item_id": item,
            "output_index": 0,
            "content_index": 0,
            "delta": text,
        }
        shown: str = json.loads(events.translate(json.dumps(said).encode()).data)["delta"]
        return shown

    assert say(items[0], "a ") == "a "
    first = say(items[1], "see " + kept[:12])
    table.forget(items[:2])
    events.forget(set(items))
    whole = first + say(items[1], kept[12:] + " there")
    assert kept not in whole
    assert whole == f"see {ALICE.opaque(Kind.ITEM, kept)} there"


def test_all_touched_ids_are_put_together_once_they_are_asked_for() -> None:
    table = IdTable(ALICE)
    ids = [raw("item_", number) for number in range(1_000)]
    first = table.raws
    for one in ids:
        table.restore(one, one[::-1])
        assert table._raws is first
    assert table.raws == tuple(one.encode() for one in ids)
    assert table.raws is table.raws


@pytest.mark.parametrize("few", [True, False])
def test_whatever_a_client_called_something_ends_no_string(few: bool) -> None:
    chosen = 'a","type":"error","z":"\\\n é'
    sent = {raw("item_", number): chosen for number in range(1 if few else 300)}
    table = IdTable(ALICE, sent)
    event = {"type": "x", "item_id": next(iter(sent))}
    assert json.loads(table.replace(json.dumps(event).encode())) == event | {"item_id": chosen}
    assert table.spans(event["item_id"])[0][2] == chosen
