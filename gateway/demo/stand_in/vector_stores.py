"""The endpoints under /v1/vector_stores. Indexing takes until the first time that somebody asks about it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from gateway.demo.stand_in import failures, files
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, page
from gateway.demo.stand_in.inputs import check_attachments
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider, StoredStore

_STATES = ("in_progress", "completed", "failed", "cancelled")


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/vector_stores`, with or without a body."""
    body = request.json()
    check_attachments(provider, body)
    raw, now = provider.ids.new("vs_", place="vector_store.id"), int(time.time())
    stored = _keep(provider, raw, {"created_at": now, "last_active_at": now, **_said(body)})
    for file_id in body.get("file_ids") or []:
        _attach(stored, {"file_id": file_id, "chunking_strategy": body.get("chunking_strategy")})
    return JsonAnswer(_shown(stored))


def list_stores(provider: Provider, request: Request) -> Answer:
    """`GET /v1/vector_stores`: everybody's."""
    return JsonAnswer(page([_shown(one) for one in provider.vector_stores.values()], request))


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/vector_stores/{vector_store_id}`."""
    return JsonAnswer(_shown(_found(provider, request)))


def update(provider: Provider, request: Request) -> Answer:
    """`POST /v1/vector_stores/{vector_store_id}`."""
    found = _found(provider, request)
    found.body |= _said(request.json())
    return JsonAnswer(_shown(found))


def delete(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/vector_stores/{vector_store_id}`; the files stay."""
    raw = str(_found(provider, request).body["id"])
    provider.vector_stores.pop(raw)
    provider.ids.attachable.discard(raw)
    return JsonAnswer({"id": raw, "object": "vector_store.deleted", "deleted": True})


def search(provider: Provider, request: Request) -> Answer:
    """`POST /v1/vector_stores/{vector_store_id}/search`: every file has something to say."""
    found, query = _found(provider, request), request.json().get("query")
    if query is None:
        raise failures.missing("query")
    results = [
        {
            "file_id": one["id"],
            "vector_store_id": found.body["id"],
            "filename": files.named(provider, one["id"]),
            "score": 0.9312,
            "attributes": one["attributes"],
            "content": [{"type": "text", "text": f"A passage on {query}."}],
        }
        for one in found.files.values()
    ]
    return JsonAnswer(
        {
            "object": "vector_store.search_results.page",
            "search_query": query if isinstance(query, list) else [query],
            "data": results,
            "has_more": False,
            "next_page": None,
        }
    )


def attach(provider: Provider, request: Request) -> Answer:
    """`POST /v1/vector_stores/{vector_store_id}/files`."""
    found, body = _found(provider, request), request.json()
    if "file_id" not in body:
        raise failures.missing("file_id")
    check_attachments(provider, body)
    return JsonAnswer(_attach(found, body))


def list_files(provider: Provider, request: Request) -> Answer:
    """`GET /v1/vector_stores/{vector_store_id}/files`."""
    return JsonAnswer(page(list(_filtered(_found(provider, request).files.values(), request)), request))


def retrieve_file(provider: Provider, request: Request) -> Answer:
    """`GET /v1/vector_stores/{vector_store_id}/files/{file_id}`: it is indexed from then on."""
    found = _file(provider, request)
    shown = dict(found)
    found["status"] = "completed"
    return JsonAnswer(shown)


def update_file(provider: Provider, request: Request) -> Answer:
    """`POST /v1/vector_stores/{vector_store_id}/files/{file_id}`."""
    found = _file(provider, request)
    found["attributes"] = request.json().get("attributes")
    return JsonAnswer(found)


def detach(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/vector_stores/{vector_store_id}/files/{file_id}`."""
    found, file = _found(provider, request), _file(provider, request)
    found.files.pop(file["id"])
    return JsonAnswer({"id": file["id"], "object": "vector_store.file.deleted", "deleted": True})


def file_content(provider: Provider, request: Request) -> Answer:
    """`GET /v1/vector_stores/{vector_store_id}/files/{file_id}/content`."""
    file = _file(provider, request)
    passage = {"type": "text", "text": "A passage about coats."}
    told = {"file_id": file["id"], "filename": files.named(provider, file["id"]), "attributes": file["attributes"]}
    page_of = {"object": "vector_store.file_content.page", "data": [passage], "has_more": False, "next_page": None}
    return JsonAnswer({**page_of, **told})


