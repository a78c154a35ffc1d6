"""A day of a client with vector stores, containers, skills and fine-tuned models, for the canary: everything is made, listed,
read, changed and deleted, and some of it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.attack.house import Caller
from tests.attack.resources import BASE, SKILL
from tests.forms import file, form, text

if TYPE_CHECKING:
    from tests.attack.canary_haul import Haul


def keep(haul: Haul, caller: Caller) -> None:
    """All of it."""
    files = [
        haul.json(caller, "POST", "/files", form(text("purpose", "assistants"), file("file", b"x")))["id"]
        for _ in range(2)
    ]
    _store(haul, caller, files)
    _contain(haul, caller, files)
    _teach(haul, caller)
    _tune(haul, caller, files)


def _store(haul: Haul, caller: Caller, files: list[str]) -> None:
    made = haul.json(
        caller, "POST", "/vector_stores", {"name": "coats", "file_ids": files[:1], "metadata": {"k": "v"}}
    )["id"]
    other = haul.json(caller, "POST", "/vector_stores")["id"]
    at = f"/vector_stores/{made}"
    for query in ("", "?limit=1&order=asc", f"?after={other}", f"?before={made}"):
        haul.json(caller, "GET", f"/vector_stores{query}")
    haul.json(caller, "GET", at)
    haul.json(caller, "POST", at, {"name": "hats"})
    haul.json(caller, "POST", f"{at}/search", {"query": "coats"})
    haul.json(caller, "POST", f"{at}/files", {"file_id": files[1], "attributes": {"shelf": "3"}})
    batch = haul.json(caller, "POST", f"{at}/file_batches", {"files": [{"file_id": one} for one in files]})["id"]
    for path in ("", "/files", "/files?limit=1", f"/files?after={files[0]}"):
        haul.json(caller, "GET", f"{at}/file_batches/{batch}{path}")
    haul.json(caller, "POST", f"{at}/file_batches/{batch}/cancel")
    for path in ("/files?filter=completed", f"/files/{files[0]}", f"/files/{files[0]}/content"):
        haul.ask(caller, "GET", f"{at}{path}")
    provider = haul.house.stand_in.provider
    stored = provider.vector_stores[haul.house.raw_of(caller.tenant, made)]
    spoilt = next(iter(stored.files.values()))
    spoilt["last_error"] = {
        "code": "invalid_file",
        "message": f"Could not read {spoilt['id']} of {provider.organization}.",
    }
    haul.json(caller, "GET", f"{at}/files/{files[0]}")
    haul.json(caller, "POST", f"{at}/files/{files[0]}", {"attributes": {"shelf": "4"}})
    haul.json(caller, "DELETE", f"{at}/files/{files[0]}")
    haul.ask(caller, "GET", f"{at}/files/{files[0]}")
    haul.json(caller, "DELETE", at)
    haul.ask(caller, "POST", f"/vector_stores/{other}/file_batches", {})
    provider.vector_stores.pop(
        raw := haul.house.raw_of(caller.tenant, other)
    )  # gone upstream, behind the gateway's back
    provider.ids.attachable.discard(raw)
    for method, path in (("GET", ""), ("GET", "/files"), ("DELETE", "")):
        haul.ask(caller, method, f"/vector_stores/{other}{path}")


def _contain(haul: Haul, caller: Caller, files: list[str]) -> None:
    policy = {"type": "allowlist", "allowed_domains": ["example.org"]}
    box = haul.json(caller, "POST", "/containers", {"name": "box", "file_ids": files, "network_policy": policy})["id"]
    at = f"/containers/{box}"
    haul.json(caller, "POST", f"{at}/files", {"file_id": files[0]})
    put = haul.json(caller, "POST", f"{at}/files", form(file("file", b"7", "a b.txt")))["id"]
    for query in ("", "?name=box", "?limit=1&order=asc"):
        haul.json(caller, "GET", f"/containers{query}")
    listed = haul.json(caller, "GET", f"{at}/files?limit=2")
    haul.json(caller, "GET", f"{at}/files?after={listed['last_id']}")
    for path in ("", f"/files/{put}"):
        haul.json(caller, "GET", f"{at}{path}")
    haul.ask(caller, "GET", f"{at}/files/{put}/content")
    asked = {"model": BASE, "input": "[[script: code_interpreter]] draw"}
    drawn = haul.json(caller, "POST", "/responses", asked)["output"]
    (cited,) = drawn[-1]["content"][0]["annotations"]
    own = f"/containers/{cited['container_id']}/files/{cited['file_id']}"
    haul.json(caller, "GET", own)
    haul.ask(caller, "GET", f"{own}/content")
    haul.json(caller, "DELETE", f"{at}/files/{put}")
    haul.ask(caller, "GET", f"{at}/files/{put}")
    haul.house.stand_in.provider.containers[haul.house.raw_of(caller.tenant, box)].body["status"] = "expired"
    tools = [{"type": "code_interpreter", "container": box}]
    haul.ask(caller, "POST", "/responses", {"model": BASE, "input": "draw", "tools": tools})
    for method, path in (("GET", ""), ("GET", "/files"), ("DELETE", "")):
        haul.ask(caller, method, f"{at}{path}")
    haul.json(caller, "GET", "/containers")


def _teach(haul: Haul, caller: Caller) -> None:
    made = haul.json(caller, "POST", "/skills", SKILL)["id"]
    at = f"/skills/{made}"
    haul.json(caller, "POST", f"{at}/versions", SKILL)
    haul.json(caller, "POST", at, {"default_version": "2"})
    listed = haul.json(caller, "GET", f"{at}/versions?limit=1")
    for path in ("", "/versions/2", f"/versions?after={listed['last_id']}"):
        haul.json(caller, "GET", f"{at}{path}")
    for path in ("/content", "/versions/1/content", "/versions/7"):
        haul.ask(caller, "GET", f"{at}{path}")
    haul.json(caller, "GET", "/skills")
    used: dict[str, Any] = {"name": "box", "skills": [{"type": "skill_reference", "skill_id": made}]}
    haul.json(caller, "POST", "/containers", used)
    haul.json(caller, "DELETE", f"{at}/versions/2")
    haul.json(caller, "DELETE", at)
    haul.ask(caller, "GET", at)


def _tune(haul: Haul, caller: Caller, files: list[str]) -> None:
    asked: dict[str, Any] = {"model": BASE, "training_file": files[0], "validation_file": files[1], "suffix": "coats"}
    made, other = [
        haul.json(caller, "POST", "/fine_tuning/jobs", {**asked, "metadata": {"k": "v"}})["id"] for _ in "ab"
    ]
    for told in ("pause", "resume", "cancel", "cancel"):
        haul.ask(caller, "POST", f"/fine_tuning/jobs/{other}/{told}")
    at = f"/fine_tuning/jobs/{made}"
    done = _ended(haul, caller, made)
    for path in ("events", "checkpoints"):
        listed = haul.json(caller, "GET", f"{at}/{path}?limit=1")
        haul.json(caller, "GET", f"{at}/{path}?after={listed['last_id']}")
    for query in ("", "?limit=1", "?metadata[k]=v"):
        haul.json(caller, "GET", f"/fine_tuning/jobs{query}")
    model = done["fine_tuned_model"]
    haul.json(caller, "GET", f"/files/{done['result_files'][0]}")
    haul.json(caller, "GET", "/models")
    haul.json(caller, "GET", f"/models/{model}")
    hello = [{"role": "user", "content": "hello"}]
    said: dict[str, dict[str, Any]] = {
        "/responses": {"model": model, "input": "hello"},
        "/chat/completions": {"model": model, "messages": hello, "store": True},
        "/completions": {"model": model, "prompt": "hello"},
    }
    for path, body in said.items():
        for more in ({}, {"stream": True}):
            haul.ask(caller, "POST", path, {**body, **more})
    haul.json(caller, "GET", f"/chat/completions?model={model}")
    raw = haul.house.raw_of(caller.tenant, model)
    haul.ask(caller, "POST", "/responses", {"model": raw, "input": "hello"})
    haul.house.stand_in.provider.models.remove(raw)  # gone upstream, behind the gateway's back
    haul.ask(caller, "POST", "/responses", {"model": model, "input": "hello"})
    for method in ("GET", "DELETE"):
        haul.ask(caller, method, f"/models/{model}")
    again = haul.json(caller, "POST", "/fine_tuning/jobs", asked)["id"]
    unwanted = _ended(haul, caller, again)["fine_tuned_model"]
    haul.json(caller, "DELETE", f"/models/{unwanted}")
    for method in ("GET", "DELETE"):
        haul.ask(caller, method, f"/models/{unwanted}")


def _ended(haul: Haul, caller: Caller, job: str) -> Any:
    """The job when it has made its model."""
    return [haul.json(caller, "GET", f"/fine_tuning/jobs/{job}") for _ in range(3)][-1]
