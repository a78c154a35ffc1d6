"""One tenant's index: a SQLite file of sets of events (`bits.py`), by stretches of 4,096 events of the log.

    value   number ↔ field and text, and the newest event that has it
    bits    value, span → which events of the span have it; value 0: which are there
    span    the events' times, and the lowest and highest of them
    pairs   field, span → for each event that has a value: its place in the span and the value's number
    summed  event → how many refusals it stands for beyond itself, where it is a sum
    state   where the index stands in the log

`bits` say who has a value, for filters; `pairs` say what value each has, for counting. It holds what the log holds and nothing
else: pseudonyms, opaque IDs, sealed fields. Losing it loses nothing. All of this module blocks: call it in a thread.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from gateway.audit.search.bits import SPAN, pack, stretch, unpack
from gateway.audit.search.query import Field
from gateway.audit.search.terms import Terms, terms_of
from gateway.stores.contract import StoredEvent

VERSION: Final = 3
"""Of the file's form; another one is built anew."""
EVERY: Final = 0
"""The value that all events have."""
COUNTED: Final = tuple(field for field in Field if field is not Field.REQUEST)
"""Fields whose values are counted. Every request has a value of its own there."""
_BUSY_S: Final = 5.0
_AGAIN_S: Final = 0.01
_STEPS: Final = 1000
"""Steps of SQLite's machine between two looks at the clock."""
_MAPPED_BYTES: Final = 2**31
"""Read in place, by a search: copying the pages takes longer than looking at them."""

_SCHEMA: Final = f"""
CREATE TABLE value(id INTEGER PRIMARY KEY, field TEXT NOT NULL, text TEXT NOT NULL, last INTEGER NOT NULL,
    UNIQUE(field, text));
CREATE TABLE bits(value INTEGER NOT NULL, span INTEGER NOT NULL, bits BLOB NOT NULL, PRIMARY KEY(value, span)) WITHOUT ROWID;
CREATE TABLE span(no INTEGER PRIMARY KEY, low INTEGER, high INTEGER, bare INTEGER NOT NULL, times BLOB NOT NULL);
CREATE TABLE pairs(field TEXT NOT NULL, span INTEGER NOT NULL, pairs BLOB NOT NULL, PRIMARY KEY(field, span)) WITHOUT ROWID;
CREATE TABLE summed(seq INTEGER PRIMARY KEY, more INTEGER NOT NULL);
CREATE TABLE state(one INTEGER PRIMARY KEY CHECK(one = 1), first INTEGER NOT NULL, last INTEGER NOT NULL,
    digest TEXT NOT NULL);
INSERT INTO state VALUES (1, 1, 0, '');
PRAGMA user_version = {VERSION};
"""
_TABLES: Final = ("value", "bits", "span", "pairs", "summed")
_ADD_VALUE: Final = """INSERT INTO value(field, text, last) VALUES (?, ?, ?)
    ON CONFLICT(field, text) DO UPDATE SET last = excluded.last RETURNING id"""


@dataclass(frozen=True, slots=True)
class Position:
    """Events `first` to `last` are in the index, as far as the log had them; `digest` is the last one's SHA-256, in hex."""

    first: int
    last: int
    digest: str


