"""What a miss costs: nothing in Redis' work, in sizes or in decryptions tells why an ID did not open; what this deployment
never signed costs no look-up at all."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from gateway.demo.stand_in.provider import Options
from gateway.ids.encoding import ALPHABET
from gateway.names import Kind
from tests.attack.belongings import MODEL, Belongings
from tests.attack.house import House, Reply, house
from tests.attack.matrix import TAIL, Town, genuine

SEGMENT_BYTES = 1448
"""What one TCP segment carries on Ethernet."""


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with house(tmp_path_factory.mktemp("data")) as running:
        yield Town(running)


Miss = tuple[Belongings, str]
"""Who names it, and the ID."""


def misses(town: Town, place: Place) -> dict[str, Miss]:
    """IDs that pass their tag and do not open."""
    kind = place.kind
    alice, form = town.alice, town.house.run(town.house.deployment.gateway.shared.keyring.deployment()).form
    mine = mine_of(alice, kind)
    parsed = form.verify(mine)
    assert parsed is not None
    found = {
        "another tenant's": (town.bob, mine),
        "another user's": (town.carol, mine),
        "deleted": (alice, alice.deleted[kind]),
        "lost": (alice, genuine(town, mine)),
        "retired": (alice, form.mint(parsed.prefix, parsed.epoch + 1, parsed.h).text),
        "inert": (alice, town.house.mapper("acme").form.inert(kind, f"{parsed.prefix}0123456789abcdef01").text),
    }
    if place.still_there:
        del found["deleted"]
    return found


def mine_of(own: Belongings, kind: Kind) -> str:
    return {
        Kind.RESPONSE: own.response,
        Kind.ITEM: own.items["message"],
        Kind.CHAT_COMPLETION: own.chat,
        Kind.CHAT_MESSAGE: own.said,
    }[kind]


@dataclass(frozen=True, slots=True)
class Place:
    kind: Kind
    name: Callable[[Belongings, str], Reply]
    """Names the ID as the caller."""
    still_there: bool = False
    """What was deleted opens here all the same."""


def _create(own: Belongings, **more: object) -> Reply:
    return own.caller.call("POST", "/responses", {"model": MODEL, "input": "hello", **more})


PLACES = {
    "path": Place(Kind.RESPONSE, lambda own, text: own.caller.call("GET", f"/responses/{text}")),
    "child in the path": Place(
        Kind.ITEM, lambda own, text: own.caller.call("GET", f"/conversations/{own.conversation}/items/{text}")
    ),
    "chat in the path": Place(
        Kind.CHAT_COMPLETION, lambda own, text: own.caller.call("GET", f"/chat/completions/{text}")
    ),
    "child in the query": Place(
        Kind.CHAT_MESSAGE,
        lambda own, text: own.caller.call("GET", f"/chat/completions/{own.chat}/messages?after={text}"),
    ),
    "place in a list": Place(
        Kind.CHAT_COMPLETION, lambda own, text: own.caller.call("GET", f"/chat/completions?after={text}"), True
    ),
    "body": Place(Kind.RESPONSE, lambda own, text: _create(own, previous_response_id=text)),
    "child in the body": Place(
        Kind.ITEM, lambda own, text: _create(own, input=[{"type": "item_reference", "id": text}])
    ),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_every_id_that_passes_its_tag_and_does_not_open_costs_redis_the_same_commands(town: Town, place: Place) -> None:
    seen = {}
    for why, (own, text) in misses(town, place).items():
        place.name(own, text)
        rounds = []
        for _ in range(5):
            town.house.redis.reset_commandstats()
            place.name(own, text)
            stats = town.house.redis.commandstats()
            rounds.append(tuple(sorted((k, v) for k, v in stats.items() if not k.startswith(("config", "info")))))
        seen[why] = Counter(rounds).most_common(1)[0][0]  # the log's own upkeep may fall into one
    assert len(set(seen.values())) == 1, seen
    assert dict(seen["lost"])["evalsha"] == 2


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_every_id_that_passes_its_tag_and_does_not_open_has_answers_of_one_size(town: Town, place: Place) -> None:
    sizes, segments = {}, {}
    with contextlib.closing(_Stats(town.house)) as stats:
        for why, (own, text) in misses(town, place).items():
            read = []
            for _ in range(3):  # the log's own upkeep may fall into one
                before = stats.sent()
                sizes[why] = len(place.name(own, text).body)
                read.append((stats.sent() - before) // SEGMENT_BYTES)
            segments[why] = min(read)
    assert len(set(sizes.values())) == 1, sizes
    assert set(segments.values()) == {0}, segments


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_every_id_that_passes_its_tag_and_does_not_open_costs_the_same_decryptions(town: Town, place: Place) -> None:
    boxes = {caller.tenant: _counted(town.house, caller.tenant) for caller in (town.alice.caller, town.bob.caller)}
    counts = {}
    for why, (own, text) in misses(town, place).items():
        box = boxes[own.caller.tenant]
        before = box.decryptions
        place.name(own, text)
        counts[why] = box.decryptions - before
    mine = mine_of(town.alice, place.kind)
    before = boxes["acme"].decryptions
    assert place.name(town.alice, mine).status == 200
    # What a success writes is sealed, not opened.
    counts["a hit"] = boxes["acme"].decryptions - before
    assert len(set(counts.values())) == 1, counts


def test_forged_ids_cause_no_lookup_and_a_bounded_number_of_events(tmp_path: Any) -> None:
    with house(tmp_path, floods=True, options=Options(record=False)) as running:
        alice = running.caller("acme", "alice")
        response = str(alice.ok("POST", "/responses", {"model": MODEL, "input": "hello"})["id"])
        tenant = running.tenant("acme")
        log = f"{{t:{tenant}}}:aud"

        def counted() -> tuple[int, int]:
            return running.redis.commandstats().get("get", 0), running.redis.command("XLEN", log)

        mapper = running.mapper("acme")
        gets, events = counted()
        alice.call("GET", f"/responses/{mapper.form.inert(None, 'resp_' + '1' * 32).text}")
        after = counted()
        # An event costs one GET, that of its writer; a look-up costs two.
        assert (after[0] - gets) - (after[1] - events) == 2

        gets, events = counted()
        begun, number = time.monotonic(), 10_000
        statuses = _forge(running, alice.key, response, number)
        took_s = time.monotonic() - begun
        patience = time.monotonic() + 5
        while _refusals(running, log, events) < number and time.monotonic() < patience:
            time.sleep(0.05)  # a second's sum is written in the next one
        after = counted()
        written = after[1] - events
        assert after[0] - gets == written
        assert written <= 21 * (took_s + 2)
        assert set(statuses) == {404, 429}
        assert sum(statuses.values()) == number
        assert _refusals(running, log, events) == number


def _forge(running: House, key: str, like: str, number: int) -> Counter[int]:
    """Statuses of that many requests, each with another ID that nobody signed, over eight connections."""
    chance = random.Random(11)
    statuses: Counter[int] = Counter()
    sockets = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(8)]
    files = [one.makefile("rb") for one in sockets]
    try:
        for _ in range(number // len(sockets)):
            for one in sockets:
                forged = like[:-TAIL] + "".join(chance.choices(ALPHABET, k=TAIL))
                one.sendall(
                    f"GET /v1/responses/{forged} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {key}\r\n\r\n".encode()
                )
            for file in files:
                statuses[int(file.readline().split()[1])] += 1
                length = 0
                while (line := file.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                file.read(length)
    finally:
        for file in files:
            file.close()
        for one in sockets:
            one.close()
    return statuses


def _refusals(running: House, log: str, after: int) -> int:
    """How many refusals the log tells of since then, one by one or summed."""
    total = 0
    for _, fields in running.redis.command("XRANGE", log, f"0-{after + 1}", "+"):
        event = orjson.loads(fields[1] if isinstance(fields, list) else fields[b"e"])
        total += event.get("changes", {}).get("count", 1)
    return total


class _Stats:
    """Bytes that Redis has sent to everybody else."""

    def __init__(self, running: House) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(running.redis.socket_path))
        self._file = self._socket.makefile("rb")
        self._mine = 0

    def sent(self) -> int:
        self._socket.sendall(b"INFO stats\r\n")
        head = self._file.readline()
        text = self._file.read(int(head[1:]) + 2)
        total = next(int(line.split(b":")[1]) for line in text.split(b"\r\n") if line.startswith(b"total_net_output_"))
        others = total - self._mine
        self._mine += len(head) + len(text)
        return others

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class _CountedBox:
    """A cipher that counts what it opens."""

    def __init__(self, box: Any) -> None:
        self._box = box
        self.decryptions = 0

    def encrypt(self, nonce: bytes, data: bytes, associated: bytes) -> bytes:
        return bytes(self._box.encrypt(nonce, data, associated))

    def decrypt(self, nonce: bytes, data: bytes, associated: bytes) -> bytes:
        self.decryptions += 1
        return bytes(self._box.decrypt(nonce, data, associated))


def _counted(running: House, tenant: str) -> _CountedBox:
    """The cipher of the tenant's records in the running gateway, counting from now on."""
    keyring = running.deployment.gateway.shared.keyring
    storage = running.run(keyring.tenant(running.tenant(tenant))).keys.storage.newest
    box = _CountedBox(storage.box)
    object.__setattr__(storage, "box", box)
    return box
