"""Items that the service itself works on: reasoning, searches, code, images, MCP, shells in containers, compaction."""

from __future__ import annotations

import base64
import json
from typing import Any

from gateway.demo.stand_in.messages import user_texts
from gateway.demo.stand_in.outputs import Json, Output, Turn, sample, strings_under


def _progress(kind: str, raw: str, *stages: str) -> list[Json]:
    return [{"type": f"response.{kind}.{stage}", "item_id": raw} for stage in stages]


def reasoning(turn: Turn) -> Output:
    """A reasoning item with a summary, and sealed content where the request includes it."""
    raw = turn.new_id("rs_", "output[].id")
    text = "**Counting**\n\nI count what the user has said."
    where: Json = {"item_id": raw, "summary_index": 0}
    part = {"type": "summary_text", "text": text}
    item: Json = {"id": raw, "type": "reasoning", "summary": [part]}
    added: Json = {"id": raw, "type": "reasoning", "summary": []}
    if turn.includes("reasoning.encrypted_content"):
        added["encrypted_content"] = turn.sealer.seal()
    hidden: dict[str, Json] = {"reasoning.encrypted_content": {"encrypted_content": turn.sealer.seal()}}
    events: list[Json] = [{"type": "response.reasoning_summary_part.added", **where, "part": {**part, "text": ""}}]
    events += [
        {"type": "response.reasoning_summary_text.delta", **where, "delta": piece} for piece in turn.pieces(text)
    ]
    events.append({"type": "response.reasoning_summary_text.done", **where, "text": text})
    events.append({"type": "response.reasoning_summary_part.done", **where, "part": part})
    return Output(item, added, events, hidden=hidden)


def reasoning_text(turn: Turn) -> Output:
    """A reasoning item whose content can be read, as open models give it."""
    raw = turn.new_id("rs_", "output[].id")
    text = f"The user wrote in {turn.response_id}."
    part = {"type": "reasoning_text", "text": text}
    item: Json = {"id": raw, "type": "reasoning", "summary": [], "content": [part]}
    where: Json = {"item_id": raw, "content_index": 0}
    events: list[Json] = [{"type": "response.content_part.added", **where, "part": {**part, "text": ""}}]
    events += [{"type": "response.reasoning_text.delta", **where, "delta": piece} for piece in turn.pieces(text)]
    events.append({"type": "response.reasoning_text.done", **where, "text": text})
    events.append({"type": "response.content_part.done", **where, "part": part})
    return Output(item, {**item, "content": []}, events)


def web_search(turn: Turn) -> Output:
    raw = turn.new_id("ws_", "output[].id")
    action: Json = {"type": "search", "query": "coat check", "queries": ["coat check"]}
    sources = [{"type": "url", "url": f"https://example.org/{turn.planted or 'a'}"}]
    hidden = {"web_search_call.action.sources": {"action": {**action, "sources": sources}}}
    item: Json = {"id": raw, "type": "web_search_call", "status": "completed", "action": action}
    events = _progress("web_search_call", raw, "in_progress", "searching", "completed")
    return Output(item, {**item, "status": "in_progress", "action": {"type": "search"}}, events, hidden=hidden)


def file_search(turn: Turn) -> Output:
    """A file search; its results name a file and, as the real service does unasked, the vector store."""
    raw = turn.new_id("fs_", "output[].id")
    stores = strings_under(turn.tools("file_search"), "vector_store_ids")
    result: Json = {
        "attributes": {"shelf": "3", "weight": 1.5, **({"ref": turn.planted} if turn.planted else {})},
        "file_id": turn.new_id("file-", "results[].file_id"),
        "filename": "notes.txt",
        "score": 0.9312,
        "text": f"A passage about coats. {turn.planted}",
        "vector_store_id": stores[0] if stores else turn.new_id("vs_", "results[].vector_store_id"),
    }
    item: Json = {
        "id": raw,
        "type": "file_search_call",
        "status": "completed",
        "queries": ["coats"],
        "results": None,
    }
    events = _progress("file_search_call", raw, "in_progress", "searching", "completed")
    hidden = {"file_search_call.results": {"results": [result]}}
    return Output(item, {**item, "status": "in_progress", "queries": []}, events, hidden=hidden)


