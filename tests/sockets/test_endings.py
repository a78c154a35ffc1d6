"""How a session ends is in its outcome, and a long one does not end for being long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from websockets.protocol import State

from gateway.admin.keys import create_key, revoke_key
from gateway.demo.stand_in.server import Running
from gateway.ids.keys import Purpose
from gateway.names import Owner
from gateway.pipeline import realtime_names, realtime_socket
from gateway.pipeline.standing import CHECK_EVERY_S
from gateway.rewrite import id_table
from gateway.stores.contract import StoreUnavailable
from gateway.stores.keyring import KEPT_S, MAX_AGE_S, USED_AFTER_S
from tests.pipeline.desk import Desk, desk
from tests.redis_fixture import RedisServer
from tests.sockets.odd import ITEMS, item_id, odd_service
from tests.sockets.test_realtime import PATH, added, message, told
from tests.sockets.wire import PATIENCE_S, opened


@pytest.fixture
async def odd(redis_server: RedisServer, stand_in: Running, tmp_path: Path) -> AsyncIterator[Desk]:
    async with odd_service() as url, desk(redis_server, stand_in, tmp_path, OPENAI_BASE_URL=url) as made:
        yield made


async def outcome(at: Desk, kind: str = "realtime.connect", who: str = "alice") -> tuple[str, str, dict[str, Any]]:
    """Result, reason and changes of the one socket's outcome."""

    async def done() -> Any:
        return [one for one in await at.log(who) if one["type"] == kind and one["phase"] == "outcome"]

    (ended,) = await at.until(done, PATIENCE_S)
    return ended["outcome"]["result"], ended["outcome"]["reason"], ended["changes"]


async def test_a_sessions_outcome_says_who_ended_it_and_how_many_errors_it_had(
    at: Desk, redis_server: RedisServer
) -> None:
    async with opened(at, path=PATH) as wire:
        await told(
            wire, {"type": "response.create", "response": {"input": [message("[[script: status=500]] x")["item"]]}}
        )
        redis_server.reset_commandstats()
        for _ in range(3):
            await told(wire, {"type": "input_audio_buffer.commit"})
        asked = redis_server.commandstats()
        assert not asked.get("evalsha", 0) + asked.get("fcall", 0)
    assert await outcome(at) == ("allow", "", {"closed_by": "client", "close_code": 1000, "errors": 4})


