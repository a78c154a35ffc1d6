"""The endpoints under /v1/files."""

from __future__ import annotations

import time

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, BytesAnswer, JsonAnswer, Request, page
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider, StoredFile

PURPOSES = frozenset({"assistants", "batch", "fine-tune", "vision", "user_data", "evals"})


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/files`."""
    form = request.form()
    upload, purpose = form.file("file"), form.texts.get("purpose", "")
    if purpose not in PURPOSES:
        raise failures.Failure(400, f"'{purpose}' is not one of the supported purposes.", param="purpose")
    seconds = form.texts.get("expires_after[seconds]")
    stored = keep(provider, upload.filename, upload.data, purpose, int(seconds) if seconds else None)
    return JsonAnswer(stored.body)


def keep(
    provider: Provider, filename: str, data: bytes, purpose: str, lives_s: int | None = None, raw: str = ""
) -> StoredFile:
    """A new file, by a new ID unless `raw` is one."""
    raw, now = raw or provider.ids.new("file-", place="file.id"), int(time.time())
    body: Json = {
        "id": raw,
        "object": "file",
        "bytes": len(data),
        "created_at": now,
        "expires_at": now + lives_s if lives_s else None,
        "filename": filename,
        "purpose": purpose,
        "status": "processed",
        "status_details": None,
    }
    provider.files[raw] = StoredFile(body, data)
    return provider.files[raw]


def list_files(provider: Provider, request: Request) -> Answer:
    """`GET /v1/files`: everybody's."""
    purpose = request.text("purpose")
    files = [one.body for one in provider.files.values() if purpose in (None, one.body["purpose"])]
    return JsonAnswer(page(files, request))


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/files/{file_id}`."""
    return JsonAnswer(found(provider, request.path_ids[0]).body)


def delete(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/files/{file_id}`."""
    (raw,) = request.path_ids
    found(provider, raw)
    provider.files.pop(raw)
    provider.ids.attachable.discard(raw)
    return JsonAnswer({"id": raw, "object": "file", "deleted": True})


def content(provider: Provider, request: Request) -> Answer:
    """`GET /v1/files/{file_id}/content`."""
    stored = found(provider, request.path_ids[0])
    return BytesAnswer(stored.data, stored.media_type, str(stored.body["filename"]))


def found(provider: Provider, raw: str) -> StoredFile:
    """A file that the model spoke of exists as soon as somebody asks for it. Raises `Failure`."""
    stored = provider.files.get(raw)
    if stored is None and raw in provider.ids.attachable and raw.startswith("file-"):
        stored = keep(provider, f"{raw}-notes.txt", b"notes", "user_data", raw=raw)
    if stored is None:
        raise failures.file_not_found(raw)
    return stored


def named(provider: Provider, raw: str) -> str:
    """The name of a file that is attached somewhere."""
    return str(found(provider, raw).body["filename"])
