"""The minting oracle: whoever plants a victim's raw ID where the service only echoes gets nothing back that opens it.

Bob of another tenant, and Carol of the victim's own, know Alice's raw IDs from a log. They plant them everywhere that is
theirs to write, gather every ID-like string of every answer, and try each at every kind of place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.ids.kinds import kind_of_prefix
from gateway.names import Kind
from gateway.stores.claims import claimed_by, own_key
from gateway.stores.records import open_record, record_key
from gateway.surfaces.table import ROUTES
from tests.attack.belongings import MODEL, Belongings, conversation
from tests.attack.house import PROJECT, Caller, house
from tests.attack.matrix import Town, request
from tests.attack.places import Place, places

ID_LIKE = re.compile(r"[A-Za-z][A-Za-z0-9_]*[_-][0-9A-Za-z]{20,64}(?![0-9A-Za-z])")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with house(tmp_path_factory.mktemp("data")) as running:
        yield Town(running)


def victims(town: Town) -> dict[Kind, str]:
    """Alice's raw IDs, by kind."""
    alice = town.alice
    opaque = {
        Kind.RESPONSE: alice.response,
        Kind.CONVERSATION: alice.conversation,
        Kind.ITEM: alice.items["message"],
        Kind.CHAT_COMPLETION: alice.chat,
        Kind.CHAT_MESSAGE: alice.said,
        Kind.CHAT_AUDIO: alice.kinds[Kind.CHAT_AUDIO],
        **{kind: alice.kinds[kind] for kind in (Kind.FILE, Kind.VECTOR_STORE, Kind.CONTAINER, Kind.CONTAINER_FILE)},
    }
    return {kind: town.raw(text) for kind, text in opaque.items()}


# --- planting


def third_parties(raw: str) -> Json:
    """The MCP server, the searched files, the code, the pages and the model are the planter's."""
    words = "mcp, file_search, code_interpreter, web_search, shell, tool_search, program, annotations"
    return {
        "input": f"[[script: {words}, plant={raw}]] work",
        "tools": [{"type": "mcp", "server_label": "mine", "server_url": "https://e.org", "require_approval": "never"}],
        "include": [
            "file_search_call.results",
            "code_interpreter_call.outputs",
            "web_search_call.action.sources",
            "message.output_text.logprobs",
        ],
    }


def told(raw: str) -> Json:
    """Everything that a request says about itself."""
    return {
        "input": f"look at {raw}",
        "instructions": f"mind {raw}",
        "metadata": {"id": raw, "response_id": raw, "note": f"see {raw}"},
        "user": raw,
        "prompt_cache_key": raw[:64],
        "safety_identifier": raw[:64],
        "tool_choice": "none",
        "tools": [
            {
                "type": "function",
                "name": raw,
                "description": raw,
                "parameters": {"type": "object", "properties": {"id": {"const": raw}, raw: {"enum": [raw]}}},
            },
            {"type": "custom", "name": "c", "description": raw, "format": {"type": "grammar", "definition": raw}},
            {
                "type": "mcp",
                "server_label": raw,
                "server_url": f"https://e.org/{raw}",
                "headers": {"id": raw},
                "allowed_tools": [raw],
            },
            {"type": "namespace", "name": raw, "description": raw, "tools": [{"type": "function", "name": raw}]},
        ],
    }


def called(raw: str) -> Json:
    """The model fills in the schema."""
    schema = {"type": "object", "properties": {"id": {"const": raw}, "file_id": {"enum": [raw]}}}
    return {
        "input": "[[script: function_call, custom_tool, calls=2]] go",
        "tools": [{"type": "function", "name": "fetch", "parameters": schema, "strict": True}],
        "tool_choice": "required",
    }


def structured(raw: str) -> Json:
    schema = {"type": "object", "properties": {"id": {"const": raw}, "conversation": {"const": {"id": raw}}}}
    return {"input": "go", "text": {"format": {"type": "json_schema", "name": "o", "schema": schema}}}


