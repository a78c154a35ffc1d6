"""The official SDK, unmodified, on skills and their versions."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.stand_in_fixture import Running

FILES: Any = [("fold/SKILL.md", b"# Fold"), ("fold/fold.py", b"print(7)")]


async def test_a_skill_is_made_versioned_downloaded_and_deleted_under_one_id(
    alice: AsyncOpenAI, stand_in: Running
) -> None:
    made = await alice.skills.create(files=FILES)
    (raw,) = stand_in.provider.skills
    assert made.id.startswith("skill_")
    assert made.id != raw
    assert (await alice.skills.content.retrieve(made.id)).content == b"# Foldprint(7)"
    version = await alice.skills.versions.create(made.id, files=("fold.zip", b"PK\3\4"), default=True)
    assert (version.skill_id, version.version) == (made.id, "2")
    assert version.id.startswith("skillver_")
    assert (await alice.skills.retrieve(made.id)).default_version == "2"
    assert (await alice.skills.update(made.id, default_version="1")).default_version == "1"
    listed = [one.id async for one in alice.skills.versions.list(made.id, limit=1, order="asc")]
    assert listed[1:] == [version.id]
    assert (await alice.skills.versions.retrieve("2", skill_id=made.id)).id == version.id
    assert (await alice.skills.versions.content.retrieve("2", skill_id=made.id)).content == b"PK\3\4"
    deleted = await alice.skills.versions.delete("2", skill_id=made.id)
    assert (deleted.id, deleted.version) == (version.id, "2")
    assert [one.id async for one in alice.skills.list()] == [made.id]
    assert (await alice.skills.delete(made.id)).id == made.id
    with pytest.raises(openai.NotFoundError, match="Skill with id"):
        await alice.skills.versions.retrieve("1", skill_id=made.id)


async def test_a_skill_is_used_by_its_owner_alone(alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running) -> None:
    skill = (await alice.skills.create(files=FILES)).id
    (raw,) = stand_in.provider.skills
    skills: Any = [{"type": "skill_reference", "skill_id": skill, "version": "1"}]
    box = await alice.containers.create(name="box", skills=skills)
    assert stand_in.provider.received[-1].json()["skills"][0]["skill_id"] == raw
    assert box.id
    for call in (
        bob.containers.create(name="box", skills=skills),
        bob.skills.retrieve(skill),
        bob.skills.content.retrieve(skill),
        bob.skills.versions.content.retrieve("1", skill_id=skill),
        bob.skills.versions.create(skill, files=FILES),
    ):
        before = len(stand_in.provider.received)
        with pytest.raises(openai.NotFoundError, match="Skill with id"):
            await call
        assert len(stand_in.provider.received) == before
    assert [one.id async for one in bob.skills.list()] == []


async def test_a_raw_id_is_no_versions_number(alice: AsyncOpenAI, stand_in: Running) -> None:
    skill = (await alice.skills.create(files=FILES)).id
    ((_, version),) = next(iter(stand_in.provider.skills.values())).versions.items()
    before = len(stand_in.provider.received)
    with pytest.raises(openai.NotFoundError):
        await alice.skills.versions.retrieve(version.body["id"], skill_id=skill)
    assert len(stand_in.provider.received) == before