def code_interpreter(turn: Turn) -> Output:
    """Code that names the request's files by their paths, which hold the raw file IDs, and an image that it made."""
    raw, container = turn.new_id("ci_", "output[].id"), turn.container_id()
    files = strings_under(turn.body, "file_id", "file_ids") or [turn.new_id("file-", "code")]
    paths = [f"/mnt/data/{file_id}-data.csv" for file_id in files]
    code = "import pandas as pd\n" + "".join(f'print(pd.read_csv("{path}").shape)\n' for path in paths)
    cfile = turn.new_id("cfile_", "annotation.file_id")
    turn.ids.attachable.add(cfile)  # a replayed annotation names it
    turn.cited_files.append({"container_id": container, "file_id": cfile, "filename": f"{cfile}.png"})
    logs = "\n".join(f"{path}: (3, 2) {turn.planted}" for path in paths)
    outputs = [
        {"type": "logs", "logs": logs},
        {"type": "image", "url": f"https://files.example.org/v1/containers/{container}/files/{cfile}/content"},
    ]
    item: Json = {
        "id": raw,
        "type": "code_interpreter_call",
        "status": "completed",
        "code": code,
        "container_id": container,
        "outputs": None,
    }
    events = _progress("code_interpreter_call", raw, "in_progress")
    name = "response.code_interpreter_call_code"
    events += [{"type": f"{name}.delta", "item_id": raw, "delta": piece} for piece in turn.pieces(code)]
    events.append({"type": f"{name}.done", "item_id": raw, "code": code})
    events += _progress("code_interpreter_call", raw, "interpreting", "completed")
    hidden = {"code_interpreter_call.outputs": {"outputs": outputs}}
    return Output(item, {**item, "status": "in_progress", "code": ""}, events, hidden=hidden)


def image(turn: Turn) -> Output:
    raw = turn.new_id("ig_", "output[].id")
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(48)).decode()
    look: Json = {"background": "opaque", "output_format": "png", "quality": "low", "size": "1024x1024"}
    item: Json = {
        "id": raw,
        "type": "image_generation_call",
        "status": "completed",
        "action": "generate",
        **look,
        "result": picture,
        "revised_prompt": "A coat on a hook.",
    }
    events = _progress("image_generation_call", raw, "in_progress", "generating")
    for index in range(2):
        partial = {"partial_image_b64": picture, "partial_image_index": index, **look}
        events.append({"type": "response.image_generation_call.partial_image", "item_id": raw, **partial})
    events += _progress("image_generation_call", raw, "completed")
    return Output(item, {"id": raw, "type": item["type"], "status": "in_progress", "result": None}, events)


def mcp(turn: Turn) -> list[Output]:
    """The server's list of tools unless the model has it already, then a request for approval or the call itself."""
    server = next(iter(turn.tools("mcp")), {"server_label": "cloakroom", "require_approval": "always"})
    label, outputs = str(server.get("server_label")), []
    if not any(item.get("type") == "mcp_list_tools" for item in turn.context):
        outputs.append(_mcp_tools(turn, label))
    approved = next((item for item in turn.new_items if item.get("type") == "mcp_approval_response"), None)
    arguments = json.dumps({"ticket": turn.planted or "7"})
    if approved is None and server.get("require_approval") != "never":
        raw = turn.new_id("mcpr_", "output[].id")
        request = {
            "id": raw,
            "type": "mcp_approval_request",
            "arguments": arguments,
            "name": "fetch",
            "server_label": label,
        }
        outputs.append(Output(request, request, ends_turn=True))
    elif approved is None or approved.get("approve"):
        outputs.append(_mcp_call(turn, label, arguments, approved))
    return outputs


