"""What waits to be undone: nothing of it is lost, and nothing in it stops the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from gateway.names import Kind, Owner, Visibility
from gateway.pipeline.salvage import Salvage
from gateway.stores.contract import Mode
from tests.pipeline.desk import Desk


def salvage_of(at: Desk) -> Salvage:
    app: Any = at.gateway.app
    salvage: Salvage = app.pipeline.recorder.salvage
    return salvage


async def undone(at: Desk, number: int = -1) -> str:
    """Keeps one of Alice's responses, as if it could not have been recorded."""
    app: Any = at.gateway.app
    shared, tenant = at.gateway.gateway.shared, await at.tenant()
    mapper = app.pipeline.mappers.of(await shared.keyring.deployment(), await shared.keyring.tenant(tenant))
    raw = list(at.stand_in.provider.responses)[number]
    root = mapper.root(
        Kind.RESPONSE, raw, owner=Owner("local", "alice"), visibility=Visibility.PRIVATE, parent=b"", now=1
    )
    salvage = salvage_of(at)
    await salvage.undo(tenant, mapper.write_root(root, Mode.CREATE), raw, salvage.routing.first)
    return raw


async def test_what_can_be_deleted_at_once_is_not_kept(at: Desk, tmp_path: Path) -> None:
    await at.created()
    raw = await undone(at)
    assert raw not in at.stand_in.provider.responses
    assert not (tmp_path / "undo").exists()


async def test_an_object_that_is_gone_already_counts_as_deleted(at: Desk, tmp_path: Path) -> None:
    await at.created()
    at.script("status=404")
    await undone(at)
    assert not (tmp_path / "undo").exists()


async def test_entries_that_cannot_be_read_stay_and_hold_nothing_up(at: Desk, tmp_path: Path) -> None:
    await at.created()
    at.script("status=500")
    raw = await undone(at)
    folder = tmp_path / "undo"
    (entry,) = folder.glob("*.undo")
    (folder / "00.undo").write_text("what is this?\n")
    (folder / "01.undo").write_text(f"{'z' * 16} AAAA AAAA\n")
    (folder / "02.undo").mkdir()
    (folder / "03.undo").write_bytes(entry.read_bytes()[:-20])
    (folder / "half.part").write_text("a write that broke off")
    assert await salvage_of(at).sweep() == 4
    assert raw not in at.stand_in.provider.responses
    assert not entry.exists()


async def test_an_entry_names_no_raw_id_and_is_for_its_owner_alone(at: Desk, tmp_path: Path) -> None:
    await at.created()
    at.script("status=500")
    raw = await undone(at)
    (entry,) = (tmp_path / "undo").glob("*.undo")
    assert raw.encode() not in entry.read_bytes()
    assert raw not in entry.name
    assert entry.stat().st_mode & 0o777 == 0o600
    assert entry.parent.stat().st_mode & 0o777 == 0o700


async def test_two_sweeps_at_once_do_no_harm(at: Desk, tmp_path: Path) -> None:
    await at.created()
    at.script("status=500")
    await undone(at)
    assert set(await asyncio.gather(salvage_of(at).sweep(), salvage_of(at).sweep())) == {0}
