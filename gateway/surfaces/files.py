"""Files (https://platform.openai.com/docs/api-reference/files). What is in them is their owner's and passes untouched; the names
of those that the service makes hold IDs of batches and containers."""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces.route import Body, Listing, Route, cursor, page_of
from gateway.surfaces.spec import LABEL, PLAIN, File, Id, Obj, Role, Spec

_ID: Final = Id(Kind.FILE, Role.REF)
_ONE: Final = {"file_id": _ID}

_FIELDS: Final[dict[str, Spec]] = {
    "object": PLAIN,
    "filename": LABEL,
    "purpose": PLAIN,
    "status": PLAIN,
    "status_details": LABEL,
}

NEW: Final = Obj({"id": Id(Kind.FILE, Role.OWN), **_FIELDS})
KNOWN: Final = Obj({"id": _ID, **_FIELDS})

EXPIRY: Final = Obj({"anchor": PLAIN, "seconds": PLAIN})

ROUTES: Final = (
    Route(
        "files.create",
        "POST",
        "/files",
        "uploads a file",
        NEW,
        Body.FORM,
        Obj({"purpose": PLAIN, "expires_after": EXPIRY, "file": File(after=("purpose",))}),
        creates=Kind.FILE,
    ),
    Route(
        "files.list",
        "GET",
        "/files",
        "lists one's own files",
        page_of(KNOWN, Kind.FILE),
        query={"after": cursor(Kind.FILE), "limit": PLAIN, "order": PLAIN, "purpose": PLAIN},
        lists=Listing(Kind.FILE, row="files.retrieve", limit=10_000, most=10_000, filters=("purpose",)),
    ),
    Route("files.retrieve", "GET", "/files/{file_id}", "tells about a file", KNOWN, path_ids=_ONE),
    Route(
        "files.delete",
        "DELETE",
        "/files/{file_id}",
        "deletes a file",
        Obj({"id": _ID, "object": PLAIN}),
        path_ids=_ONE,
        deletes="file_id",
    ),
    Route(
        "files.content",
        "GET",
        "/files/{file_id}/content",
        "downloads a file",
        Obj({}),
        path_ids=_ONE,
        media=(b"",),
    ),
)