def _mcp_tools(turn: Turn, label: str) -> Output:
    raw = turn.new_id("mcpl_", "output[].id")
    tool = {
        "annotations": {"read_only": False, "ref": turn.planted},
        "description": f"Fetches a coat. {turn.planted}",
        "input_schema": {"type": "object", "properties": {"ticket": {"type": "string", "default": turn.planted}}},
        "name": "fetch",
    }
    broken = "mcp_broken" in turn.script
    item: Json = {"id": raw, "type": "mcp_list_tools", "server_label": label, "tools": [] if broken else [tool]}
    if broken:
        item["error"] = f"Failed to reach {label} ({turn.response_id})."
    events = _progress("mcp_list_tools", raw, "in_progress", "failed" if broken else "completed")
    return Output(item, {**item, "tools": []}, events)


def _mcp_call(turn: Turn, label: str, arguments: str, approved: Json | None) -> Output:
    raw = turn.new_id("mcp_", "output[].id")
    broken = "mcp_broken" in turn.script
    item: Json = {
        "id": raw,
        "type": "mcp_call",
        "status": "failed" if broken else "completed",
        "approval_request_id": approved["approval_request_id"] if approved else None,
        "arguments": arguments,
        "error": {"type": "http_error", "code": 502, "message": f"No answer for {raw}."} if broken else None,
        "name": "fetch",
        "output": None if broken else json.dumps({"id": turn.planted or "coat 7", "coat": "grey"}),
        "server_label": label,
    }
    events = _progress("mcp_call", raw, "in_progress")
    name = "response.mcp_call_arguments"
    events += [{"type": f"{name}.delta", "item_id": raw, "delta": piece} for piece in turn.pieces(arguments)]
    events.append({"type": f"{name}.done", "item_id": raw, "arguments": arguments})
    events += _progress("mcp_call", raw, str(item["status"]))
    return Output(item, {**item, "status": "in_progress", "arguments": "", "output": None}, events)


def tool_search(turn: Turn) -> list[Output]:
    """A search among deferred tools, and its outcome, which nests whole tool definitions with IDs of their own."""
    call = {
        "id": turn.new_id("tsc_", "output[].id"),
        "type": "tool_search_call",
        "arguments": {"paths": ["cloakroom"]},
        "call_id": None,
        "execution": "server",
        "status": "completed",
    }
    nested: list[Json] = [
        {"type": "function", "name": "fetch", "parameters": {"type": "object"}, "strict": True},
        {"type": "file_search", "vector_store_ids": strings_under(turn.body, "vector_store_ids")},
    ]
    found = {
        "id": turn.new_id("tso_", "output[].id"),
        "type": "tool_search_output",
        "call_id": None,
        "execution": "server",
        "status": "completed",
        "tools": nested,
    }
    start: Json = {"status": "in_progress"}
    return [
        Output(call, {**call, **start, "arguments": {}}),
        Output(found, {**found, **start, "tools": []}),
    ]


def compaction(turn: Turn) -> Output:
    """A sealed summary that stands for all that the user has said."""
    raw = turn.new_id("cmp_", "output[].id")
    item: Json = {"id": raw, "type": "compaction", "encrypted_content": turn.sealer.seal(user_texts(turn))}
    events: list[Json] = [{"type": "response.compaction.compacting", "item_id": raw}]
    return Output(item, {**item, "encrypted_content": turn.sealer.seal([])}, events)


def program(turn: Turn) -> list[Output]:
    """A program of the model with its replay blob, a call that it makes, and its result."""
    call_id = turn.new_id("call_", "call_id")
    made = {
        "id": turn.new_id("prog_", "output[].id"),
        "type": "program",
        "call_id": call_id,
        "code": f"return await tools.fetch({{ticket: 7}}) // {turn.response_id}",
        "fingerprint": turn.sealer.seal(),
    }
    result = {
        "id": turn.new_id("progo_", "output[].id"),
        "type": "program_output",
        "call_id": call_id,
        "result": json.dumps({"coat": "grey", "by": turn.response_id}),
        "status": "completed",
    }
    return [Output(made, made), Output(result, {**result, "status": "incomplete", "result": ""})]


def arguments_for(tool: Json) -> str:
    """Arguments that fit a function tool's schema, as JSON text."""
    parameters: Any = tool.get("parameters")
    return json.dumps(sample(parameters))
