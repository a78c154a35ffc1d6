"""References that are no look-up of an object: the cache comparison, and approvals of a history that nobody stored."""

from __future__ import annotations

import pytest

from tests.pipeline.desk import Desk


def newest(at: Desk, prefix: str) -> str:
    """The raw ID with `prefix` that the service gave last."""
    return [raw for raw in at.stand_in.provider.issued if raw.startswith(prefix)][-1]


async def test_a_comparison_with_a_response_of_ones_own_is_made(at: Desk) -> None:
    first = await at.created()
    second = await at.created(prompt_cache_options={"comparison_response_id": first["id"]})
    assert second["prompt_cache_diagnostics"]["type"] != "comparison_response_not_found"
    assert second["prompt_cache_options"]["comparison_response_id"] == first["id"]


@pytest.mark.parametrize("who", ["bob", "carol"])
async def test_a_comparison_with_somebody_elses_response_reads_as_not_found(at: Desk, who: str) -> None:
    foreign = (await at.created())["id"]
    raw = newest(at, "resp_")
    answer = await at.created(who=who, prompt_cache_options={"comparison_response_id": foreign})
    assert answer["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}
    assert answer["prompt_cache_options"]["comparison_response_id"] == foreign
    received = at.upstream[-1].json()["prompt_cache_options"]["comparison_response_id"]
    assert received not in (foreign, raw)
    assert received not in at.stand_in.provider.issued


async def test_a_raw_id_compared_with_is_neither_sent_nor_repeated(at: Desk) -> None:
    await at.created()
    raw = newest(at, "resp_")
    reply = await at.create(prompt_cache_options={"comparison_response_id": raw})
    assert reply.status_code == 200
    assert raw not in reply.text
    assert reply.json()["prompt_cache_options"]["comparison_response_id"] is None
    assert reply.json()["prompt_cache_diagnostics"] == {"type": "comparison_response_not_found"}
    assert raw.encode() not in at.upstream[-1].body


async def test_an_approval_works_in_a_history_that_nobody_stored(at: Desk) -> None:
    tools = [{"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example/mcp"}]
    asked = await at.created("mcp", store=False, tools=tools)
    request = next(item for item in asked["output"] if item["type"] == "mcp_approval_request")
    approval = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
    said = [{"role": "user", "content": "hello"}, *asked["output"], approval]
    answer = await at.create(input=said, store=False, tools=tools)
    assert answer.status_code == 200, answer.text
    sent = at.upstream[-1].json()["input"]
    assert sent[-1]["approval_request_id"] == request["id"]
    assert request["id"] in [item.get("id") for item in sent]


async def test_an_approval_of_a_request_that_is_not_in_the_input_reads_as_missing(at: Desk) -> None:
    tools = [{"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example/mcp"}]
    asked = await at.created("mcp", store=False, tools=tools)
    request = next(item for item in asked["output"] if item["type"] == "mcp_approval_request")
    calls = len(at.upstream)
    approval = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
    answer = await at.create(input=[approval], store=False, tools=tools)
    assert answer.status_code == 404
    assert len(at.upstream) == calls
