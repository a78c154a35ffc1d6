"""What the policies get to see of a request."""

from __future__ import annotations

import pytest

from gateway.errors import Problem, Reason
from gateway.pipeline.forward import check_model, circumstances, tool_types
from gateway.rewrite.named import Collected
from gateway.surfaces.table import BY_ACTION

CREATE = BY_ACTION["responses.create"]
CHAT = BY_ACTION["chat.completions.create"]
MCP = {"type": "mcp", "server_url": "https://x"}


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [MCP]},
        {"tools": [{"type": "namespace", "tools": [MCP]}]},
        {"input": [{"type": "additional_tools", "role": "developer", "tools": [MCP]}]},
        {"input": [{"type": "tool_search_output", "tools": [{"type": "namespace", "tools": [MCP]}]}]},
        {"items": [{"type": "an_item_of_tomorrow", "tools": [MCP]}]},
        {"instructions": [{"type": "additional_tools", "role": "developer", "tools": [MCP]}]},
    ],
)
def test_a_tool_is_seen_wherever_a_request_can_bring_it(body: dict[str, object]) -> None:
    assert "mcp" in tool_types(body)


def test_each_type_is_told_once_and_in_order() -> None:
    body = {"tools": [{"type": "web_search"}, {"type": "function"}, {"type": "function"}], "input": "text"}
    assert circumstances(CREATE, "gpt-5", body, "").tools == ("function", "web_search")


@pytest.mark.parametrize("tool", [{}, {"type": None}, {"type": ["mcp"]}, "mcp", None])
def test_a_tool_without_a_type_is_seen_as_untyped(tool: object) -> None:
    assert tool_types({"tools": [tool]}) == ("untyped",)


def test_what_an_mcp_server_listed_are_no_tools_of_the_request() -> None:
    listed = {"type": "mcp_list_tools", "tools": [{"name": "search", "input_schema": {}}]}
    assert tool_types({"input": [listed, {"role": "user", "content": "hi"}]}) == ()


@pytest.mark.parametrize("body", [None, [], "text", {"tools": None, "input": None}, {"tools": {"type": "mcp"}}])
def test_a_body_of_another_form_brings_no_tools(body: object) -> None:
    assert circumstances(CREATE, "", body, "").tools == ()


@pytest.mark.parametrize(
    ("body", "types"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, ("function",)),
        ({"functions": [{"name": "f"}]}, ("function",)),
        ({"web_search_options": {}}, ("web_search",)),
        ({"functions": None, "web_search_options": None}, ()),
    ],
)
def test_chats_other_ways_to_bring_a_tool_are_seen(body: dict[str, object], types: tuple[str, ...]) -> None:
    assert circumstances(CHAT, "gpt-5", body, "").tools == types


@pytest.mark.parametrize(
    ("said", "response", "chat"), [(None, True, False), (True, True, True), (False, False, False), ("true", True, True)]
)
def test_a_response_is_kept_unless_it_says_not_to_and_a_chat_where_it_says_so(
    said: object, response: bool, chat: bool
) -> None:
    body = {} if said is None else {"store": said}
    assert circumstances(CREATE, "gpt-5", body, "").store is response
    assert circumstances(CHAT, "gpt-5", body, "").store is chat


@pytest.mark.parametrize("name", ["max_output_tokens", "max_completion_tokens", "max_tokens"])
def test_the_limit_of_an_answer_is_seen_whatever_it_is_called(name: str) -> None:
    assert circumstances(CHAT, "gpt-5", {name: 7}, "").max_output_tokens == 7
    assert circumstances(CHAT, "gpt-5", {name: None}, "").max_output_tokens == 0


@pytest.mark.parametrize("said", [True, "7", 1e9, [7]])
def test_a_limit_that_is_no_whole_number_counts_as_none(said: object) -> None:
    assert circumstances(CHAT, "gpt-5", {"max_tokens": said}, "").max_output_tokens == 2**53


@pytest.mark.parametrize("said", [1, "true", [], {}])
def test_what_is_neither_false_nor_null_counts_as_asked_for(said: object) -> None:
    seen = circumstances(CREATE, "gpt-5", {"background": said, "stream": said}, "")
    assert (seen.background, seen.stream) == (True, True)


@pytest.mark.parametrize("name", ["model", "moderation", "svg"])
def test_a_fine_tuned_model_reads_as_missing_wherever_the_table_takes_no_reference_to_one(name: str) -> None:
    tuned = "ft:gpt-4o-mini:acme::B7R9VjQd"
    with pytest.raises(Problem) as refused:
        check_model(
            {}, {"model": tuned} if name == "model" else {"model": "gpt-5", name: {"model": tuned}}, Collected()
        )
    assert refused.value.reason is Reason.NOT_RECORDED
