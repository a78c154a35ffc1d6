"""Uploads: files in parts (https://platform.openai.com/docs/api-reference/uploads). Each part may begin anywhere in the file, so
what must be checked line by line can't be checked in them."""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces import batches, training
from gateway.surfaces.files import EXPIRY, NEW
from gateway.surfaces.route import Body, Route
from gateway.surfaces.spec import LABEL, PLAIN, USER, Each, File, Id, Obj, Plain, Role, Spec

_ID: Final = Id(Kind.UPLOAD, Role.REF)
_ONE: Final = {"upload_id": _ID}

_FIELDS: Final[dict[str, Spec]] = {
    "object": PLAIN,
    "filename": LABEL,
    "purpose": PLAIN,
    "status": PLAIN,
    "file": NEW,
}
_KNOWN: Final = Obj({"id": _ID, **_FIELDS})

_WHOLE: Final = "what such a file holds is checked as it comes: upload it as a whole, to /v1/files"
_PURPOSE: Final = Plain(never=tuple((purpose, _WHOLE) for purpose in (batches.PURPOSE, training.PURPOSE)))

ROUTES: Final = (
    Route(
        "uploads.create",
        "POST",
        "/uploads",
        "begins an upload in parts",
        Obj({"id": Id(Kind.UPLOAD, Role.OWN), **_FIELDS}),
        Body.JSON,
        Obj({"filename": USER, "mime_type": PLAIN, "purpose": _PURPOSE, "expires_after": EXPIRY}),
        creates=Kind.UPLOAD,
        idempotent=True,
    ),
    Route(
        "uploads.parts.create",
        "POST",
        "/uploads/{upload_id}/parts",
        "uploads a part",
        Obj({"id": Id(Kind.UPLOAD_PART, Role.OWN), "object": PLAIN, "upload_id": _ID}),
        Body.FORM,
        Obj({"data": File(after=())}),
        _ONE,
    ),
    Route(
        "uploads.complete",
        "POST",
        "/uploads/{upload_id}/complete",
        "makes a file of an upload's parts",
        _KNOWN,
        Body.JSON,
        Obj({"part_ids": Each(Id(Kind.UPLOAD_PART, Role.REF)), "md5": PLAIN}),
        _ONE,
        creates=Kind.FILE,
        idempotent=True,
    ),
    Route(
        "uploads.cancel",
        "POST",
        "/uploads/{upload_id}/cancel",
        "gives an upload up",
        _KNOWN,
        Body.OPTIONAL_JSON,
        Obj({}),
        _ONE,
    ),
)
