"""One call of every route of vector stores, containers, skills and fine-tuning, with what each needs."""

from __future__ import annotations

from typing import Any

from tests.forms import file, form, text
from tests.pipeline.desk import MODEL, Desk

Call = tuple[str, str, object, int]

MADE = 2
"""Claims of what a job has made: the model and its results, or the model and its checkpoint."""


async def resource_calls(at: Desk, plain: int, with_claim: int) -> dict[str, Call]:
    """By action: method, path, body and how many calls of the store are expected (`with_claim`: of those that show a root)."""

    async def made(path: str, body: object) -> Any:
        reply = await at.call("POST", path, body)
        assert reply.status_code == 200, reply.text
        return reply.json()["id"]

    data = await made("/files", form(text("purpose", "assistants"), file("file", b"x")))
    store, lost_store = await made("/vector_stores", {}), await made("/vector_stores", {})
    box, lost_box = await made("/containers", {"name": "box"}), await made("/containers", {"name": "box"})
    held, lost = [await made(f"/containers/{box}/files", form(file("file", b"x"))) for _ in range(2)]
    await made(f"/vector_stores/{store}/files", {"file_id": data})
    batch = await made(f"/vector_stores/{store}/file_batches", {"file_ids": [data]})
    folder = form(file("files", b"x"))
    skill, lost_skill = await made("/skills", folder), await made("/skills", folder)
    await made(f"/skills/{skill}/versions", folder)
    training = {"model": MODEL, "training_file": data}
    job, paused, ended = [await made("/fine_tuning/jobs", training) for _ in range(3)]
    model = [(await at.call("GET", f"/fine_tuning/jobs/{ended}")).json()["fine_tuned_model"] for _ in range(3)][-1]
    in_store, of_batch = f"/vector_stores/{store}/files/{data}", f"/vector_stores/{store}/file_batches/{batch}"
    in_box, version = f"/containers/{box}/files/{held}", f"/skills/{skill}/versions/2"
    return {
        "vector_stores.create": ("POST", "/vector_stores", {"file_ids": [data]}, with_claim),
        "vector_stores.list": ("GET", "/vector_stores", None, plain),
        "vector_stores.retrieve": ("GET", f"/vector_stores/{store}", None, plain),
        "vector_stores.update": ("POST", f"/vector_stores/{store}", {"name": "coats"}, plain),
        "vector_stores.delete": ("DELETE", f"/vector_stores/{lost_store}", None, plain),
        "vector_stores.search": ("POST", f"/vector_stores/{store}/search", {"query": "coats"}, plain),
        "vector_stores.files.create": ("POST", f"/vector_stores/{store}/files", {"file_id": data}, plain),
        "vector_stores.files.list": ("GET", f"/vector_stores/{store}/files", None, plain),
        "vector_stores.files.retrieve": ("GET", in_store, None, plain),
        "vector_stores.files.update": ("POST", in_store, {"attributes": {}}, plain),
        "vector_stores.files.content": ("GET", f"{in_store}/content", None, plain),
        "vector_stores.file_batches.create": (
            "POST", f"/vector_stores/{store}/file_batches", {"file_ids": [data]}, plain
        ),
        "vector_stores.file_batches.retrieve": ("GET", of_batch, None, plain),
        "vector_stores.file_batches.list_files": ("GET", f"{of_batch}/files", None, plain),
        "vector_stores.file_batches.cancel": ("POST", f"{of_batch}/cancel", None, plain),
        "vector_stores.files.delete": ("DELETE", in_store, None, plain),
        "containers.create": ("POST", "/containers", {"name": "box"}, with_claim),
        "containers.list": ("GET", "/containers", None, plain),
        "containers.retrieve": ("GET", f"/containers/{box}", None, plain),
        "containers.delete": ("DELETE", f"/containers/{lost_box}", None, plain),
        "containers.files.create": ("POST", f"/containers/{box}/files", {"file_id": data}, plain),
        "containers.files.list": ("GET", f"/containers/{box}/files", None, plain),
        "containers.files.retrieve": ("GET", in_box, None, plain),
        "containers.files.content": ("GET", f"{in_box}/content", None, plain),
        "containers.files.delete": ("DELETE", f"/containers/{box}/files/{lost}", None, plain),
        "skills.create": ("POST", "/skills", folder, with_claim),
        "skills.list": ("GET", "/skills", None, plain),
        "skills.retrieve": ("GET", f"/skills/{skill}", None, plain),
        "skills.update": ("POST", f"/skills/{skill}", {"default_version": "1"}, plain),
        "skills.delete": ("DELETE", f"/skills/{lost_skill}", None, plain),
        "skills.content": ("GET", f"/skills/{skill}/content", None, plain),
        "skills.versions.create": ("POST", f"/skills/{skill}/versions", folder, plain),
        "skills.versions.list": ("GET", f"/skills/{skill}/versions", None, plain),
        "skills.versions.retrieve": ("GET", version, None, plain),
        "skills.versions.content": ("GET", f"{version}/content", None, plain),
        "skills.versions.delete": ("DELETE", version, None, plain),
        "fine_tuning.jobs.create": ("POST", "/fine_tuning/jobs", training, with_claim),
        "fine_tuning.jobs.list": ("GET", "/fine_tuning/jobs", None, plain + MADE),
        "fine_tuning.jobs.retrieve": ("GET", f"/fine_tuning/jobs/{job}", None, plain),
        "fine_tuning.jobs.pause": ("POST", f"/fine_tuning/jobs/{paused}/pause", None, plain),
        "fine_tuning.jobs.resume": ("POST", f"/fine_tuning/jobs/{paused}/resume", None, plain),
        "fine_tuning.jobs.cancel": ("POST", f"/fine_tuning/jobs/{paused}/cancel", None, plain),
        "fine_tuning.jobs.events": ("GET", f"/fine_tuning/jobs/{ended}/events", None, plain),
        "fine_tuning.jobs.checkpoints": ("GET", f"/fine_tuning/jobs/{ended}/checkpoints", None, plain + MADE),
        "models.delete": ("DELETE", f"/models/{model}", None, plain),
    }  # fmt: skip
