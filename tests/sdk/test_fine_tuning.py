"""The official SDK, unmodified, on fine-tuning: jobs, what happens to them, and the models that they make."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.fine_tuning import FineTuningJob

from tests.gateway_fixture import Deployment
from tests.stand_in_fixture import Running

BASE = "gpt-4o-mini"
HELLO: Any = [{"role": "user", "content": "hello"}]


async def upload(client: AsyncOpenAI) -> str:
    return (await client.files.create(file=("chats.jsonl", b"{}\n"), purpose="fine-tune")).id


async def tuned(client: AsyncOpenAI, **more: Any) -> FineTuningJob:
    """A job that has succeeded."""
    job = await client.fine_tuning.jobs.create(model=BASE, training_file=await upload(client), suffix="coats", **more)
    for _ in range(5):
        job = await client.fine_tuning.jobs.retrieve(job.id)
        if job.status == "succeeded":
            return job
    raise AssertionError(job.status)


async def test_a_job_is_made_followed_and_listed_under_one_id(alice: AsyncOpenAI, stand_in: Running) -> None:
    training, validation = await upload(alice), await upload(alice)
    made = await alice.fine_tuning.jobs.create(
        model=BASE,
        training_file=training,
        validation_file=validation,
        metadata={"k": "v"},
        method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 3}}},
    )
    (raw,) = stand_in.provider.jobs
    assert made.id.startswith("ftjob-")
    assert made.id != raw
    assert (made.training_file, made.validation_file, made.metadata) == (training, validation, {"k": "v"})
    assert made.organization_id != stand_in.provider.organization
    assert (await alice.fine_tuning.jobs.pause(made.id)).id == made.id
    assert (await alice.fine_tuning.jobs.resume(made.id)).status == "queued"
    other = await alice.fine_tuning.jobs.create(model=BASE, training_file=training, metadata={"k": "w"})
    assert [one.id async for one in alice.fine_tuning.jobs.list(limit=1)] == [other.id, made.id]
    assert [one.id async for one in alice.fine_tuning.jobs.list(metadata={"k": "v"})] == [made.id]
    assert (await alice.fine_tuning.jobs.cancel(other.id)).status == "cancelled"
    with pytest.raises(openai.BadRequestError):
        await alice.fine_tuning.jobs.cancel(other.id)


async def test_what_a_job_makes_belongs_to_its_owner(alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running) -> None:
    job = await tuned(alice)
    (raw,) = stand_in.provider.jobs
    assert job.fine_tuned_model is not None
    assert job.fine_tuned_model.startswith("ft:")
    assert job.fine_tuned_model != stand_in.provider.jobs[raw].body["fine_tuned_model"]
    (results,) = job.result_files
    assert (await alice.files.content(results)).text.startswith("step,")
    checkpoints = [one async for one in alice.fine_tuning.jobs.checkpoints.list(job.id, limit=1)]
    assert [one.fine_tuning_job_id for one in checkpoints] == [job.id, job.id]
    assert job.fine_tuned_model in [one.fine_tuned_model_checkpoint for one in checkpoints]
    events = [one async for one in alice.fine_tuning.jobs.list_events(job.id, limit=1)]
    assert f"New fine-tuned model created: {job.fine_tuned_model}" in [one.message for one in events]
    assert f"Created fine-tuning job: {job.id}" in [one.message for one in events]
    for call in (
        bob.fine_tuning.jobs.retrieve(job.id),
        bob.fine_tuning.jobs.checkpoints.list(job.id),
        bob.fine_tuning.jobs.list_events(job.id),
        bob.fine_tuning.jobs.list_events(job.id, after=events[0].id),
    ):
        with pytest.raises(openai.NotFoundError, match="Could not find fine tune"):
            await call
    with pytest.raises(openai.NotFoundError):
        await bob.files.content(results)
    assert [one.id async for one in bob.fine_tuning.jobs.list()] == []


async def test_a_fine_tuned_model_is_listed_described_used_and_deleted_by_its_owner_alone(
    gateway: Deployment, alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    carol = gateway.client(await gateway.key("acme", "carol"))
    job = await tuned(alice)
    model = str(job.fine_tuned_model)
    (raw,) = stand_in.provider.jobs
    name = stand_in.provider.jobs[raw].body["fine_tuned_model"]
    listed = {one.id: one.owned_by async for one in alice.models.list()}
    assert listed[model] == "organization-owner"
    assert listed[BASE] == "system"
    assert (await alice.models.retrieve(model)).id == model
    said = await alice.chat.completions.create(model=model, messages=HELLO, store=True)
    assert said.model == model
    assert stand_in.provider.received[-1].json()["model"] == name
    assert (await alice.chat.completions.retrieve(said.id)).model == model
    await alice.chat.completions.create(model=BASE, messages=HELLO, store=True)
    assert [(one.id, one.model) async for one in alice.chat.completions.list(model=model)] == [(said.id, model)]
    answered = await alice.responses.create(model=model, input="hello")
    assert answered.model == model
    assert (await alice.responses.retrieve(answered.id)).model == model
    async for event in await alice.responses.create(model=model, input="hello", stream=True):
        assert name not in event.to_json()
    async for chunk in await alice.chat.completions.create(model=model, messages=HELLO, stream=True):
        assert chunk.model == model
    again = await alice.fine_tuning.jobs.create(model=model, training_file=await upload(alice))
    assert again.model == model
    for stranger in (bob, carol):
        before = len(stand_in.provider.received)
        for call in (
            stranger.models.retrieve(model),
            stranger.models.delete(model),
            stranger.responses.create(model=model, input="hello"),
            stranger.chat.completions.create(model=model, messages=HELLO),
            stranger.completions.create(model=model, prompt="hello"),
            stranger.responses.create(model=name, input="hello"),
            stranger.models.retrieve(name),
        ):
            with pytest.raises(openai.NotFoundError) as error:
                await call
            assert error.value.code == "model_not_found"
        assert len(stand_in.provider.received) == before
        assert not [one.id async for one in stranger.models.list() if one.id.startswith("ft:")]
    assert (await alice.models.delete(model)).id == model
    assert model not in [one.id async for one in alice.models.list()]
    with pytest.raises(openai.NotFoundError):
        await alice.responses.create(model=model, input="hello")


async def test_nobody_deletes_one_of_the_services_models(alice: AsyncOpenAI, stand_in: Running) -> None:
    before = len(stand_in.provider.received)
    with pytest.raises(openai.NotFoundError):
        await alice.models.delete(BASE)
    assert len(stand_in.provider.received) == before


async def test_a_model_that_a_grader_names_is_a_reference_too(
    alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    model = str((await tuned(alice)).fine_tuned_model)
    grader: Any = {
        "type": "multi",
        "name": "both",
        "calculate_output": "g",
        "graders": {
            "type": "score_model",
            "name": "g",
            "model": model,
            "input": [{"role": "user", "content": "{{x}}"}],
        },
    }
    method: Any = {"type": "reinforcement", "reinforcement": {"grader": grader}}
    made = await alice.fine_tuning.jobs.create(model=BASE, training_file=await upload(alice), method=method)
    sent = stand_in.provider.received[-1].json()["method"]["reinforcement"]["grader"]["graders"]["model"]
    assert sent in stand_in.provider.models
    assert sent not in made.to_json()
    assert model in made.to_json()
    with pytest.raises(openai.NotFoundError):
        await bob.fine_tuning.jobs.create(model=BASE, training_file=await upload(bob), method=method)
