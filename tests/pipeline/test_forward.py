"""What the policies get to see of a request."""

from __future__ import annotations

import pytest

from gateway.pipeline.forward import circumstances, tool_types

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
    assert circumstances("gpt-5", body, "").tools == ("function", "web_search")


@pytest.mark.parametrize("tool", [{}, {"type": None}, {"type": ["mcp"]}, "mcp", None])
def test_a_tool_without_a_type_is_seen_as_untyped(tool: object) -> None:
    assert tool_types({"tools": [tool]}) == ("untyped",)


def test_what_an_mcp_server_listed_are_no_tools_of_the_request() -> None:
    listed = {"type": "mcp_list_tools", "tools": [{"name": "search", "input_schema": {}}]}
    assert tool_types({"input": [listed, {"role": "user", "content": "hi"}]}) == ()


@pytest.mark.parametrize("body", [None, [], "text", {"tools": None, "input": None}, {"tools": {"type": "mcp"}}])
def test_a_body_of_another_form_brings_no_tools(body: object) -> None:
    assert circumstances("", body, "").tools == ()
