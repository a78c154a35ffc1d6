"""The picture: numbers as heights, in an order that says what they are, and a single refusal never too small to see."""

from __future__ import annotations

from gateway.audit.search.contract import Bar, Histogram
from gateway.console.picture import HEIGHT, WIDTH, draw

HOUR_US = 3_600_000_000


def histogram(*counts: dict[str, int]) -> Histogram:
    bars = tuple(Bar(number * HOUR_US, sum(one.values()), one) for number, one in enumerate(counts))
    return Histogram(0, len(counts) * HOUR_US, bars)


def test_refusals_stand_above_what_was_allowed_and_heights_are_numbers() -> None:
    picture = draw(histogram({"allow": 40, "deny": 10}, {}, {"allow": 100}))
    assert (picture.highest, picture.total, picture.totals["deny"]) == (100, 150, 10)
    first, second, third = picture.bars
    assert [(part.kind, part.height) for part in first.parts] == [("allow", HEIGHT * 0.4), ("deny", HEIGHT * 0.1)]
    assert [part.y for part in first.parts] == [HEIGHT * 0.6, HEIGHT * 0.5]
    assert second.parts == ()
    assert third.x + third.width <= WIDTH
    assert (first.since_text, first.until_text) == ("1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z")


def test_one_refusal_among_thousands_is_seen() -> None:
    [bar] = draw(histogram({"allow": 8_000, "deny": 1})).bars
    assert [part.height >= 3 for part in bar.parts] == [True, True]
    assert bar.parts[1].y >= 0


def test_what_is_no_answer_is_not_drawn() -> None:
    assert draw(histogram({"accepted": 5, "": 3})).total == 0
    assert draw(Histogram(0, 0, ())).bars == ()
