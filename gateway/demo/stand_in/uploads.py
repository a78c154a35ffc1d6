"""The endpoints under /v1/uploads."""

from __future__ import annotations

import hashlib
import time

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request
from gateway.demo.stand_in.files import PURPOSES, keep
from gateway.demo.stand_in.provider import Provider, StoredUpload


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/uploads`."""
    body = request.json()
    if body.get("purpose") not in PURPOSES:
        raise failures.Failure(400, f"'{body.get('purpose')}' is not one of the supported purposes.", param="purpose")
    now, raw = int(time.time()), provider.ids.new("upload_", place="upload.id")
    upload = StoredUpload(
        {
            "id": raw,
            "object": "upload",
            "bytes": body.get("bytes"),
            "created_at": now,
            "expires_at": now + 3_600,
            "filename": body.get("filename"),
            "purpose": body.get("purpose"),
            "status": "pending",
            "file": None,
        }
    )
    provider.uploads[raw] = upload
    return JsonAnswer(upload.body)


def add_part(provider: Provider, request: Request) -> Answer:
    """`POST /v1/uploads/{upload_id}/parts`."""
    upload = _pending(provider, request)
    raw = provider.ids.new("part_", place="upload.part.id")
    upload.parts[raw] = request.form().file("data").data
    return JsonAnswer(
        {"id": raw, "object": "upload.part", "created_at": int(time.time()), "upload_id": request.path_ids[0]}
    )


def complete(provider: Provider, request: Request) -> Answer:
    """`POST /v1/uploads/{upload_id}/complete`."""
    upload, body = _pending(provider, request), request.json()
    for raw in body.get("part_ids", []):
        if raw not in upload.parts:
            raise failures.Failure(404, f"Part with id '{raw}' not found.", param="part_ids")
    data = b"".join(upload.parts[raw] for raw in body["part_ids"])
    if len(data) != upload.body["bytes"]:
        said = f"Expected {upload.body['bytes']} bytes in {upload.body['id']}, but got {len(data)}."
        raise failures.Failure(400, said)
    if body.get("md5") not in (None, hashlib.md5(data, usedforsecurity=False).hexdigest()):
        raise failures.Failure(400, "The checksum does not match.", param="md5")
    stored = keep(provider, str(upload.body["filename"]), data, str(upload.body["purpose"]))
    upload.body |= {"status": "completed", "file": stored.body}
    return JsonAnswer(upload.body)


def cancel(provider: Provider, request: Request) -> Answer:
    """`POST /v1/uploads/{upload_id}/cancel`."""
    upload = _pending(provider, request)
    upload.body["status"] = "cancelled"
    return JsonAnswer(upload.body)


def _pending(provider: Provider, request: Request) -> StoredUpload:
    raw = request.path_ids[0]
    if raw not in provider.uploads:
        raise failures.Failure(404, f"Upload with id '{raw}' not found.")
    upload = provider.uploads[raw]
    if upload.body["status"] != "pending":
        raise failures.Failure(400, f"Upload {raw} is {upload.body['status']}.")
    return upload
