"""Files (https://platform.openai.com/docs/api-reference/files). What is in them is their owner's and passes untouched; the names
of those that the service makes hold IDs of batches and containers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.names import Kind
from gateway.surfaces.route import Body, Listing, Route, cursor, page_of
from gateway.surfaces.spec import LABEL, PLAIN, USER, File, Id, Obj, Role, Spec, Typed

_ID: Final = Id(Kind.FILE, Role.REF)
_ONE: Final = {"file_id": _ID}

_GIVEN: Final = ("assistants", "batch", "evals", "fine-tune", "user_data", "vision")
_MADE: Final = ("assistants_output", "batch_output", "fine-tune-results")


def by_purpose(fields: Mapping[str, Spec]) -> Typed:
    """These and a file's name, which is the client's own text where the file is for what clients give files for."""
    given, made = Obj({**fields, "filename": USER}), Obj({**fields, "filename": LABEL})
    return Typed({**dict.fromkeys(_GIVEN, given), **dict.fromkeys(_MADE, made)}, other=made, key="purpose")


_FIELDS: Final[dict[str, Spec]] = {"object": PLAIN, "purpose": PLAIN, "status": PLAIN, "status_details": LABEL}

NEW: Final = by_purpose({"id": Id(Kind.FILE, Role.OWN), **_FIELDS})
KNOWN: Final = by_purpose({"id": _ID, **_FIELDS})

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
