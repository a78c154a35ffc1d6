"""Vector stores (https://platform.openai.com/docs/api-reference/vector-stores).

A file in a vector store is the file itself, so its ID was minted where it was uploaded, and here it is only named. A batch
of files belongs to its store.
"""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces.route import Body, Listing, Route, cursor, page_of
from gateway.surfaces.spec import FAULT, LABEL, PLAIN, USER, Each, Id, Obj, Role, Spec

_ID: Final = Id(Kind.VECTOR_STORE, Role.REF)
_FILE: Final = Id(Kind.FILE, Role.REF)
_BATCH: Final = Id(Kind.VECTOR_STORE_BATCH, Role.REF)


def _store(name: Id) -> Obj:
    return Obj(
        {"id": name, "object": PLAIN, "name": USER, "description": USER, "metadata": USER, "expires_after": _EXPIRES}
    )


def _batch(name: Id) -> Obj:
    return Obj({"id": name, "object": PLAIN, "vector_store_id": _ID, "status": PLAIN})


_EXPIRES: Final = Obj({"anchor": PLAIN})
_CHUNKING: Final = Obj({"type": PLAIN})
_ATTACHED: Final = Obj(
    {
        "id": _FILE,
        "object": PLAIN,
        "vector_store_id": _ID,
        "attributes": USER,
        "chunking_strategy": _CHUNKING,
        "last_error": FAULT,
    }
)
_DELETED: Final = {"object": PLAIN}
_PASSAGE: Final = Obj({"type": PLAIN, "text": USER})

_ATTACH: Final[dict[str, Spec]] = {"file_id": _FILE, "attributes": USER, "chunking_strategy": _CHUNKING}
_SAID: Final[dict[str, Spec]] = {"name": USER, "description": USER, "metadata": USER, "expires_after": _EXPIRES}

_ONE: Final = {"vector_store_id": _ID}
_ONE_FILE: Final = {"vector_store_id": _ID, "file_id": _FILE}
_ONE_BATCH: Final = {"vector_store_id": _ID, "batch_id": _BATCH}
_FILES: Final[dict[str, Spec]] = {"after": _FILE, "before": _FILE, "limit": PLAIN, "order": PLAIN, "filter": PLAIN}

ROUTES: Final = (
    Route(
        "vector_stores.create",
        "POST",
        "/vector_stores",
        "creates a vector store",
        _store(Id(Kind.VECTOR_STORE, Role.OWN)),
        Body.OPTIONAL_JSON,
        Obj({**_SAID, "file_ids": Each(_FILE), "chunking_strategy": _CHUNKING}),
        creates=Kind.VECTOR_STORE,
        idempotent=True,
        refetch="vector_stores.retrieve",
    ),
    Route(
        "vector_stores.list",
        "GET",
        "/vector_stores",
        "lists one's vector stores",
        page_of(_store(_ID), Kind.VECTOR_STORE),
        query={
            "after": cursor(Kind.VECTOR_STORE),
            "before": cursor(Kind.VECTOR_STORE),
            "limit": PLAIN,
            "order": PLAIN,
        },
        lists=Listing(Kind.VECTOR_STORE, "vector_stores.retrieve"),
    ),
    Route(
        "vector_stores.retrieve",
        "GET",
        "/vector_stores/{vector_store_id}",
        "retrieves a vector store",
        _store(_ID),
        path_ids=_ONE,
    ),
    Route(
        "vector_stores.update",
        "POST",
        "/vector_stores/{vector_store_id}",
        "renames a vector store, or updates its metadata or expiry",
        _store(_ID),
        Body.JSON,
        Obj(_SAID),
        _ONE,
    ),
    Route(
        "vector_stores.delete",
        "DELETE",
        "/vector_stores/{vector_store_id}",
        "deletes a vector store; its files stay",
        Obj({"id": _ID, **_DELETED}),
        path_ids=_ONE,
        deletes="vector_store_id",
    ),
    Route(
        "vector_stores.search",
        "POST",
        "/vector_stores/{vector_store_id}/search",
        "searches a vector store",
        Obj(
            {
                "object": PLAIN,
                "search_query": USER,
                "data": Each(
                    Obj(
                        {
                            "file_id": _FILE,
                            # In no reference, and in the traffic.
                            "vector_store_id": _ID,
                            "filename": LABEL,
                            "attributes": USER,
                            "content": Each(_PASSAGE),
                        }
                    )
                ),
            }
        ),
        Body.JSON,
        Obj({"query": USER, "filters": USER, "ranking_options": Obj({"ranker": PLAIN})}),
        _ONE,
    ),
    Route(
        "vector_stores.files.create",
        "POST",
        "/vector_stores/{vector_store_id}/files",
        "attaches a file to a vector store",
        _ATTACHED,
        Body.JSON,
        Obj(_ATTACH),
        _ONE,
        idempotent=True,
    ),
    Route(
        "vector_stores.files.list",
        "GET",
        "/vector_stores/{vector_store_id}/files",
        "lists the files of a vector store",
        page_of(_ATTACHED, Kind.FILE),
        path_ids=_ONE,
        query=_FILES,
    ),
    Route(
        "vector_stores.files.retrieve",
        "GET",
        "/vector_stores/{vector_store_id}/files/{file_id}",
        "retrieves a file of a vector store",
        _ATTACHED,
        path_ids=_ONE_FILE,
    ),
    Route(
        "vector_stores.files.update",
        "POST",
        "/vector_stores/{vector_store_id}/files/{file_id}",
        "updates the attributes of a file of a vector store",
        _ATTACHED,
        Body.JSON,
        Obj({"attributes": USER}),
        _ONE_FILE,
    ),
    Route(
        "vector_stores.files.delete",
        "DELETE",
        "/vector_stores/{vector_store_id}/files/{file_id}",
        "detaches a file from a vector store; the file stays",
        Obj({"id": _FILE, **_DELETED}),
        path_ids=_ONE_FILE,
    ),
    Route(
        "vector_stores.files.content",
        "GET",
        "/vector_stores/{vector_store_id}/files/{file_id}/content",
        "shows the text that a vector store has of a file",
        Obj({"object": PLAIN, "data": Each(_PASSAGE), "file_id": _FILE, "filename": LABEL, "attributes": USER}),
        path_ids=_ONE_FILE,
    ),
    Route(
        "vector_stores.file_batches.create",
        "POST",
        "/vector_stores/{vector_store_id}/file_batches",
        "attaches many files to a vector store",
        _batch(Id(Kind.VECTOR_STORE_BATCH, Role.OWN)),
        Body.JSON,
        Obj(
            {
                "file_ids": Each(_FILE),
                "files": Each(Obj(_ATTACH)),
                "attributes": USER,
                "chunking_strategy": _CHUNKING,
            }
        ),
        _ONE,
        idempotent=True,
    ),
    Route(
        "vector_stores.file_batches.retrieve",
        "GET",
        "/vector_stores/{vector_store_id}/file_batches/{batch_id}",
        "retrieves a batch of files",
        _batch(_BATCH),
        path_ids=_ONE_BATCH,
    ),
    Route(
        "vector_stores.file_batches.cancel",
        "POST",
        "/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel",
        "cancels a batch of files",
        _batch(_BATCH),
        Body.OPTIONAL_JSON,
        Obj({}),
        _ONE_BATCH,
    ),
    Route(
        "vector_stores.file_batches.list_files",
        "GET",
        "/vector_stores/{vector_store_id}/file_batches/{batch_id}/files",
        "lists the files of a batch",
        page_of(_ATTACHED, Kind.FILE),
        path_ids=_ONE_BATCH,
        query=_FILES,
    ),
)
