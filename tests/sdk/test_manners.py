"""What the official SDK does around a call: models, errors, request IDs, retries, headers of its own."""

from __future__ import annotations

import json

import openai
import pytest
from openai import AsyncOpenAI

from tests.gateway_fixture import Deployment
from tests.sdk.conftest import sent
from tests.sdk.items import MODEL
from tests.stand_in_fixture import Running


async def test_models_are_listed_without_the_fine_tuned(alice: AsyncOpenAI) -> None:
    names = [model.id async for model in alice.models.list()]
    assert "gpt-5" in names
    assert not [name for name in names if name.startswith("ft:")]
    assert (await alice.models.retrieve("gpt-5")).id == "gpt-5"
    with pytest.raises(openai.NotFoundError):
        await alice.models.retrieve("ft:gpt-4o-mini-2024-07-18:acme:coats:abc12345")


async def test_errors_come_as_the_sdks_own_classes_with_code_and_param(
    gateway: Deployment, alice: AsyncOpenAI, stand_in: Running
) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        await alice.responses.retrieve("resp_nobody")
    assert "resp_nobody" in missing.value.message
    with pytest.raises(openai.BadRequestError) as unknown:
        await alice.responses.create(model=MODEL, input="x", previous_response_id="resp_nobody")
    assert (unknown.value.code, unknown.value.param) == ("previous_response_not_found", "previous_response_id")
    with pytest.raises(openai.AuthenticationError):
        await gateway.client("sk-nobody").models.list()
    for status, expected in ((429, openai.RateLimitError), (500, openai.InternalServerError)):
        stand_in.provider.next_answer(f"status={status}")
        with pytest.raises(expected) as failed:
            await alice.responses.create(model=MODEL, input="x")
        text = json.dumps(failed.value.body) + str(dict(failed.value.response.headers))
        assert stand_in.provider.organization not in text
        assert stand_in.provider.project not in text
        assert failed.value.request_id
    with pytest.raises(openai.NotFoundError):
        await alice.evals.list()


async def test_every_answer_has_the_gateways_request_id(alice: AsyncOpenAI) -> None:
    raw = await alice.responses.with_raw_response.create(model=MODEL, input="x")
    parsed = raw.parse()
    assert raw.request_id
    assert raw.request_id.startswith("req_")
    assert parsed._request_id == raw.request_id
    assert "openai-organization" not in raw.headers
    assert "set-cookie" not in raw.headers
    async with alice.responses.with_streaming_response.retrieve(parsed.id) as streamed:
        assert (await streamed.parse()).id == parsed.id


async def test_the_sdks_retries_and_time_outs_work_through_the_gateway(
    gateway: Deployment, alice: AsyncOpenAI, stand_in: Running
) -> None:
    patient = alice.with_options(max_retries=2)
    stand_in.provider.next_answer("status=503")
    made = await patient.responses.create(model=MODEL, input="again")
    assert made.status == "completed"
    stand_in.provider.next_answer("hang")
    with pytest.raises(openai.APITimeoutError):
        await alice.with_options(timeout=0.3).responses.create(model=MODEL, input="wait")
    assert (await alice.responses.create(model=MODEL, input="and on")).status == "completed"


async def test_extra_headers_name_no_account_and_extra_bodies_are_checked_like_the_rest(
    gateway: Deployment, alice: AsyncOpenAI, bob: AsyncOpenAI, stand_in: Running
) -> None:
    first = await alice.responses.create(
        model=MODEL,
        input="x",
        extra_headers={"OpenAI-Organization": "org-other", "OpenAI-Project": "proj_other", "X-Mine": "1"},
        extra_body={"a_new_field": {"n": 1.50}},
    )
    names = {name for name, _ in stand_in.provider.received[-1].headers}
    assert not names & {"openai-organization", "openai-project", "x-mine"}
    assert sent(stand_in)["a_new_field"] == {"n": 1.5}
    before = len(stand_in.provider.received)
    with pytest.raises(openai.BadRequestError):
        await bob.responses.create(model=MODEL, input="x", extra_body={"previous_response_id": first.id})
    with pytest.raises(openai.NotFoundError):
        await bob.responses.create(
            model=MODEL, input="x", extra_body={"input": [{"type": "item_reference", "id": first.output[0].id}]}
        )
    assert len(stand_in.provider.received) == before