def spoken(raw: str) -> Json:
    return {"input": f"[[script: say={raw}]] go"}


def approved(raw: str) -> Json:
    return {
        "input": f"[[script: mcp, plant={raw}]] go",
        "tools": [{"type": "mcp", "server_label": raw, "server_url": "https://e.org", "require_approval": "always"}],
    }


def replayed(raw: str) -> Json:
    return {"input": items(raw)}


def items(raw: str) -> list[Json]:
    """A made-up past, with the victim's ID wherever somebody else than the service writes."""
    tool = {"name": raw, "description": raw, "input_schema": {"properties": {"id": {"default": raw}}}, "id": raw}
    link = {"type": "url_citation", "url": f"https://e.org/{raw}", "title": raw, "start_index": 0, "end_index": 1}
    text = {"type": "output_text", "text": f"I saw {raw}", "annotations": [link], "logprobs": []}
    return [
        {"type": "message", "role": "assistant", "content": [text]},
        {"type": "function_call", "call_id": raw[:64], "name": raw, "arguments": json.dumps({"id": raw})},
        {"type": "function_call_output", "call_id": raw[:64], "output": json.dumps({"id": raw, "response_id": raw})},
        {"type": "custom_tool_call", "call_id": "call_c", "name": "c", "input": raw},
        {"type": "custom_tool_call_output", "call_id": "call_c", "output": [{"type": "input_text", "text": raw}]},
        {"type": "mcp_list_tools", "server_label": raw, "tools": [tool], "error": raw},
        {"type": "mcp_call", "server_label": raw, "name": raw, "arguments": raw, "output": raw, "error": raw},
        {"type": "mcp_approval_request", "server_label": raw, "name": raw, "arguments": json.dumps({"id": raw})},
        {"type": "web_search_call", "status": "completed", "action": {"type": "open_page", "url": raw}},
        {"type": "file_search_call", "queries": [raw], "results": [{"attributes": {"id": raw}, "text": raw}]},
        {"type": "local_shell_call", "call_id": "call_l", "action": {"command": [raw], "env": {"id": raw}}},
        {"type": "local_shell_call_output", "output": json.dumps({"id": raw})},
        {"type": "shell_call_output", "call_id": "call_s", "output": [{"stdout": raw, "stderr": raw}]},
        {"type": "apply_patch_call_output", "call_id": "call_a", "status": "completed", "output": raw},
        {"type": "code_interpreter_call", "code": raw, "outputs": [{"type": "logs", "logs": raw}]},
        {"type": "agent_message", "author": raw, "recipient": raw, "content": raw},
        {"role": "user", "content": [{"type": "input_file", "filename": raw, "file_url": f"https://e.org/{raw}"}]},
        {"role": "user", "content": f"and {raw}"},
    ]