async def test_errors_of_a_responses_socket_are_counted_too(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.create("[[script: status=429]] x")
        await wire.create("[[script: message, failed]] x")
        await wire.responded()
    assert await outcome(at, "responses.connect") == (
        "allow", "", {"closed_by": "client", "close_code": 1000, "errors": 2},
    )  # fmt: skip


async def test_a_close_of_the_services_own_is_told_with_its_code(at: Desk) -> None:
    async with opened(at, path=PATH) as wire:
        await added(wire, "[[script: close_socket=3005]] x")
        await wire.send({"type": "response.create"})
        await wire.closed()
    result, _, changes = await outcome(at)
    assert (result, changes["closed_by"], changes["close_code"]) == ("allow", "service", 3005)


async def test_a_service_that_breaks_off_is_no_success(odd: Desk) -> None:
    async with opened(odd, path="/realtime?model=lost") as wire:
        assert (await wire.closed())[0] == 1011
    result, reason, changes = await outcome(odd)
    assert (result, reason) == ("error", "upstream_bad_answer")
    assert (changes["closed_by"], changes["close_code"]) == ("service", 1006)


async def test_what_the_gateway_ends_is_told_as_its_own(at: Desk) -> None:
    object.__setattr__(at.gateway.app.websocket, "check_every_s", 0.3)
    made = await create_key(at.admin, await at.tenant("bob"), Owner("local", "bob"))
    at.keys["bob"] = made.key
    async with opened(at, "bob", PATH) as wire:
        await revoke_key(at.admin, made.id)
        assert (await wire.closed())[0] == 1008
    result, reason, changes = await outcome(at, who="bob")
    assert (result, reason) == ("deny", "credential_revoked")
    assert (changes["closed_by"], changes["close_code"]) == ("gateway", 1008)


@pytest.mark.parametrize("path", [PATH, "/responses"])
async def test_a_key_that_expires_ends_its_sockets(at: Desk, path: str) -> None:
    object.__setattr__(at.gateway.app.websocket, "check_every_s", 0.3)
    at.keys["bob"] = (await create_key(at.admin, await at.tenant("bob"), Owner("local", "bob"), lifetime_s=2)).key
    async with opened(at, "bob", path) as wire:
        assert (await wire.closed())[0] == 1008


@pytest.mark.parametrize("path", [PATH, "/responses"])
async def test_a_socket_whose_client_nobody_can_look_at_ends(
    at: Desk, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    object.__setattr__(at.gateway.app.websocket, "check_every_s", 0.2)
    async with opened(at, path=path) as wire:
        monkeypatch.setattr(at.gateway.app.pipeline.answering.recorder.store, "tenant_state", away)
        await asyncio.sleep(0.7)
        assert wire.connection.state is State.OPEN, "not at once"
        monkeypatch.setattr("gateway.transport.websocket.UNCHECKED_S", 0.1)
        assert (await wire.closed())[0] == 1011


async def test_the_code_with_which_a_client_closes_reaches_the_service(at: Desk) -> None:
    async with opened(at) as wire:
        await wire.responded()
        await wire.connection.close(4001, "I am going home")

    async def seen() -> bool:
        return any(one.close_code == 4001 for one in at.upstream)

    await at.until(seen, PATIENCE_S)


@pytest.mark.parametrize("path", [PATH, "/responses"])
@pytest.mark.parametrize("which", ["identity", "tag"])
async def test_ids_that_are_retired_in_an_emergency_end_with_the_sockets_that_know_them(
    at: Desk, path: str, which: str
) -> None:
    object.__setattr__(at.gateway.app.websocket, "check_every_s", 0.3)
    keyring = at.gateway.gateway.shared.keyring
    async with opened(at, path=path) as wire:
        if which == "tag":
            await keyring.retire_tag()
        else:
            await keyring.rotate(await at.tenant(), Purpose.IDENTITY)
        assert (await wire.closed())[0] == 1012
        assert b"ids_retired" in wire.shown[-1]
    kind = "responses.connect" if path == "/responses" else "realtime.connect"
    result, reason, changes = await outcome(at, kind)
    assert (result, reason, changes["closed_by"]) == ("error", "ids_retired", "gateway")
    async with opened(at) as wire:
        made = await wire.responded()
        await asyncio.sleep(0.7)
        await wire.responded(previous_response_id=made["id"])


@pytest.mark.parametrize("path", [PATH, "/responses"])
async def test_no_frame_is_taken_with_ids_that_were_retired(at: Desk, path: str) -> None:
    made = await at.created()
    async with opened(at, path=path) as wire:
        await at.gateway.gateway.shared.keyring.rotate(await at.tenant(), Purpose.IDENTITY)
        before = len(at.upstream)
        asked = {"type": "response.create", "model": "gpt-5", "input": "x", "previous_response_id": made["id"]}
        await wire.send(message() if path == PATH else asked)
        assert (await wire.closed())[0] == 1012
        assert len(at.upstream) == before


async def test_an_open_socket_opens_what_others_seal_with_newer_storage_keys(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    object.__setattr__(at.gateway.app.websocket, "check_every_s", 0.3)
    keyring = at.gateway.gateway.shared.keyring
    async with opened(at) as wire:
        monkeypatch.setattr(keyring, "_now_s", lambda: time.time() + USED_AFTER_S + 1)
        await keyring.rotate(await at.tenant(), Purpose.STORAGE)
        monkeypatch.setattr(keyring, "_now_s", lambda: time.time() + 2 * USED_AFTER_S + 2)
        made = await at.created()
        await asyncio.sleep(0.7)
        await wire.responded(previous_response_id=made["id"])


def test_a_socket_looks_at_its_keys_as_often_as_the_promised_minute_needs() -> None:
    assert KEPT_S + CHECK_EVERY_S <= MAX_AGE_S


async def test_a_session_of_many_ids_goes_on_and_calls_the_oldest_what_it_called_it(
    odd: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime_socket, "MAX_SOUGHT", 64)
    # More would end a session that remembered them all.
    monkeypatch.setattr(id_table, "MAX_TOUCHED", 128)
    async with opened(odd, path="/realtime?model=items") as wire:
        await wire.send(message(id="mine-1"))
        *events, chosen = await wire.until("conversation.item.deleted")
        assert chosen["item_id"] == "mine-1"
        assert len({event["item"]["id"] for event in events}) == ITEMS
        assert all(here["item"]["id"] == then["previous_item_id"] for here, then in pairwise(events))
        assert (await wire.event())["item_id"] == events[0]["item"]["id"]
        shown = b"\n".join(wire.shown).decode()
        assert not [number for number in range(ITEMS) if item_id(number) in shown]


async def test_an_old_id_that_stands_whole_in_a_text_reads_as_it_did(
    odd: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime_socket, "MAX_SOUGHT", 64)
    async with opened(odd, path="/realtime?model=repeating") as wire:
        *events, _ = await wire.until("conversation.item.deleted")
        added, texts = events[:ITEMS], [event["text"] for event in events[ITEMS:]]
        assert texts == [f"it was {event['item']['id']}." for event in added[:3]]
        shown = b"\n".join(wire.shown).decode()
        assert not [number for number in range(ITEMS) if item_id(number) in shown]


async def test_of_a_session_only_the_newest_ids_can_be_named(odd: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realtime_names, "MAX_KNOWN", 32)
    async with opened(odd, path="/realtime?model=items") as wire:
        await wire.send(message(id="mine-1"))
        *events, _ = await wire.until("conversation.item.deleted")
        frame = {"type": "conversation.item.delete", "event_id": "e1"}
        error = await told(wire, frame | {"item_id": events[100]["item"]["id"]})
        assert error["event_id"] == "e1"
        # The newest passes: the next error is the next frame's.
        await wire.send(frame | {"item_id": events[-1]["item"]["id"]})
        assert (await told(wire, frame | {"event_id": "e2", "item_id": events[101]["item"]["id"]}))["event_id"] == "e2"
