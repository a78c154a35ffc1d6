"""The index as a file that several threads and processes open at any time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from gateway.audit.search.index import Index, Position

EMPTY = Position(1, 0, "")
AT_ONCE, ROUNDS = 4, 60


def test_whoever_comes_first_makes_the_file_and_nobody_is_turned_away(tmp_path: Path) -> None:
    """SQLite does not wait by itself while a file is switched to its write-ahead log, or put away by its last reader."""

    def use(index: Index, together: threading.Barrier) -> set[Position]:
        together.wait()
        return {index.position() for _ in range(3)}

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for number in range(ROUNDS):
            together = threading.Barrier(AT_ONCE)
            index = Index(tmp_path / f"{number}.sqlite", 5.0)
            assert [*threads.map(use, [index] * AT_ONCE, [together] * AT_ONCE)] == [{EMPTY}] * AT_ONCE


def test_readers_are_not_turned_away_while_the_last_one_puts_the_file_away(tmp_path: Path) -> None:
    index = Index(tmp_path / "one.sqlite", 5.0)
    index.position()

    def read(_: int) -> int:
        with index.reading() as connection:
            (last,) = connection.execute("SELECT last FROM state").fetchone()
            return int(last)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert {*threads.map(read, range(ROUNDS * 10))} == {0}


@pytest.mark.parametrize("use", [Index.position, lambda index: index.clear()])
def test_who_never_gets_the_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Index], object]
) -> None:
    monkeypatch.setattr("gateway.audit.search.index._BUSY_S", 0.05)
    path = tmp_path / "one.sqlite"
    index = Index(path, 5.0)
    index.position()
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            use(index)
    assert index.position() == EMPTY
