"""Containers (https://platform.openai.com/docs/api-reference/containers) and the files in them.

A container is made by name, or by a tool that is told nothing else; then the answer in which it first appears says whose it
is. One that nobody used for some minutes has expired: what is asked of it then reads as if it had never been.
"""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces.items import NETWORK, SKILL
from gateway.surfaces.route import Body, Listing, Route, cursor, page_of
from gateway.surfaces.spec import FILE, PATH, PLAIN, USER, Each, Id, Obj, Role, Spec

_ID: Final = Id(Kind.CONTAINER, Role.REF)
_CHILD: Final = Id(Kind.CONTAINER_FILE, Role.REF)
_FILE: Final = Id(Kind.FILE, Role.REF)
_EXPIRES: Final = Obj({"anchor": PLAIN})


def _container(name: Id) -> Obj:
    return Obj(
        {
            "id": name,
            "object": PLAIN,
            "name": USER,
            "status": PLAIN,
            "expires_after": _EXPIRES,
            "network_policy": NETWORK,
        }
    )


# Its path ends in the name that the client gave, in one of the service's (`cfile_….png`), or in a file's ID and its name.
_CONTAINED: Final = Obj(
    {"id": Id(Kind.CONTAINER_FILE, Role.OWN), "object": PLAIN, "container_id": _ID, "path": PATH, "source": PLAIN}
)

_ONE: Final = {"container_id": _ID}
_ONE_FILE: Final = {"container_id": _ID, "file_id": _CHILD}
_PAGE: Final[dict[str, Spec]] = {"limit": PLAIN, "order": PLAIN}

ROUTES: Final = (
    Route(
        "containers.create",
        "POST",
        "/containers",
        "creates a container",
        _container(Id(Kind.CONTAINER, Role.OWN)),
        Body.JSON,
        Obj(
            {
                "name": USER,
                "file_ids": Each(_FILE),
                "skills": Each(SKILL),
                "network_policy": NETWORK,
                "expires_after": _EXPIRES,
                "memory_limit": PLAIN,
            }
        ),
        creates=Kind.CONTAINER,
        idempotent=True,
        refetch="containers.retrieve",
    ),
    Route(
        "containers.list",
        "GET",
        "/containers",
        "lists one's containers, with those that tools have made",
        page_of(_container(_ID), Kind.CONTAINER),
        query={"after": cursor(Kind.CONTAINER), "name": USER, **_PAGE},
        lists=Listing(Kind.CONTAINER, "containers.retrieve", filters=("name",)),
    ),
    Route(
        "containers.retrieve",
        "GET",
        "/containers/{container_id}",
        "retrieves a container",
        _container(_ID),
        path_ids=_ONE,
        expires=True,
    ),
    Route(
        "containers.delete",
        "DELETE",
        "/containers/{container_id}",
        "deletes a container",
        Obj({"id": _ID, "object": PLAIN}),
        path_ids=_ONE,
        deletes="container_id",
    ),
    Route(
        "containers.files.create",
        "POST",
        "/containers/{container_id}/files",
        "puts a file into a container",
        _CONTAINED,
        Body.FORM_OR_JSON,
        Obj({"file": FILE, "file_id": _FILE}),
        _ONE,
    ),
    Route(
        "containers.files.list",
        "GET",
        "/containers/{container_id}/files",
        "lists the files of a container",
        page_of(_CONTAINED, Kind.CONTAINER_FILE),
        path_ids=_ONE,
        query={"after": _CHILD, **_PAGE},
    ),
    Route(
        "containers.files.retrieve",
        "GET",
        "/containers/{container_id}/files/{file_id}",
        "retrieves a file of a container",
        _CONTAINED,
        path_ids=_ONE_FILE,
    ),
    Route(
        "containers.files.delete",
        "DELETE",
        "/containers/{container_id}/files/{file_id}",
        "deletes a file of a container",
        Obj({"id": _CHILD, "object": PLAIN}),
        path_ids=_ONE_FILE,
        deletes="file_id",
    ),
    Route(
        "containers.files.content",
        "GET",
        "/containers/{container_id}/files/{file_id}/content",
        "downloads a file of a container",
        Obj({}),
        path_ids=_ONE_FILE,
        media=(b"",),
    ),
)
