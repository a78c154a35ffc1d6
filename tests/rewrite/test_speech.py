"""A text that comes in pieces, against the same text in one piece."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.names import Kind
from gateway.rewrite.id_table import IdTable
from gateway.rewrite.speech import Openings, Utterance
from tests.rewrite.answers import raw
from tests.rewrite.keys import ALICE

BARE = "5f0c392a2e7f017469006a6c0507abcd"
IDS = [raw("resp_", 1), raw("resp_", 2), raw("rs_", 3), raw("msg_", 4), BARE, raw("resp_", 1)[:40]]
SENT = {id_: ALICE.opaque(Kind.ITEM, id_) for id_ in IDS}


def table() -> IdTable:
    return IdTable(ALICE, SENT)


fragments = st.sampled_from([*IDS, *(id_[:size] for id_ in IDS for size in (1, 3, 5, 12, 30))]) | st.text(
    "resp_5f0 ", max_size=6
)


@given(st.lists(fragments, max_size=8), st.lists(st.integers(0, 300), max_size=12))
def test_pieces_give_what_the_whole_gives(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    cuts = sorted(min(cut, len(text)) for cut in cuts)
    known, utterance = table(), Utterance()
    openings = Openings(known)
    whole = Utterance()
    heard = [utterance.hear(text[i:j], openings) for i, j in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    told = "".join(heard) + utterance.release(known)
    assert told == whole.hear(text, openings) + whole.release(known)
    assert utterance.shifts == whole.shifts
    assert utterance.read == len(text)
    assert not any(id_ in told for id_ in (BARE, *IDS[:4]))


@given(st.lists(fragments, max_size=6))
def test_at_most_the_beginning_of_one_id_is_held_and_only_at_the_end(parts: list[str]) -> None:
    known, utterance = table(), Utterance()
    openings = Openings(known)
    for part in parts:
        utterance.hear(part, openings)
        assert utterance.held == "" or any(id_.startswith(utterance.open) for id_ in IDS)
        assert not any(utterance.open == id_ for id_ in IDS[:5])


def test_nothing_is_held_of_ordinary_words() -> None:
    known, utterance = table(), Utterance()
    openings = Openings(known)
    for word in ("from", " msg", "_", " are", " res", "t", "r"):
        assert utterance.hear(word, openings) == word
        assert utterance.held == ""


def test_the_part_that_an_id_shares_with_its_replacement_leaves_at_once() -> None:
    known, utterance = table(), Utterance()
    openings = Openings(known)
    one = raw("resp_", 2)
    assert utterance.hear(one[:20], openings) == "res"
    assert utterance.held == one[3:20]
    assert utterance.hear(one[20:] + "!", openings) == SENT[one].removeprefix("res") + "!"
    assert utterance.shifts == [(len(one), len(SENT[one]) - len(one))]


def test_an_id_that_becomes_known_in_the_middle_of_itself_repeats_nothing() -> None:
    known, utterance = IdTable(ALICE), Utterance()
    openings = Openings(known)
    one = raw("resp_", 1)
    told = utterance.hear(one[:20], openings)
    known.mint(Kind.RESPONSE, one, "")
    assert told + utterance.hear(one[20:], openings) + utterance.release(known) == one


def test_what_has_left_is_not_repeated_when_less_may_leave_than_before() -> None:
    known, utterance = IdTable(ALICE), Utterance()
    openings = Openings(known)
    known.mint(Kind.RESPONSE, IDS[0], "")
    told = utterance.hear("resp_", openings)
    known.mint(Kind.ITEM, IDS[2], "")
    for piece in (IDS[0][5:9], IDS[0][9:12], "x"):
        told += utterance.hear(piece, openings)
    assert told == IDS[0][:12] + "x"
