"""The endpoints under /v1/fine_tuning/jobs. A job has succeeded when it was asked about often enough."""

from __future__ import annotations

import time

from gateway.demo.stand_in import failures, files
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, page
from gateway.demo.stand_in.inputs import check_model, check_tokens
from gateway.demo.stand_in.provider import Provider, StoredJob
from gateway.demo.stand_in.raw_ids import BASE62

_ENDED = frozenset({"succeeded", "failed", "cancelled"})


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/fine_tuning/jobs`."""
    body = request.json()
    check_model(provider, body)
    check_tokens(body)
    if "training_file" not in body:
        raise failures.missing("training_file")
    for name in ("training_file", "validation_file"):
        if body.get(name) is not None:
            files.found(provider, body[name])
    raw = provider.ids.new("ftjob-", place="fine_tuning.job.id")
    said = {name: body.get(name) for name in ("model", "training_file", "validation_file", "metadata", "integrations")}
    stored = StoredJob(
        {
            "id": raw,
            "object": "fine_tuning.job",
            "created_at": int(time.time()),
            "error": None,
            "fine_tuned_model": None,
            "finished_at": None,
            "hyperparameters": {"n_epochs": 3, "batch_size": "auto", "learning_rate_multiplier": 1.0},
            "organization_id": provider.organization,
            "result_files": [],
            "seed": body.get("seed") or 7,
            "status": "validating_files",
            "trained_tokens": None,
            "user_provided_suffix": body.get("suffix"),
            "method": body.get("method") or {"type": "supervised"},
            **said,
        }
    )
    _tell(provider, stored, f"Created fine-tuning job: {raw}")
    _tell(provider, stored, f"Validating training file: {body['training_file']}")
    provider.jobs[raw] = stored
    return JsonAnswer(stored.body)


def list_jobs(provider: Provider, request: Request) -> Answer:
    """`GET /v1/fine_tuning/jobs`: everybody's."""
    return JsonAnswer(page([one.body for one in provider.jobs.values()], request))


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/fine_tuning/jobs/{fine_tuning_job_id}`: it goes on each time."""
    found = _found(provider, request)
    found.polls += 1
    if found.body["status"] not in (*_ENDED, "paused"):
        found.body["status"] = "running"
        if found.polls > provider.options.background_polls:
            _succeed(provider, found)
    return JsonAnswer(found.body)


def cancel(provider: Provider, request: Request) -> Answer:
    """`POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/cancel`."""
    return _told(provider, request, "cancelled")


def pause(provider: Provider, request: Request) -> Answer:
    """`POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/pause`."""
    return _told(provider, request, "paused")


def resume(provider: Provider, request: Request) -> Answer:
    """`POST /v1/fine_tuning/jobs/{fine_tuning_job_id}/resume`."""
    return _told(provider, request, "queued")


def events(provider: Provider, request: Request) -> Answer:
    """`GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/events`."""
    return JsonAnswer(page(_found(provider, request).events, request))


def checkpoints(provider: Provider, request: Request) -> Answer:
    """`GET /v1/fine_tuning/jobs/{fine_tuning_job_id}/checkpoints`."""
    return JsonAnswer(page(_found(provider, request).checkpoints, request))


def _told(provider: Provider, request: Request, status: str) -> Answer:
    found = _found(provider, request)
    if found.body["status"] in _ENDED:
        raise failures.Failure(400, f"Job {found.body['id']} has ended.", code="invalid_fine_tuning_job")
    found.body["status"] = status
    if status in _ENDED:
        provider.announce(f"fine_tuning.job.{status}", found.body["id"])
    return JsonAnswer(found.body)


def _found(provider: Provider, request: Request) -> StoredJob:
    raw = request.path_ids[0]
    if raw not in provider.jobs:
        text = f"Could not find fine tune: {raw}"
        raise failures.Failure(404, text, param="fine_tune_id", code="fine_tune_not_found")
    return provider.jobs[raw]


def _succeed(provider: Provider, stored: StoredJob) -> None:
    base = str(stored.body["model"]).removeprefix("ft:").partition(":")[0]
    suffix = stored.body["user_provided_suffix"] or ""
    name = f"ft:{base}:{provider.organization}:{suffix}:{provider.ids.text(BASE62, 8)}"
    for step, made in ((100, f"{name}:ckpt-step-100"), (200, name)):
        provider.models.append(provider.ids.note(made, "model"))
        stored.checkpoints.append(
            {
                "id": provider.ids.new("ftckpt_", place="fine_tuning.job.checkpoint.id"),
                "object": "fine_tuning.job.checkpoint",
                "created_at": int(time.time()),
                "fine_tuned_model_checkpoint": made,
                "fine_tuning_job_id": stored.body["id"],
                "metrics": {"step": step, "train_loss": 0.25},
                "step_number": step,
            }
        )
    results = files.keep(provider, "step_metrics.csv", b"step,train_loss\n200,0.25\n", "fine-tune-results")
    stored.body |= {
        "status": "succeeded",
        "fine_tuned_model": name,
        "finished_at": int(time.time()),
        "result_files": [results.body["id"]],
        "trained_tokens": 7000,
    }
    _tell(provider, stored, f"New fine-tuned model created: {name}")
    provider.announce("fine_tuning.job.succeeded", stored.body["id"])


def _tell(provider: Provider, stored: StoredJob, message: str) -> None:
    stored.events.append(
        {
            "id": provider.ids.new("ftevent-", place="fine_tuning.job.event.id"),
            "object": "fine_tuning.job.event",
            "created_at": int(time.time()),
            "level": "info",
            "message": message,
            "data": {"job_id": stored.body["id"]},
            "type": "message",
        }
    )
