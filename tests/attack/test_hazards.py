"""What a key that many share would give away beside IDs: secrets in what is echoed, tokens of one name space, addresses, code,
and how busy everybody else is. `docs/hazards.md` names for each hazard what closes it and which test holds it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.stand_in.raw_ids import find_ids
from gateway.demo.stand_in.service_headers import service_headers
from tests.attack.belongings import MODEL, file
from tests.attack.house import Caller, House, house

SECRETS = ("hush-token", "hush-header", "hush-domain")
NETWORK: Any = {
    "type": "allowlist",
    "allowed_domains": ["example.org"],
    "domain_secrets": [{"domain": "example.org", "name": "key", "value": "hush-domain"}],
}
TOOLS: list[Any] = [
    {
        "type": "mcp",
        "server_label": "cloakroom",
        "server_url": "https://example.org/mcp",
        "authorization": "hush-token",
        "headers": {"x-key": "hush-header"},
        "require_approval": "never",
    },
    {"type": "code_interpreter", "container": {"type": "auto", "network_policy": NETWORK}},
    {"type": "shell", "environment": {"type": "container_auto", "network_policy": NETWORK}},
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def alice(run: House) -> Caller:
    return run.caller("acme", "alice")


@pytest.fixture
def bob(run: House) -> Caller:
    return run.caller("bravo", "bob")


def ask(caller: Caller, **more: Any) -> bytes:
    """All bytes of an answer, streamed or not."""
    reply = caller.call("POST", "/responses", {"model": MODEL, "input": "hello", **more})
    assert reply.status == 200, reply.body
    return reply.body


def events(stream: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: ")]


# --- secrets in what is echoed


@pytest.mark.parametrize("stream", [False, True])
def test_secrets_of_tools_reach_the_service_and_come_back_to_nobody(run: House, alice: Caller, stream: bool) -> None:
    created = ask(alice, tools=TOOLS, stream=stream)
    assert run.received[-1].json()["tools"] == TOOLS
    made = events(created)[0]["response"]["id"] if stream else json.loads(created)["id"]
    for told in (
        created,
        alice.call("GET", f"/responses/{made}").body,
        alice.call("GET", f"/responses/{made}?stream=true").body,
    ):
        assert not [secret for secret in SECRETS if secret.encode() in told]
    mcp, code, shell = alice.ok("GET", f"/responses/{made}")["tools"]
    assert mcp == {**TOOLS[0], "authorization": None, "headers": None}
    assert code["container"]["network_policy"] == shell["environment"]["network_policy"]
    assert code["container"]["network_policy"] == {**NETWORK, "domain_secrets": None}


def test_secrets_of_tools_inside_items_come_back_to_nobody(run: House, alice: Caller) -> None:
    loaded = [{"type": "additional_tools", "role": "developer", "tools": TOOLS}, {"role": "user", "content": "hello"}]
    made = json.loads(ask(alice, input=loaded))["id"]
    assert run.received[-1].json()["input"][0]["tools"] == TOOLS
    listed = alice.call("GET", f"/responses/{made}/input_items").body
    assert b"cloakroom" in listed
    assert not [secret for secret in SECRETS if secret.encode() in listed]


# --- tokens of one name space


TOKENS: list[dict[str, Any]] = [
    {"prompt_cache_key": "shared"},
    {"safety_identifier": "shared"},
    {"user": "shared"},
    {"background_options": {"continuation_id": "shared"}, "background": True},
]


@pytest.mark.parametrize("said", TOKENS, ids=lambda said: next(iter(said)))
def test_a_token_that_two_tenants_choose_is_two_tokens_to_the_service(
    run: House, alice: Caller, bob: Caller, said: dict[str, Any]
) -> None:
    seen = set()
    for caller in (alice, bob):
        answer = json.loads(ask(caller, **said))
        sent = json.dumps({name: run.received[-1].json()[name] for name in said})
        assert '"shared"' not in sent
        seen.add(sent)
        for name, value in said.items():
            assert answer.get(name, value) == value, "the client reads what it wrote"
    assert len(seen) == 2


def test_who_names_no_end_user_is_one_all_the_same_and_another_for_each_principal(
    run: House, alice: Caller, bob: Caller
) -> None:
    told = []
    for caller in (alice, run.caller("acme", "carol"), bob, alice):
        ask(caller)
        told.append(run.received[-1].json()["safety_identifier"])
    assert told[0] == told[3]
    assert len(set(told)) == 3


# --- addresses, code and names of files


def test_an_address_that_holds_ids_names_them_as_everything_else_does(alice: Caller) -> None:
    asked = "[[script: code_interpreter]] draw"
    code, message = json.loads(ask(alice, input=asked, include=["code_interpreter_call.outputs"]))["output"]
    (cited,) = message["content"][0]["annotations"]
    url = next(one["url"] for one in code["outputs"] if one["type"] == "image")
    assert f"/containers/{cited['container_id']}/files/{cited['file_id']}/content" in url
    assert cited["filename"] == f"{cited['file_id']}.png"


def test_an_address_of_an_image_names_no_account(run: House, alice: Caller) -> None:
    drawn = alice.call("POST", "/images/generations", {"prompt": "a coat", "response_format": "url"})
    provider = run.stand_in.provider
    secrets = [raw for raw in provider.ids.secrets() if raw.startswith(("org-", "user-", "img-"))]
    assert secrets
    assert not [raw for raw in secrets if raw.encode() in drawn.everything]


@pytest.mark.parametrize("size", [1, 3, 7, 200])
def test_a_files_id_in_code_is_the_clients_own_however_deltas_split_it(run: House, alice: Caller, size: int) -> None:
    own = file(alice)
    tools = [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": [own]}}]
    told = events(ask(alice, input=f"[[script: code_interpreter, delta={size}]] add", tools=tools, stream=True))
    kind = "response.code_interpreter_call_code"
    pieces = "".join(one["delta"] for one in told if one["type"] == f"{kind}.delta")
    (done,) = [one["code"] for one in told if one["type"] == f"{kind}.done"]
    assert pieces == done
    assert f"/mnt/data/{own}-data.csv" in done
    raw = run.raw_of("acme", own)
    assert raw not in json.dumps(told)
    assert raw not in pieces


# --- how busy everybody is, and who pays


def test_what_the_service_says_of_everybodys_load_and_account_reaches_nobody(run: House, alice: Caller) -> None:
    run.stand_in.provider.next_answer("status=429")
    limited = alice.call("POST", "/responses", {"model": MODEL, "input": "hello"})
    assert limited.status == 429
    assert re.search(rb"Please try again in \d+s", limited.body)
    fine = alice.call("POST", "/responses", {"model": MODEL, "input": "hello"})
    limits = {name for name, _ in service_headers(run.stand_in.provider, "") if "ratelimit" in name}
    assert limits
    for reply in (limited, fine):
        told = reply.everything.decode("latin-1")
        assert not limits & {name for name, _ in reply.headers}
        assert "Limit 30000" not in told
        assert "openai-organization" not in told
        assert "openai-project" not in told
        assert run.stand_in.provider.organization not in told
        assert run.stand_in.provider.project not in told
    assert dict(limited.headers)["retry-after"] == "20"


# --- what the gateway itself writes upstream


def test_the_gateway_writes_nothing_of_its_own_into_what_a_list_could_show(run: House, alice: Caller) -> None:
    for path, body in (
        ("/conversations", {"metadata": {"k": "v"}}),
        ("/vector_stores", {"metadata": {"k": "v"}}),
        ("/vector_stores", {}),
        ("/fine_tuning/jobs", {"model": "gpt-4o-mini", "training_file": file(alice), "metadata": {"k": "v"}}),
    ):
        alice.ok("POST", path, body)
        sent = run.received[-1].json()
        assert sent.get("metadata") == body.get("metadata")
        assert sent.keys() == body.keys()


def test_no_kind_of_object_that_the_gateway_cannot_own_is_taken_from_a_request(run: House, alice: Caller) -> None:
    """Tunnels, stored prompts and voices lead into somebody's network, words and likeness."""
    for body in (
        {"tools": [{"type": "mcp", "server_label": "a", "tunnel_id": "tunnel_0123456789abcdef0123456789abcdef"}]},
        {"prompt": {"id": "pmpt_0123456789abcdef0123456789abcdef0123456789abcdef"}},
    ):
        before = len(run.received)
        assert alice.call("POST", "/responses", {"model": MODEL, "input": "hello", **body}).status == 404
        assert len(run.received) == before
    spoken = {
        "model": MODEL,
        "messages": [],
        "audio": {"format": "wav", "voice": {"id": "voice_0123456789abcdef0123456789"}},
    }
    assert alice.call("POST", "/chat/completions", spoken).status == 404


def test_a_page_on_hazards_has_a_line_for_each_of_them_and_names_tests_that_there_are() -> None:
    root = Path(__file__).parents[2]
    rows = re.findall(r"(?m)^\| (\d+) \|.*\|$", (root / "docs" / "hazards.md").read_text())
    assert rows == [str(number) for number in range(1, 28)]
    page = (root / "docs" / "hazards.md").read_text()
    for path, name in re.findall(r"`(tests/[\w/.]+\.(?:py|txt))(?:::(\w+))?`", page):
        text = (root / path).read_text()
        assert not name or f"def {name}(" in text, f"{path} has no {name}"
    assert not find_ids(page)