def create_batch(provider: Provider, request: Request) -> Answer:
    """`POST /v1/vector_stores/{vector_store_id}/file_batches`."""
    found, body = _found(provider, request), request.json()
    check_attachments(provider, body)
    shared = {name: body.get(name) for name in ("attributes", "chunking_strategy")}
    wanted: list[Json] = [{"file_id": one, **shared} for one in body.get("file_ids") or []] + (body.get("files") or [])
    if not wanted:
        raise failures.missing("file_ids")
    raw = provider.ids.new("vsfb_", place="vector_store.file_batch.id")
    found.batches[raw] = [_attach(found, one) for one in wanted]
    return JsonAnswer(_batch(found, raw))


def retrieve_batch(provider: Provider, request: Request) -> Answer:
    """`GET /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}`: it is done from then on."""
    found, raw = _batch_of(provider, request)
    shown = _batch(found, raw)
    _end(found.batches[raw], "completed")
    return JsonAnswer(shown)


def cancel_batch(provider: Provider, request: Request) -> Answer:
    """`POST /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel`."""
    found, raw = _batch_of(provider, request)
    _end(found.batches[raw], "cancelled")
    return JsonAnswer(_batch(found, raw))


def list_batch_files(provider: Provider, request: Request) -> Answer:
    """`GET /v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files`."""
    found, raw = _batch_of(provider, request)
    return JsonAnswer(page(list(_filtered(found.batches[raw], request)), request))


def _keep(provider: Provider, raw: str, body: Json) -> StoredStore:
    stored = StoredStore({"id": raw, "object": "vector_store", **body})
    provider.vector_stores[raw] = stored
    return stored


def _said(body: Json) -> Json:
    return {name: body.get(name) for name in ("name", "description", "metadata", "expires_after") if name in body}


def _shown(stored: StoredStore) -> Json:
    files = list(stored.files.values())
    known = {"name": None, "metadata": {}, "usage_bytes": 7 * len(files), "file_counts": _counts(files)}
    return {**known, "status": "completed", **stored.body}


def _counts(attached: list[Json]) -> Json:
    return {**{state: sum(one["status"] == state for one in attached) for state in _STATES}, "total": len(attached)}


def _attach(stored: StoredStore, wanted: Json) -> Json:
    raw = str(wanted["file_id"])
    stored.files[raw] = {
        "id": raw,
        "object": "vector_store.file",
        "created_at": int(time.time()),
        "vector_store_id": stored.body["id"],
        "status": "in_progress",
        "usage_bytes": 7,
        "last_error": None,
        "attributes": wanted.get("attributes") or {},
        "chunking_strategy": wanted.get("chunking_strategy") or {"type": "static"},
    }
    return stored.files[raw]


def _end(attached: list[Json], state: str) -> None:
    for one in attached:
        if one["status"] == "in_progress":
            one["status"] = state


def _batch(stored: StoredStore, raw: str) -> Json:
    counts = _counts(stored.batches[raw])
    ended = "cancelled" if counts["cancelled"] else "completed"
    return {
        "id": raw,
        "object": "vector_store.file_batch",
        "created_at": int(time.time()),
        "vector_store_id": stored.body["id"],
        "status": "in_progress" if counts["in_progress"] else ended,
        "file_counts": counts,
    }


def _filtered(attached: Any, request: Request) -> Iterator[Json]:
    wanted = request.text("filter")
    return (one for one in attached if wanted in (None, one["status"]))


def _found(provider: Provider, request: Request) -> StoredStore:
    """A store that a search spoke of exists as soon as somebody asks for it."""
    raw = request.path_ids[0]
    found = provider.vector_stores.get(raw)
    if found is None and raw in provider.ids.attachable and raw.startswith("vs_"):
        found = _keep(provider, raw, {"created_at": int(time.time())})
    if found is None:
        raise failures.vector_store_not_found(raw)
    return found


def _file(provider: Provider, request: Request) -> Json:
    found, raw = _found(provider, request), request.path_ids[1]
    if raw not in found.files:
        raise failures.Failure(404, f"No file found with id '{raw}' in vector store '{found.body['id']}'.")
    return found.files[raw]


def _batch_of(provider: Provider, request: Request) -> tuple[StoredStore, str]:
    found, raw = _found(provider, request), request.path_ids[1]
    if raw not in found.batches:
        raise failures.Failure(404, f"No file batch found with id '{raw}' in vector store '{found.body['id']}'.")
    return found, raw
