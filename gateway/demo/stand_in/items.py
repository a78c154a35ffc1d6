"""The table of output items that a script can ask for, and the choice of what a turn consists of."""

from __future__ import annotations

from collections.abc import Callable

from gateway.demo.stand_in import client_items, hosted_items, messages
from gateway.demo.stand_in.messages import text_of
from gateway.demo.stand_in.outputs import Output, Turn, shown_by

Builder = Callable[[Turn], Output | list[Output]]

BUILDERS: dict[str, Builder] = {
    "reasoning": hosted_items.reasoning,
    "reasoning_text": hosted_items.reasoning_text,
    "web_search": hosted_items.web_search,
    "file_search": hosted_items.file_search,
    "code_interpreter": hosted_items.code_interpreter,
    "image": hosted_items.image,
    "mcp": hosted_items.mcp,
    "tool_search": hosted_items.tool_search,
    "compaction": hosted_items.compaction,
    "program": hosted_items.program,
    "shell": client_items.shell,
    "message": messages.message,
    "refusal": messages.refusal,
    "function_call": client_items.function_calls,
    "custom_tool": client_items.custom_tool,
    "local_shell": client_items.local_shell,
    "apply_patch": client_items.apply_patch,
    "computer": client_items.computer,
}
"""Script word → what makes the item or items. Every kind of item that the service writes is here."""

_CLIENT_ACTS = {"function_call", "custom_tool", "local_shell", "apply_patch", "computer"}
_ENDS_WITH_MESSAGE = {"message", "refusal"}


def outputs(turn: Turn) -> list[Output]:
    """The items of this turn, in order. A message ends it, unless the client has to act first. A warm-up has none."""
    made: list[Output] = []
    if turn.body.get("generate") is False:
        return made
    for word in _wanted(turn):
        built = BUILDERS[word](turn)
        made += built if isinstance(built, list) else [built]
    for output in made:
        output.item |= shown_by(output.hidden, turn.body.get("include") or [])
    return made


def _wanted(turn: Turn) -> list[str]:
    words = [word for word, _ in turn.script.words if word in BUILDERS]
    if turn.answers_a_call():
        words = [word for word in words if word not in _CLIENT_ACTS]
        if turn.new_items[-1].get("type") == "mcp_approval_response" and "mcp" not in words:
            words.append("mcp")
    elif _asks_for_function(turn) and "function_call" not in words:
        words.append("function_call")
    client_acts = (
        not _CLIENT_ACTS.isdisjoint(words)
        or ("mcp" in words and _needs_approval(turn))
        or ("shell" in words and _shell_is_local(turn))
    )
    if not client_acts and _ENDS_WITH_MESSAGE.isdisjoint(words) and "no_message" not in turn.script:
        words.append("message")
    return words


def _asks_for_function(turn: Turn) -> bool:
    """Whether the tool choice demands a function or the latest prompt names one."""
    tools, choice = turn.tools("function"), turn.body.get("tool_choice")
    if not tools or choice == "none":
        return False
    if choice == "required" or (isinstance(choice, dict) and choice.get("type") == "function"):
        return True
    prompt = text_of(turn.new_items[-1]) if turn.new_items else ""
    return any(str(tool.get("name")) in prompt for tool in tools)


def _needs_approval(turn: Turn) -> bool:
    server = next(iter(turn.tools("mcp")), {})
    approved = any(item.get("type") == "mcp_approval_response" for item in turn.new_items)
    return not approved and server.get("require_approval") != "never"


def _shell_is_local(turn: Turn) -> bool:
    return any((tool.get("environment") or {}).get("type") == "local" for tool in turn.tools("shell"))
