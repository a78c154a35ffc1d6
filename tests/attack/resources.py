"""Vector stores, containers, skills, fine-tuned models and batches of a caller, made by the means that every client has."""

from __future__ import annotations

from typing import Any

from gateway.names import Kind
from gateway.surfaces.route import Route
from tests.attack.house import Caller
from tests.attack.places import Place
from tests.forms import spelt, uploaded

BASE = "gpt-4o-mini"
SKILL = spelt({"files": b"# Fold"})


EMBEDDED = b'{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{"model":"gpt-5","input":"a"}}'
RUN: dict[str, Any] = {"endpoint": "/v1/embeddings", "completion_window": "24h"}


def lines(caller: Caller) -> str:
    """A file that a batch can run."""
    return str(caller.ok("POST", "/files", uploaded(EMBEDDED, "batch"))["id"])


def batch(caller: Caller) -> str:
    return str(caller.ok("POST", "/batches", {"input_file_id": lines(caller), **RUN})["id"])


def store(caller: Caller, *files: str) -> str:
    return str(caller.ok("POST", "/vector_stores", {"file_ids": list(files)})["id"])


def file_batch(caller: Caller, of: str, file: str) -> str:
    return str(caller.ok("POST", f"/vector_stores/{of}/file_batches", {"file_ids": [file]})["id"])


def container(caller: Caller) -> str:
    return str(caller.ok("POST", "/containers", {"name": "box"})["id"])


def contained(caller: Caller, box: str) -> str:
    """A new file in the container."""
    return str(caller.ok("POST", f"/containers/{box}/files", spelt({"file": b"7"}))["id"])


def skill(caller: Caller) -> str:
    return str(caller.ok("POST", "/skills", SKILL)["id"])


def version(caller: Caller, of: str) -> str:
    """The ID of the skill's newest version."""
    caller.ok("POST", f"/skills/{of}/versions", SKILL)
    return str(caller.ok("GET", f"/skills/{of}/versions")["data"][0]["id"])


def job(caller: Caller, file: str) -> str:
    return str(caller.ok("POST", "/fine_tuning/jobs", {"model": BASE, "training_file": file})["id"])


def ended(caller: Caller, file: str) -> Any:
    """A job that has made a model."""
    made = job(caller, file)
    while (told := caller.ok("GET", f"/fine_tuning/jobs/{made}"))["status"] != "succeeded":
        pass
    return told


def gather_resources(caller: Caller, file: str) -> dict[Kind, str]:
    """One of each kind; `file` is attached to the store."""
    kept, box, folder, done = store(caller, file), container(caller), skill(caller), ended(caller, file)
    of_job = f"/fine_tuning/jobs/{done['id']}"
    return {
        Kind.VECTOR_STORE: kept,
        Kind.VECTOR_STORE_BATCH: file_batch(caller, kept, file),
        Kind.CONTAINER: box,
        Kind.CONTAINER_FILE: contained(caller, box),
        Kind.SKILL: folder,
        Kind.SKILL_VERSION: version(caller, folder),
        Kind.FINE_TUNING_JOB: str(done["id"]),
        Kind.FINE_TUNING_EVENT: caller.ok("GET", f"{of_job}/events")["data"][0]["id"],
        Kind.CHECKPOINT: caller.ok("GET", f"{of_job}/checkpoints")["data"][0]["id"],
        Kind.FINE_TUNED_MODEL: str(done["fine_tuned_model"]),
        Kind.BATCH: batch(caller),
    }


def delete_resources(caller: Caller, file: str) -> dict[Kind, str]:
    """One of each kind that is deleted, or whose root is."""
    lost, box, folder = store(caller, file), container(caller), skill(caller)
    gone = {
        Kind.VECTOR_STORE: lost,
        Kind.VECTOR_STORE_BATCH: file_batch(caller, lost, file),
        Kind.CONTAINER: box,
        Kind.CONTAINER_FILE: contained(caller, box),
        Kind.SKILL: folder,
        Kind.SKILL_VERSION: version(caller, folder),
        Kind.FINE_TUNED_MODEL: str(ended(caller, file)["fine_tuned_model"]),
    }
    for kind, path in (
        (Kind.VECTOR_STORE, "/vector_stores"),
        (Kind.CONTAINER, "/containers"),
        (Kind.SKILL, "/skills"),
        (Kind.FINE_TUNED_MODEL, "/models"),
    ):
        caller.ok("DELETE", f"{path}/{gone[kind]}")
    return gone


def fresh(place: Place, caller: Caller, kinds: dict[Kind, str]) -> str | None:
    """One that the place uses up: a new one each time. None: what is kept will do."""
    route, file = place.route, kinds[Kind.FILE]
    if route.runs == place.name:
        return lines(caller)
    if route.action == "batches.cancel":
        return batch(caller)
    if route.deletes == place.name:
        match place.spec.kind:
            case Kind.VECTOR_STORE:
                return store(caller)
            case Kind.CONTAINER:
                return container(caller)
            case Kind.CONTAINER_FILE:
                return contained(caller, kinds[Kind.CONTAINER])
            case Kind.SKILL:
                return skill(caller)
            case Kind.FINE_TUNED_MODEL:
                return str(ended(caller, file)["fine_tuned_model"])
    if route.path.startswith("/vector_stores/{vector_store_id}/files/") and place.spec.kind is Kind.FILE:
        caller.ok("POST", f"/vector_stores/{kinds[Kind.VECTOR_STORE]}/files", {"file_id": file})
    if place.spec.kind is Kind.SKILL and route.action == "skills.versions.delete":
        made = skill(caller)
        caller.ok("POST", f"/skills/{made}/versions", SKILL)
        return made
    if place.spec.kind is Kind.FINE_TUNING_JOB and route.path.endswith(("/cancel", "/pause", "/resume")):
        return job(caller, file)
    return None


def another_root(kind: Kind, caller: Caller) -> str:
    """A new root of the kind, in which there is nothing."""
    return {Kind.VECTOR_STORE: store, Kind.CONTAINER: container}[kind](caller)


def demanded(route: Route, kinds: dict[Kind, str]) -> dict[str, Any]:
    """What a route demands beside the place that is filled."""
    file = kinds.get(Kind.FILE, "")
    return {
        "batches.create": RUN,
        "vector_stores.search": {"query": "coats"},
        "vector_stores.files.create": {"file_id": file},
        "vector_stores.files.update": {"attributes": {}},
        "vector_stores.file_batches.create": {"file_ids": [file]},
        "containers.create": {"name": "box"},
        "containers.files.create": {"file_id": file},
        "skills.create": {"files": b"x"},
        "skills.update": {"default_version": "1"},
        "skills.versions.create": {"files": b"x"},
        "fine_tuning.jobs.create": {"model": BASE, "training_file": file},
    }.get(route.action, {})
