"""Calls that the client has to carry out: functions, custom tools, shells, patches, the computer."""

from __future__ import annotations

from gateway.demo.stand_in.hosted_items import arguments_for
from gateway.demo.stand_in.messages import text_of
from gateway.demo.stand_in.outputs import Json, Output, Turn
from gateway.demo.stand_in.raw_ids import Exposure


def function_calls(turn: Turn) -> list[Output]:
    """A call of each function that the script, the tool choice or the prompt names, else of the first one."""
    tools = turn.tools("function") or [
        {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    ]
    choice = turn.body.get("tool_choice")
    named = turn.script.text("function_call") or (choice.get("name") if isinstance(choice, dict) else None)
    prompt = str(named) if named else text_of(turn.new_items[-1]) if turn.new_items else ""
    chosen = [tool for tool in tools if str(tool.get("name")) in prompt] or tools[: turn.script.count("calls", 1)]
    return [_function_call(turn, tool) for tool in chosen]


def _function_call(turn: Turn, tool: Json) -> Output:
    raw, arguments = turn.new_id("fc_", "output[].id"), arguments_for(tool)
    item: Json = {
        "id": raw,
        "type": "function_call",
        "status": "completed",
        "arguments": arguments,
        "call_id": turn.new_id("call_", "call_id"),
        "name": tool.get("name"),
    }
    name = "response.function_call_arguments"
    events: list[Json] = [{"type": f"{name}.delta", "item_id": raw, "delta": piece} for piece in turn.pieces(arguments)]
    events.append({"type": f"{name}.done", "item_id": raw, "arguments": arguments})
    return Output(item, {**item, "status": "in_progress", "arguments": ""}, events, ends_turn=True)


def custom_tool(turn: Turn) -> Output:
    tool = next(iter(turn.tools("custom")), {"name": "cloakroom"})
    raw, text = turn.new_id("ctc_", "output[].id"), "fetch coat 7"
    item: Json = {
        "id": raw,
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": turn.new_id("call_", "call_id"),
        "input": text,
        "name": tool["name"],
    }
    name = "response.custom_tool_call_input"
    events: list[Json] = [{"type": f"{name}.delta", "item_id": raw, "delta": piece} for piece in turn.pieces(text)]
    events.append({"type": f"{name}.done", "item_id": raw, "input": text})
    return Output(item, {**item, "status": "in_progress", "input": ""}, events, ends_turn=True)


def local_shell(turn: Turn) -> Output:
    action = {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 1000, "working_directory": "/"}
    item: Json = {
        "id": turn.new_id("lsh_", "output[].id"),
        "type": "local_shell_call",
        "status": "completed",
        "action": action,
        "call_id": turn.new_id("call_", "call_id"),
    }
    return Output(item, {**item, "status": "in_progress"}, ends_turn=True)


def shell(turn: Turn) -> list[Output]:
    """A shell call; in a container the service runs it and its output follows, locally the client has to."""
    environment = next((tool.get("environment") for tool in turn.tools("shell")), None) or {}
    local = environment.get("type") == "local"
    command = "ls /mnt/data"
    item: Json = {
        "id": turn.new_id("sh_", "output[].id"),
        "type": "shell_call",
        "status": "completed",
        "action": {"commands": [command], "max_output_length": None, "timeout_ms": None},
        "call_id": turn.new_id("call_", "call_id"),
        "environment": {"type": "local"}
        if local
        else {"type": "container_reference", "container_id": turn.container_id()},
    }
    name = "response.shell_call_command"
    events: list[Json] = [{"type": f"{name}.added", "command_index": 0, "command": ""}]
    events += [
        {"type": f"{name}.delta", "item_id": item["id"], "command_index": 0, "delta": piece}
        for piece in turn.pieces(command)
    ]
    events.append({"type": f"{name}.done", "command_index": 0, "command": command})
    added = {**item, "status": "in_progress", "action": {**item["action"], "commands": []}}
    call = Output(item, added, events, ends_turn=local)
    return [call] if local else [call, _shell_output(turn, str(item["call_id"]))]


def _shell_output(turn: Turn, call_id: str) -> Output:
    raw, stdout = turn.new_id("sho_", "output[].id"), f"data.csv {turn.container_id()} {turn.planted}\n"
    output = [{"outcome": {"type": "exit", "exit_code": 0}, "stderr": "", "stdout": stdout}]
    item: Json = {
        "id": raw,
        "type": "shell_call_output",
        "status": "completed",
        "call_id": call_id,
        "max_output_length": None,
        "output": output,
    }
    name = "response.shell_call_output_content"
    events: list[Json] = [
        {"type": f"{name}.delta", "item_id": raw, "command_index": 0, "delta": {"stdout": piece, "stderr": ""}}
        for piece in turn.pieces(stdout)
    ]
    events.append({"type": f"{name}.done", "item_id": raw, "command_index": 0, "output": output})
    return Output(item, {**item, "status": "in_progress", "output": []}, events)


def apply_patch(turn: Turn) -> Output:
    raw, diff = turn.new_id("apc_", "output[].id"), "@@ -1 +1 @@\n-grey\n+green\n"
    operation = {"type": "update_file", "path": "coat.txt", "diff": diff}
    item: Json = {
        "id": raw,
        "type": "apply_patch_call",
        "status": "completed",
        "call_id": turn.new_id("call_", "call_id"),
        "operation": operation,
    }
    name = "response.apply_patch_call_operation_diff"
    events: list[Json] = [{"type": f"{name}.delta", "item_id": raw, "delta": piece} for piece in turn.pieces(diff)]
    events.append({"type": f"{name}.done", "item_id": raw, "diff": diff})
    return Output(item, {**item, "status": "in_progress", "operation": {**operation, "diff": ""}}, events, True)


def computer(turn: Turn) -> Output:
    check = {
        # A token that the client acknowledges: it addresses nothing.
        "id": turn.ids.new("cu_sc_", place="pending_safety_checks[].id", exposure=Exposure.CORRELATION),
        "code": "malicious_instructions",
        "message": "We have detected instructions that may cause trouble.",
    }
    item: Json = {
        "id": turn.new_id("cu_", "output[].id"),
        "type": "computer_call",
        "status": "completed",
        "action": {"type": "click", "button": "left", "x": 156, "y": 50},
        "call_id": turn.new_id("call_", "call_id"),
        "pending_safety_checks": [check],
    }
    return Output(item, {**item, "status": "in_progress"}, ends_turn=True)