class Index:
    """A file and nothing more: every use opens it, so that it may go away at any time."""

    def __init__(self, path: Path, limit_s: float) -> None:
        """`limit_s`: how long one search may take."""
        self._path = path
        self._limit_s = limit_s

    def position(self) -> Position:
        """Creates the file where there is none, or where it is of another form or damaged."""
        try:
            return self._position()
        except sqlite3.OperationalError:
            raise  # locked, or the disk is full
        except sqlite3.DatabaseError:
            self.remove()
            return self._position()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one moment of the index. sqlite3.OperationalError where `limit_s` is over."""
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA query_only = 1")
            connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
            deadline = time.monotonic() + self._limit_s
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            # A transaction sees the moment of its first look.
            _insist(connection, "BEGIN", "SELECT one FROM state")
            yield connection

    def append(self, after: int, events: Sequence[StoredEvent]) -> int:
        """Adds what follows `after`. Where the index stands elsewhere by now, somebody else is at it, and nothing is done.

        The newest event in the index.
        """
        rows = [(event.seq, terms_of(event.body)) for event in events]
        with self._writing() as connection:
            last = _position(connection).last
            if last != after:
                return last
            for no, group in groupby(rows, key=lambda row: row[0] // SPAN):
                _append(connection, no, list(group))
            digest = hashlib.sha256(events[-1].body).hexdigest()
            connection.execute("UPDATE state SET last = ?, digest = ?", (events[-1].seq, digest))
            return events[-1].seq

    def trim(self, first: int) -> None:
        """Forgets what stands below `first`."""
        with self._writing() as connection:
            if first > _position(connection).first:
                for table, name in (("bits", "span"), ("pairs", "span"), ("span", "no")):
                    connection.execute(f"DELETE FROM {table} WHERE {name} < ?", (first // SPAN,))
                _trim(connection, first // SPAN, first % SPAN)
                connection.execute("DELETE FROM value WHERE last < ?", (first,))
                connection.execute("DELETE FROM summed WHERE seq < ?", (first,))
                connection.execute("UPDATE state SET first = ?", (first,))

    def clear(self) -> None:
        """Forgets everything: the log is not the one that was followed."""
        with self._writing() as connection:
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table}")
            connection.execute("UPDATE state SET first = 1, last = 0, digest = ''")

    def remove(self) -> None:
        for end in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)

    def _position(self) -> Position:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._writing() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
            elif version != VERSION:
                raise sqlite3.DatabaseError("another form")
            return _position(connection)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            self._path.touch(0o600)
        with closing(self._connect()) as connection:
            # The newest part may be lost in a crash, and is read from the log again; what is forgotten is overwritten.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")
            _insist(connection, "PRAGMA journal_mode = WAL", "BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", _BUSY_S, isolation_level=None, uri=True)


def _insist(connection: sqlite3.Connection, *statements: str) -> None:
    """Begins a transaction, however busy others are with the file, for at most `_BUSY_S`.

    SQLite's own waiting leaves out the switch to WAL, and a WAL that another connection opens or puts away
    (https://www.sqlite.org/wal.html, "Sometimes Queries Return SQLITE_BUSY In WAL Mode").
    """
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            for statement in statements:
                connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        time.sleep(_AGAIN_S)


def _position(connection: sqlite3.Connection) -> Position:
    return Position(*connection.execute("SELECT first, last, digest FROM state").fetchone())


def _append(connection: sqlite3.Connection, no: int, rows: Sequence[tuple[int, Terms]]) -> None:
    """Rows of one span."""
    places: dict[tuple[Field, str], list[int]] = defaultdict(list)
    for seq, terms in rows:
        for held in terms.values.items():
            places[held].append(seq % SPAN)
        for target in terms.targets:
            places[Field.TARGET, target].append(seq % SPAN)
    # Each by itself: a log that was tampered with has holes.
    added = [(EVERY, sum(1 << seq % SPAN for seq, _ in rows))]
    pairs: dict[Field, array[int]] = defaultdict(lambda: array("I"))
    for (field, text), at in places.items():
        (number,) = connection.execute(_ADD_VALUE, (field, text, no * SPAN + at[-1])).fetchone()
        added.append((number, sum(1 << place for place in at)))
        if field in COUNTED:
            for place in at:
                pairs[field].extend((place, number))
    for number, bits in added:
        _merge(connection, "bits", "value", number, no, partial(_joined, bits))
    for field, flat in pairs.items():
        _merge(connection, "pairs", "field", field, no, partial(_longer, flat.tobytes()))
    sums = [(seq, terms.more) for seq, terms in rows if terms.more]
    connection.executemany("INSERT OR REPLACE INTO summed VALUES (?, ?)", sums)
    _add_times(connection, no, rows)


def _joined(bits: int, held: bytes) -> bytes:
    return pack(unpack(held) | bits)


def _longer(more: bytes, held: bytes) -> bytes:
    return held + more


def _merge(
    connection: sqlite3.Connection, table: str, name: str, key: int | str, no: int, change: Callable[[bytes], bytes]
) -> None:
    found = connection.execute(f"SELECT {table} FROM {table} WHERE {name} = ? AND span = ?", (key, no)).fetchone()
    changed = change(found[0] if found else b"")
    if changed:
        connection.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", (key, no, changed))
    else:
        connection.execute(f"DELETE FROM {table} WHERE {name} = ? AND span = ?", (key, no))


def _add_times(connection: sqlite3.Connection, no: int, rows: Sequence[tuple[int, Terms]]) -> None:
    times = times_of(connection, no)
    for seq, terms in rows:
        times[seq % SPAN] = max(terms.ts_us, 0)
    known = [terms.ts_us for _, terms in rows if terms.ts_us > 0]
    bare = len(rows) - len(known)
    connection.execute(
        """INSERT INTO span VALUES (?, ?, ?, ?, ?) ON CONFLICT(no) DO UPDATE SET bare = bare + excluded.bare,
            low = min(coalesce(low, excluded.low), coalesce(excluded.low, low)),
            high = max(coalesce(high, excluded.high), coalesce(excluded.high, high)), times = excluded.times""",
        (no, min(known, default=None), max(known, default=None), bare, times.tobytes()),
    )


def times_of(connection: sqlite3.Connection, no: int) -> array[int]:
    """UTC µs by place in the span; 0: no event, or one without a time."""
    times = array("q")
    found = connection.execute("SELECT times FROM span WHERE no = ?", (no,)).fetchone()
    times.frombytes(found[0] if found else bytes(8 * SPAN))
    return times


def _trim(connection: sqlite3.Connection, no: int, first: int) -> None:
    """Forgets the places below `first` of one span."""
    kept = stretch(first, SPAN - 1)
    for (number,) in connection.execute("SELECT value FROM bits WHERE span = ?", (no,)).fetchall():
        _merge(connection, "bits", "value", number, no, lambda held: pack(unpack(held) & kept))
    for (field,) in connection.execute("SELECT field FROM pairs WHERE span = ?", (no,)).fetchall():
        _merge(connection, "pairs", "field", field, no, lambda held: _pairs_from(held, first))
    times = times_of(connection, no)
    times[:first] = array("q", bytes(8 * first))
    connection.execute("UPDATE span SET times = ? WHERE no = ?", (times.tobytes(), no))


def _pairs_from(held: bytes, first: int) -> bytes:
    flat = array("I")
    flat.frombytes(held)
    kept = array("I")
    for place, number in zip(flat[::2], flat[1::2], strict=True):
        if place >= first:
            kept.extend((place, number))
    return kept.tobytes()
