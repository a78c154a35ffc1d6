"""The endpoints under /v1/skills. A skill's content is one archive, or the files one after the other."""

from __future__ import annotations

import time

from gateway.demo.stand_in import failures
from gateway.demo.stand_in.answers import Answer, BytesAnswer, JsonAnswer, Request, page
from gateway.demo.stand_in.forms import Form
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider, StoredFile, StoredSkill


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/skills`."""
    form = request.form()
    raw = provider.ids.new("skill_", place="skill.id")
    stored = StoredSkill(
        {"id": raw, "object": "skill", "created_at": int(time.time()), "name": "fold", "description": "Folds coats."}
    )
    _add(provider, stored, form)
    provider.skills[raw] = stored
    return JsonAnswer(stored.body)


def list_skills(provider: Provider, request: Request) -> Answer:
    """`GET /v1/skills`: everybody's."""
    return JsonAnswer(page([one.body for one in provider.skills.values()], request))


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/skills/{skill_id}`."""
    return JsonAnswer(_found(provider, request).body)


def update(provider: Provider, request: Request) -> Answer:
    """`POST /v1/skills/{skill_id}`."""
    found, wanted = _found(provider, request), request.json().get("default_version")
    if wanted not in found.versions:
        raise failures.Failure(404, f"Skill version '{wanted}' not found.")
    found.body["default_version"] = wanted
    return JsonAnswer(found.body)


def delete(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/skills/{skill_id}`."""
    raw = str(_found(provider, request).body["id"])
    provider.skills.pop(raw)
    provider.ids.attachable.discard(raw)
    return JsonAnswer({"id": raw, "object": "skill.deleted", "deleted": True})


def content(provider: Provider, request: Request) -> Answer:
    """`GET /v1/skills/{skill_id}/content`."""
    found = _found(provider, request)
    return BytesAnswer(found.versions[found.body["default_version"]].data, "application/zip", "skill.zip")


def create_version(provider: Provider, request: Request) -> Answer:
    """`POST /v1/skills/{skill_id}/versions`."""
    return JsonAnswer(_add(provider, _found(provider, request), request.form()))


def list_versions(provider: Provider, request: Request) -> Answer:
    """`GET /v1/skills/{skill_id}/versions`."""
    return JsonAnswer(page([one.body for one in _found(provider, request).versions.values()], request))


def retrieve_version(provider: Provider, request: Request) -> Answer:
    """`GET /v1/skills/{skill_id}/versions/{version}`."""
    return JsonAnswer(_version(provider, request).body)


def delete_version(provider: Provider, request: Request) -> Answer:
    """`DELETE /v1/skills/{skill_id}/versions/{version}`."""
    found, version = _found(provider, request), _version(provider, request)
    number = version.body["version"]
    found.versions.pop(number)
    return JsonAnswer({"id": version.body["id"], "object": "skill.version.deleted", "deleted": True, "version": number})


def version_content(provider: Provider, request: Request) -> Answer:
    """`GET /v1/skills/{skill_id}/versions/{version}/content`."""
    return BytesAnswer(_version(provider, request).data, "application/zip", "skill.zip")


def _add(provider: Provider, stored: StoredSkill, form: Form) -> Json:
    uploads = form.files.get("files", [])
    if not uploads:
        raise failures.missing("files")
    number = str(int(stored.body.get("latest_version", "0")) + 1)
    body: Json = {
        "id": provider.ids.new("skillver_", place="skill.version.id"),
        "object": "skill.version",
        "created_at": int(time.time()),
        "skill_id": stored.body["id"],
        "name": stored.body["name"],
        "description": stored.body["description"],
        "version": number,
    }
    stored.versions[number] = StoredFile(body, b"".join(upload.data for upload in uploads))
    stored.body["latest_version"] = number
    if number == "1" or form.texts.get("default") == "true":
        stored.body["default_version"] = number
    return body


def _found(provider: Provider, request: Request) -> StoredSkill:
    raw = request.path_ids[0]
    if raw not in provider.skills:
        raise failures.skill_not_found(raw)
    return provider.skills[raw]


def _version(provider: Provider, request: Request) -> StoredFile:
    found, number = _found(provider, request), request.path_ids[1]
    if number not in found.versions:
        raise failures.Failure(404, f"Skill version '{number}' of skill '{found.body['id']}' not found.")
    return found.versions[number]
