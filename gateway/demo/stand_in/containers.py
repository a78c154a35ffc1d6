"""The endpoints under /v1/containers, for those that were asked for and those that tools have made."""

from __future__ import annotations

import time

from gateway.demo.stand_in import failures, files
from gateway.demo.stand_in.answers import Answer, BytesAnswer, JsonAnswer, Request, page
from gateway.demo.stand_in.inputs import check_attachments
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider, StoredContainer, StoredFile


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/containers`."""
    body = request.json()
    if not isinstance(body.get("name"), str):
        raise failures.missing("name")
    check_attachments(provider, body)
    raw = provider.ids.new("cntr_", place="container.id")
    policy = dict(body.get("network_policy") or {"type": "disabled"})
    kept: Json = {name: body[name] for name in ("expires_after", "memory_limit") if name in body}
    stored = _keep(provider, raw, {"name": body["name"], "network_policy": policy, **kept})
    for file_id in body.get("file_ids") or []:
        known = files.found(provider, file_id)
        _put(provider, stored, str(known.body["filename"]), known.data)
    return JsonAnswer(stored.body)


def list_containers(provider: Provider, request: Request) -> Answer:
    """`GET /v1/containers`: everybody's."""
    named = request.text("name")
    return JsonAnswer(
        page([one.body for one in provider.containers.values() if named in (None, one.body["name"])], request)
    )


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/containers/{container_id}`, also of one that has expired."""
    return JsonAnswer(_found(provider, request).body)


def delete(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/containers/{container_id}`."""
    raw = str(_found(provider, request).body["id"])
    provider.containers.pop(raw)
    provider.ids.attachable.discard(raw)
    return JsonAnswer({"id": raw, "object": "container.deleted", "deleted": True})


def create_file(provider: Provider, request: Request) -> Answer:
    """`POST /v1/containers/{container_id}/files`: an upload, or a file that is there already."""
    found = _living(provider, request)
    if request.content_type.startswith("multipart/"):
        form = request.form()
        if "file" in form.files:
            upload = form.file("file")
            return JsonAnswer(_put(provider, found, upload.filename, upload.data).body)
        said = form.value()
    else:
        said = request.json()
    if not isinstance(said.get("file_id"), str):
        raise failures.missing("file")
    check_attachments(provider, said)
    known = files.found(provider, said["file_id"])
    return JsonAnswer(_put(provider, found, f"{said['file_id']}-{known.body['filename']}", known.data).body)


def list_files(provider: Provider, request: Request) -> Answer:
    """`GET /v1/containers/{container_id}/files`."""
    return JsonAnswer(page([one.body for one in _living(provider, request).files.values()], request))


def retrieve_file(provider: Provider, request: Request) -> Answer:
    """`GET /v1/containers/{container_id}/files/{file_id}`."""
    return JsonAnswer(_file(provider, request).body)


def delete_file(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/containers/{container_id}/files/{file_id}`."""
    raw = str(_file(provider, request).body["id"])
    _living(provider, request).files.pop(raw)
    provider.ids.attachable.discard(raw)
    return JsonAnswer({"id": raw, "object": "container.file.deleted", "deleted": True})


def content(provider: Provider, request: Request) -> Answer:
    """`GET /v1/containers/{container_id}/files/{file_id}/content`."""
    found = _file(provider, request)
    return BytesAnswer(found.data, "application/octet-stream", str(found.body["path"]).rpartition("/")[2])


def _keep(provider: Provider, raw: str, more: Json) -> StoredContainer:
    now = int(time.time())
    body = {
        "id": raw,
        "object": "container",
        "created_at": now,
        "status": "running",
        "expires_after": {"anchor": "last_active_at", "minutes": 20},
        "last_active_at": now,
        "memory_limit": "1g",
        **more,
    }
    provider.containers[raw] = StoredContainer(body)
    return provider.containers[raw]


def _put(provider: Provider, stored: StoredContainer, name: str, data: bytes, raw: str = "") -> StoredFile:
    raw = raw or provider.ids.new("cfile_", place="container.file.id")
    provider.ids.attachable.add(raw)
    body = {
        "id": raw,
        "object": "container.file",
        "created_at": int(time.time()),
        "bytes": len(data),
        "container_id": stored.body["id"],
        "path": f"/mnt/data/{name}",
        "source": "user",
    }
    stored.files[raw] = StoredFile(body, data)
    return stored.files[raw]


def _found(provider: Provider, request: Request) -> StoredContainer:
    """A container that a tool has made exists as soon as somebody asks for it."""
    raw = request.path_ids[0]
    found = provider.containers.get(raw)
    if found is None and raw in provider.ids.attachable and raw.startswith("cntr_"):
        found = _keep(provider, raw, {"name": "auto"})
    if found is None:
        raise failures.container_not_found(raw)
    return found


def _living(provider: Provider, request: Request) -> StoredContainer:
    found = _found(provider, request)
    if found.body["status"] == "expired":
        raise failures.container_expired()
    return found


def _file(provider: Provider, request: Request) -> StoredFile:
    """A file that code has made exists as soon as somebody asks for it, in whichever container."""
    stored, raw = _living(provider, request), request.path_ids[1]
    found = stored.files.get(raw)
    if found is None and raw in provider.ids.attachable and raw.startswith("cfile_"):
        found = _put(provider, stored, f"{raw}.png", b"\x89PNG\r\n\x1a\n", raw)
    if found is None:
        raise failures.Failure(404, f"Container file with id '{raw}' not found.")
    return found
