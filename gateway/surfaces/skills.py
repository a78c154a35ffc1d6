"""Skills (https://platform.openai.com/docs/api-reference/skills): folders of files, or one archive, in numbered versions.

A version is told by its number, which addresses nothing without its skill; its ID is only a place in the list.
"""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces.route import Body, Listing, Route, cursor, page_of
from gateway.surfaces.spec import FILE, PLAIN, UNKNOWN, USER, Each, Either, Id, Obj, Role

_ID: Final = Id(Kind.SKILL, Role.REF)
_VERSION_ID: Final = Id(Kind.SKILL_VERSION, Role.REF)


def _skill(name: Id) -> Obj:
    return Obj(
        {
            "id": name,
            "object": PLAIN,
            "name": USER,
            "description": USER,
            "default_version": PLAIN,
            "latest_version": PLAIN,
        }
    )


_VERSION: Final = Obj(
    {
        "id": Id(Kind.SKILL_VERSION, Role.OWN),
        "object": PLAIN,
        "skill_id": _ID,
        "name": USER,
        "description": USER,
        "version": PLAIN,
    }
)
_FILES: Final = Either(FILE, Each(FILE))

_ONE: Final = {"skill_id": _ID}
# What is JSON is the service's own word.
_ARCHIVE: Final = (b"application/zip", b"application/x-", b"application/gzip", b"application/octet-stream")

ROUTES: Final = (
    Route(
        "skills.create",
        "POST",
        "/skills",
        "creates a skill",
        _skill(Id(Kind.SKILL, Role.OWN)),
        Body.FORM,
        Obj({"files": _FILES}),
        creates=Kind.SKILL,
    ),
    Route(
        "skills.list",
        "GET",
        "/skills",
        "lists one's skills",
        page_of(_skill(_ID), Kind.SKILL),
        query={"after": cursor(Kind.SKILL), "limit": PLAIN, "order": PLAIN},
        lists=Listing(Kind.SKILL, "skills.retrieve"),
    ),
    Route("skills.retrieve", "GET", "/skills/{skill_id}", "retrieves a skill", _skill(_ID), path_ids=_ONE),
    Route(
        "skills.update",
        "POST",
        "/skills/{skill_id}",
        "chooses a skill's default version",
        _skill(_ID),
        Body.JSON,
        Obj({"default_version": UNKNOWN}),
        _ONE,
    ),
    Route(
        "skills.delete",
        "DELETE",
        "/skills/{skill_id}",
        "deletes a skill",
        Obj({"id": _ID, "object": PLAIN}),
        path_ids=_ONE,
        deletes="skill_id",
    ),
    Route(
        "skills.content",
        "GET",
        "/skills/{skill_id}/content",
        "downloads a skill's default version",
        Obj({}),
        path_ids=_ONE,
        media=_ARCHIVE,
    ),
    Route(
        "skills.versions.create",
        "POST",
        "/skills/{skill_id}/versions",
        "adds a version to a skill",
        _VERSION,
        Body.FORM,
        Obj({"files": _FILES, "default": PLAIN}),
        _ONE,
    ),
    Route(
        "skills.versions.list",
        "GET",
        "/skills/{skill_id}/versions",
        "lists a skill's versions",
        page_of(_VERSION, Kind.SKILL_VERSION),
        path_ids=_ONE,
        query={"after": _VERSION_ID, "limit": PLAIN, "order": PLAIN},
    ),
    Route(
        "skills.versions.retrieve",
        "GET",
        "/skills/{skill_id}/versions/{version}",
        "retrieves a version of a skill",
        _VERSION,
        path_ids=_ONE,
        path_names=("version",),
    ),
    Route(
        "skills.versions.delete",
        "DELETE",
        "/skills/{skill_id}/versions/{version}",
        "deletes a version of a skill",
        # It names the version that went, or its skill.
        Obj({"id": _VERSION_ID, "object": PLAIN, "version": PLAIN}),
        path_ids=_ONE,
        path_names=("version",),
    ),
    Route(
        "skills.versions.content",
        "GET",
        "/skills/{skill_id}/versions/{version}/content",
        "downloads a version of a skill",
        Obj({}),
        path_ids=_ONE,
        path_names=("version",),
        media=_ARCHIVE,
    ),
)