def chatted(raw: str) -> Json:
    """A chat with the victim's ID wherever its author or the model writes."""
    function = {"name": raw[:64], "description": raw, "parameters": {"properties": {"id": {"const": raw}}}}
    call = {"id": raw[:40], "type": "function", "function": {"name": raw, "arguments": json.dumps({"id": raw})}}
    link = {"type": "url_citation", "url_citation": {"url": f"https://e.org/{raw}", "title": raw, "start_index": 0}}
    parts = [
        {"type": "text", "text": raw},
        {"type": "image_url", "image_url": {"url": f"https://e.org/{raw}"}},
        {"type": "file", "file": {"filename": raw, "file_data": "aGVsbG8="}},
    ]
    return {
        "messages": [
            {"role": "developer", "name": raw, "content": raw},
            {"role": "user", "content": parts},
            {"role": "assistant", "content": raw, "annotations": [link]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": raw[:40], "content": json.dumps({"id": raw})},
            {"role": "user", "content": f"[[script: annotations, plant={raw}]] and {raw}"},
        ],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "none",
        "metadata": {"id": raw, "completion_id": raw},
        "prediction": {"type": "content", "content": raw},
        "stop": [raw],
        "user": raw,
        "prompt_cache_key": raw[:64],
        "safety_identifier": raw[:64],
    }


PLANTS = (third_parties, told, called, structured, spoken, approved, replayed)


@dataclass(slots=True)
class Planter:
    """Sends and keeps every byte of every answer."""

    caller: Caller
    answers: list[bytes] = field(default_factory=list)

    def call(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> bytes:
        reply = self.caller.call(method, path, body, headers)
        assert reply.status == 200, (method, path, body, reply.body)
        self.answers.append(reply.everything)
        return reply.body

    def plant(self, raw: str) -> None:
        for make in PLANTS:
            body = {"model": MODEL, **make(raw)}
            again = {"idempotency-key": f"{raw} {make.__name__}"}
            made = json.loads(self.call("POST", "/responses", body, again))["id"]
            last = self.call("POST", "/responses", {**body, "stream": True}).strip().split(b"\n")[-1]
            for response in (made, json.loads(last.removeprefix(b"data: "))["response"]["id"]):
                for path in ("", "?stream=true", "?include=file_search_call.results", "/input_items?limit=100"):
                    self.call("GET", f"/responses/{response}{path}")
        self.call("POST", "/responses/compact", {"model": MODEL, **replayed(raw)})
        made = json.loads(self.call("POST", "/conversations", {"metadata": {"id": raw}, "items": items(raw)}))["id"]
        self.call("POST", f"/conversations/{made}", {"metadata": {"conversation_id": raw, "n": raw}})
        self.call("POST", f"/conversations/{made}/items", {"items": items(raw)})
        self.call("GET", f"/conversations/{made}")
        listed = json.loads(self.call("GET", f"/conversations/{made}/items?limit=100"))
        for item in listed["data"]:
            self.call("GET", f"/conversations/{made}/items/{item['id']}")
        talk = conversation(self.caller)
        self.call("POST", "/responses", {"model": MODEL, "conversation": talk, **third_parties(raw)})
        self.call("GET", f"/conversations/{talk}/items?limit=100")

    def plant_in_chats(self, raw: str) -> None:
        body = {"model": MODEL, **chatted(raw), "store": True}
        made = [json.loads(self.call("POST", "/chat/completions", body))["id"]]
        streamed = self.call("POST", "/chat/completions", {**body, "stream": True}).split(b"\n\n")[0]
        made.append(json.loads(streamed.removeprefix(b"data: "))["id"])
        self.call("POST", f"/chat/completions/{made[0]}", {"metadata": {"id": raw}})
        for completion in made:
            self.call("GET", f"/chat/completions/{completion}")
            self.call("GET", f"/chat/completions/{completion}/messages?limit=100")
        self.call("POST", "/completions", {"model": MODEL, "prompt": raw, "suffix": raw, "stop": raw, "user": raw})
        self.call("POST", "/embeddings", {"model": MODEL, "input": [raw], "user": raw})
        self.call("POST", "/moderations", {"input": [raw, {"type": "text", "text": raw}]})
        self.call("POST", "/images/generations", {"prompt": raw, "response_format": "url", "user": raw})

    def gathered(self) -> set[str]:
        """Everything that looks like an ID in what was received, however deep in whatever text."""
        found: set[str] = set()
        for data in self.answers:
            text = data.decode()
            for spelled in (text, text.replace("\\u005f", "_"), text.replace("\\", "")):
                found |= set(ID_LIKE.findall(spelled))
        return found


def reference_places() -> list[Place]:
    """One place of each kind and role, and every place in a path or query."""
    chosen: dict[object, Place] = {}
    for route in ROUTES:
        for place in places(route):
            if place.where != "body":
                chosen.setdefault((route.action, place.name), place)
            else:
                chosen.setdefault((place.spec, place.inline, place.many), place)
    return list(chosen.values())


@pytest.mark.parametrize("who", ["another tenant", "another user of the tenant"])
def test_nothing_that_comes_back_for_a_planted_id_opens_the_victims_object(town: Town, who: str) -> None:
    own = town.bob if who == "another tenant" else town.carol
    raws, running = victims(town), town.house
    before = _records(town, raws)
    planter = Planter(own.caller)
    for raw in raws.values():
        seen = len(running.received)
        planter.plant(raw)
        planter.plant_in_chats(raw)
        assert sum(raw.encode() in one.body for one in running.received[seen:]) > 15, "nothing was planted"
    gathered = planter.gathered()
    assert len(gathered) > 200
    assert _records(town, raws) == before, "a record or claim of a planted ID was written"
    tried = _suspicious(town, own, gathered, raws)
    for text in sorted(tried):
        for place in reference_places():
            seen = len(running.received)
            own.caller.call(*request(place, own, text))
            for one in running.received[seen:]:
                told = f"{one.path}?{one.query}".encode() + one.body
                assert not any(raw.encode() in told for raw in raws.values()), (place, text, told)
    assert _records(town, raws) == before


def test_the_oracle_gathers_what_would_open(town: Town) -> None:
    """The same search over Alice's own answers finds what opens her objects, so that finding nothing says something."""
    planter = Planter(town.alice.caller)
    planter.call("GET", f"/responses/{town.alice.response}")
    planter.call("GET", f"/conversations/{town.alice.conversation}/items?limit=100")
    raws = victims(town)
    gathered = planter.gathered()
    tried = _suspicious(town, town.alice, gathered, raws)
    assert {town.alice.response, town.alice.items["message"]} <= tried
    seen = len(town.house.received)
    for place in reference_places():
        town.alice.caller.call(*request(place, town.alice, town.alice.response))
    told = [f"{one.path}?{one.query}".encode() + one.body for one in town.house.received[seen:]]
    assert any(raws[Kind.RESPONSE].encode() in one for one in told)


def _suspicious(town: Town, own: Belongings, gathered: set[str], raws: dict[Kind, str]) -> set[str]:
    """What is worth trying at every place: all that is not plainly an object that the planter itself has just made.

    Those are many, and each is proven by its record, which names the raw ID that it opens.
    """
    mapper, raw_texts = town.house.mapper(own.caller.tenant), set(raws.values())
    keys: dict[str, bytes] = {}
    for text in gathered:
        if parsed := mapper.verify(text):
            kind = kind_of_prefix(parsed.prefix) or Kind.ITEM
            keys[text] = record_key(mapper.tenant, kind, parsed.h)
    tried = gathered & raw_texts
    stored = town.house.redis.command("MGET", *keys.values())
    for (text, key), data in zip(keys.items(), stored, strict=True):
        record = open_record(mapper.keys.storage, key, data) if data is not None else None
        if record is None or record.raw.text in raw_texts:
            tried.add(text)
    return tried


def _records(town: Town, raws: dict[Kind, str]) -> dict[str, object]:
    """Whatever is stored of the victim's IDs: under either tenant, of any kind, and the claims with whose they are."""
    running, stored = town.house, {}
    deployed = running.run(running.deployment.gateway.shared.keyring.deployment())
    for raw in raws.values():
        for tenant in ("acme", "bravo"):
            mapper = running.mapper(tenant)
            for kind in Kind:
                key = record_key(mapper.tenant, kind, mapper.h(kind, raw))
                stored[f"{tenant} {kind} {raw}"] = running.redis.command("GET", key)
        claim = own_key(deployed.keys, PROJECT, raw)
        value = running.redis.command("GET", claim)
        stored[f"claim {raw}"] = value
        if value is not None:
            assert claimed_by(deployed.keys, claim, value) == running.tenant("acme")
    assert not any(value for name, value in stored.items() if name.startswith("bravo"))
    return stored
