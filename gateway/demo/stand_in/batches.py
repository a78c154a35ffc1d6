"""The endpoints under /v1/batches. A batch runs each line of its file at the endpoint that it was made for, one read after it was
seen in progress, and writes what came of them into two files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

from gateway.demo.stand_in import chat, completions, embeddings, failures, files, images, moderations, responses
from gateway.demo.stand_in.answers import Answer, JsonAnswer, Request, page, script_in
from gateway.demo.stand_in.canary import Canary
from gateway.demo.stand_in.failures import Failure
from gateway.demo.stand_in.inputs import check_tokens
from gateway.demo.stand_in.outputs import Json
from gateway.demo.stand_in.provider import Provider

_ENDPOINTS: Final[dict[str, Callable[[Provider, Request], Answer]]] = {
    "/v1/responses": responses.create,
    "/v1/chat/completions": chat.create,
    "/v1/completions": completions.create,
    "/v1/embeddings": embeddings.create,
    "/v1/moderations": moderations.create,
    "/v1/images/generations": images.generate,
    "/v1/images/edits": images.edit,
}
_NEXT: Final = {"validating": "in_progress", "in_progress": "completed", "cancelling": "cancelled"}


def create(provider: Provider, request: Request) -> Answer:
    """`POST /v1/batches`."""
    body = request.json()
    for name in ("input_file_id", "endpoint", "completion_window"):
        if not isinstance(body.get(name), str):
            raise failures.missing(name)
    check_tokens(body)
    if body["endpoint"] not in _ENDPOINTS:
        raise failures.wrong_type("endpoint", "one of the supported endpoints")
    given = provider.files.get(body["input_file_id"])
    if given is None:
        raise failures.file_not_found(body["input_file_id"])
    if given.body["purpose"] != "batch":
        raise Failure(400, f"File {given.body['id']} has the purpose {given.body['purpose']}.", param="input_file_id")
    raw, now = provider.ids.new("batch_", place="batch.id"), int(time.time())
    made: Json = {
        "id": raw,
        "object": "batch",
        "endpoint": body["endpoint"],
        "model": None,
        "errors": None,
        "input_file_id": given.body["id"],
        "completion_window": body["completion_window"],
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": now,
        "expires_at": now + 86_400,
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "metadata": body.get("metadata"),
    }
    provider.batches[raw] = made
    return JsonAnswer(dict(made))


def retrieve(provider: Provider, request: Request) -> Answer:
    """`GET /v1/batches/{batch_id}`: each time one step further."""
    found = _found(provider, request.path_ids[0])
    before = found["status"]
    found["status"] = _NEXT.get(before, before)
    if found["status"] == "in_progress" and (mistake := _mistake(provider, found)):
        found["status"] = "failed"
        found["errors"] = {"object": "list", "data": [mistake]}
    if found["status"] == "completed" and found["request_counts"]["total"] == 0:
        _run(provider, found)
    if found["status"] != before and found["status"] not in _NEXT:
        provider.announce(f"batch.{found['status']}", found["id"])
    return JsonAnswer(dict(found))


def list_batches(provider: Provider, request: Request) -> Answer:
    """`GET /v1/batches`: everybody's."""
    return JsonAnswer(page(list(provider.batches.values()), request))


def cancel(provider: Provider, request: Request) -> Answer:
    """`POST /v1/batches/{batch_id}/cancel`."""
    found = _found(provider, request.path_ids[0])
    if found["status"] not in _NEXT:
        raise Failure(409, f"Cannot cancel batch {found['id']} with the status {found['status']}.")
    found["status"] = "cancelling"
    return JsonAnswer(dict(found))


def _found(provider: Provider, raw: str) -> Json:
    found = provider.batches.get(raw)
    if found is None:
        raise Failure(404, f"No batch found with id '{raw}'.", param="id")
    return found


def _lines(provider: Provider, batch: Json) -> list[bytes]:
    given = provider.files.get(batch["input_file_id"])
    return given.data.splitlines() if given else []


def _mistake(provider: Provider, batch: Json) -> Json | None:
    """What is wrong with the file as a whole."""
    seen = set()
    for number, line in enumerate(_lines(provider, batch), start=1):
        custom_id = json.loads(line).get("custom_id")
        if custom_id in seen:
            text = f"The custom_id '{custom_id}' of a request in {batch['input_file_id']} was used before."
            return {"code": "duplicate_custom_id", "line": number, "message": text, "param": "custom_id"}
        seen.add(custom_id)
    return None


def _run(provider: Provider, batch: Json) -> None:
    done: list[bytes] = []
    failed: list[bytes] = []
    for line in _lines(provider, batch):
        status, body = _answer(provider, batch["endpoint"], json.loads(line)["body"])
        result = {
            "id": provider.ids.new("batch_req_", place="batch line.id"),
            "custom_id": json.loads(line)["custom_id"],
            "response": {
                "status_code": status,
                "request_id": provider.ids.new("req_", place="batch line.request_id"),
                "body": body,
            },
            "error": None,
        }
        (done if status == 200 else failed).append(_written(provider, result))
    batch["request_counts"] = {"total": len(done) + len(failed), "completed": len(done), "failed": len(failed)}
    for name, lines in (("output", done), ("error", failed)):
        if lines:
            kept = files.keep(provider, f"{batch['id']}_{name}.jsonl", b"".join(lines), "batch_output")
            batch[f"{name}_file_id"] = kept.body["id"]


def _answer(provider: Provider, endpoint: str, body: Any) -> tuple[int, Any]:
    """Status and body of one line's answer. It runs at the batch's endpoint, whatever its own URL says."""
    sent = json.dumps(body).encode()
    try:
        answer = _ENDPOINTS[endpoint](provider, Request((), {}, sent, script_in(sent)))
    except Failure as failure:
        return failure.status, failure.body()
    if not isinstance(answer, JsonAnswer):
        return 400, Failure(400, "A batch does not stream.").body()
    answer.before_send()
    return answer.status, answer.value


def _written(provider: Provider, result: Json) -> bytes:
    value = Canary(provider.ids).plant(result) if provider.options.canary else result
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
