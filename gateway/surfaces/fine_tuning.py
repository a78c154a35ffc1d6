"""Fine-tuning jobs, their events and checkpoints (https://platform.openai.com/docs/api-reference/fine-tuning).

What a job makes, the model, its checkpoints and the files with its results, belongs to the job's owner. The service says the
model's name here first; from then on its owner can use it wherever a model is named.
"""

from __future__ import annotations

from typing import Final

from gateway.names import Kind
from gateway.surfaces import models
from gateway.surfaces.route import Body, Listing, Route, cursor, page_of
from gateway.surfaces.spec import PLAIN, REPLAYED, USER, Each, Id, Obj, Role, Spec, Typed

_ID: Final = Id(Kind.FINE_TUNING_JOB, Role.REF)
_FILE: Final = Id(Kind.FILE, Role.REF)

_BY_MODEL: Final = Obj({"model": models.NAMED, "name": USER, "input": USER, "labels": USER, "passing_labels": USER})
_GRADERS: Final[dict[str, Obj]] = {
    "string_check": Obj({"name": USER, "input": USER, "reference": USER, "operation": PLAIN}),
    "text_similarity": Obj({"name": USER, "input": USER, "reference": USER, "evaluation_metric": PLAIN}),
    "python": Obj({"name": USER, "source": USER, "image_tag": PLAIN}),
    "score_model": _BY_MODEL,
    "label_model": _BY_MODEL,
}
_ALONE: Final = Typed(_GRADERS, other=Obj({}))
GRADER: Final = Typed(
    {**_GRADERS, "multi": Obj({"name": USER, "graders": _ALONE, "calculate_output": USER})}, other=Obj({})
)

_SAID: Final[dict[str, Spec]] = {
    "model": models.NAMED,
    "training_file": _FILE,
    "validation_file": _FILE,
    "metadata": USER,
    "method": Obj({"type": PLAIN, "reinforcement": Obj({"grader": GRADER})}),
    "integrations": Each(Obj({"type": PLAIN, "wandb": USER})),
}
"""What a request says and an answer repeats."""


def _job(name: Id) -> Obj:
    return Obj(
        {
            **_SAID,
            "id": name,
            "object": PLAIN,
            "fine_tuned_model": models.MADE,
            "result_files": Each(Id(Kind.FILE, Role.MADE)),
            "user_provided_suffix": USER,
        }
    )


_EVENT: Final = Obj(
    # It says the names of the job, its files and its model in words.
    {"id": Id(Kind.FINE_TUNING_EVENT, Role.OWN), "object": PLAIN, "message": REPLAYED, "level": PLAIN, "type": PLAIN}
)
_CHECKPOINT: Final = Obj(
    {
        "id": Id(Kind.CHECKPOINT, Role.OWN),
        "object": PLAIN,
        "fine_tuned_model_checkpoint": models.MADE,
        "fine_tuning_job_id": _ID,
    }
)

_ONE: Final = {"fine_tuning_job_id": _ID}


def _told(action: str, does: str) -> Route:
    """A job is told what to do."""
    path = f"/fine_tuning/jobs/{{fine_tuning_job_id}}/{action}"
    return Route(
        f"fine_tuning.jobs.{action}", "POST", path, does, _job(_ID), Body.OPTIONAL_JSON, Obj({}), path_ids=_ONE
    )


ROUTES: Final = (
    Route(
        "fine_tuning.jobs.create",
        "POST",
        "/fine_tuning/jobs",
        "starts to fine-tune a model",
        _job(Id(Kind.FINE_TUNING_JOB, Role.OWN)),
        Body.JSON,
        Obj({**_SAID, "suffix": USER}),
        creates=Kind.FINE_TUNING_JOB,
        idempotent=True,
        refetch="fine_tuning.jobs.retrieve",
    ),
    Route(
        "fine_tuning.jobs.list",
        "GET",
        "/fine_tuning/jobs",
        "lists one's fine-tuning jobs",
        page_of(_job(_ID), Kind.FINE_TUNING_JOB),
        query={"after": cursor(Kind.FINE_TUNING_JOB), "limit": PLAIN, "metadata": USER},
        lists=Listing(Kind.FINE_TUNING_JOB, "fine_tuning.jobs.retrieve", filters=("metadata",)),
    ),
    Route(
        "fine_tuning.jobs.retrieve",
        "GET",
        "/fine_tuning/jobs/{fine_tuning_job_id}",
        "retrieves a fine-tuning job",
        _job(_ID),
        path_ids=_ONE,
    ),
    _told("cancel", "cancels a fine-tuning job"),
    _told("pause", "pauses a fine-tuning job"),
    _told("resume", "resumes a fine-tuning job"),
    Route(
        "fine_tuning.jobs.events",
        "GET",
        "/fine_tuning/jobs/{fine_tuning_job_id}/events",
        "lists what has happened to a fine-tuning job",
        page_of(_EVENT, Kind.FINE_TUNING_EVENT),
        path_ids=_ONE,
        query={"after": Id(Kind.FINE_TUNING_EVENT, Role.REF), "limit": PLAIN},
    ),
    Route(
        "fine_tuning.jobs.checkpoints",
        "GET",
        "/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints",
        "lists the checkpoints of a fine-tuning job",
        page_of(_CHECKPOINT, Kind.CHECKPOINT),
        path_ids=_ONE,
        query={"after": Id(Kind.CHECKPOINT, Role.REF), "limit": PLAIN},
    ),
)
