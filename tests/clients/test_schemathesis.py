"""Schemathesis (https://schemathesis.readthedocs.io) reads the document that the gateway serves, and asks for everything in it
as three people: with what the document allows and with what it does not, with and without a credential, in the order in
which things are made, shared, deleted and asked for again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients.house import House

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "ignored_auth",
    "object_level_authorization",
)

LIVES = ("use_after_free", "ensure_resource_availability", "response_schema_conformance")
"""Checks for what is sent in earnest: of nonsense, the stand-in shows again what it was sent."""

HELLO = [{"role": "user", "content": "hello"}]
FILE = {"type": "string", "contentMediaType": "application/octet-stream"}

MADE: Mapping[str, Any] = {
    "responses.create": {"model": "gpt-5", "input": "hello"},
    "conversations.create": {"items": HELLO},
    "conversations.update": {"metadata": {"k": "v"}},
    "conversations.items.create": {"items": HELLO},
    "chat.completions.create": {"model": "gpt-5", "messages": HELLO, "store": True},
    "chat.completions.update": {"metadata": {"k": "v"}},
    "vector_stores.create": {"name": "coats"},
    "vector_stores.update": {"name": "hats"},
    "containers.create": {"name": "coats"},
}
"""Bodies by which an object is made or changed. The table tells IDs from everything else, and not which models there are."""

FEWEST = 40
"""Requests of a run, however busy the machine is; a quiet one makes ten times as many."""


FEWEST_KINDS = 3
"""Of six, that are made, read and deleted, however busy the machine is."""


def ask(house: House, folder: Path, document: Any, *options: str, checks: tuple[str, ...] = CHECKS) -> tuple[Any, str]:
    """The report of a run, and what it printed."""
    people = [
        {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {key}"}]}
        for name, key in house.keys.items()
    ]
    (folder / "people.json").write_text(json.dumps({"auth": people}))
    (folder / "schemathesis.toml").write_text(
        f'[auth.wfc]\npath = "people.json"\npeers = {json.dumps(list(house.keys))}\n'
    )
    (folder / "openapi.json").write_text(json.dumps(document))
    command = [
        *(str(Path(sys.executable).with_name("st")), "--config-file", "schemathesis.toml", "run", "openapi.json"),
        *("--url", house.url, "--checks", ",".join(checks), "--continue-on-failure", "--no-color", "--no-shrink"),
        *("--generation-database", "none", "--report", "json", "--report-json-path", "report.json", *options),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=110, check=False)
    assert (folder / "report.json").exists(), done.stdout + done.stderr
    return json.loads((folder / "report.json").read_text()), done.stdout


@pytest.fixture(scope="module")
def document(patient_house: House) -> Any:
    url = patient_house.url.removesuffix("/v1") + "/openapi.json"
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
        return json.load(answer)


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def lives(document: Any) -> Any:
    """The part of the document in which objects are made, read, changed, listed and deleted: with bodies that the service takes,
    and without what names further objects, which nobody can guess."""
    kept: dict[str, Any] = {}
    for path, method, operation in operations(document):
        body = MADE.get(operation["operationId"])
        if body is not None:
            operation["requestBody"] = {"content": {"application/json": {"schema": {"const": body}}}, "required": True}
        elif operation["operationId"] == "files.create":
            parts = {"purpose": {"const": "user_data"}, "file": FILE}
            form = {"type": "object", "required": [*parts], "properties": parts, "additionalProperties": False}
            operation["requestBody"]["content"] = {"multipart/form-data": {"schema": form}}
        elif "requestBody" in operation:
            continue
        operation["parameters"] = [one for one in operation.get("parameters", ()) if one["in"] == "path"]
        kept.setdefault(path, {})[method] = operation
    alive = {**document, "paths": kept}
    known = {operation["operationId"] for _, _, operation in operations(alive)}
    for _, _, operation in operations(alive):
        links = operation["responses"]["200"].get("links", {})
        operation["responses"]["200"]["links"] = {name: link for name, link in links.items() if name in known}
    return alive


def check(house: House, report: Any, printed: str) -> None:
    assert not report["failures"], printed
    assert not report["errors"], printed
    assert report["test_cases"]["generated"] >= FEWEST, printed
    house.check_clean(printed)


def test_nothing_that_the_document_allows_or_forbids_breaks_the_gateway_or_passes_it_without_a_key(
    patient_house: House, document: Any, tmp_path: Path
) -> None:
    report, printed = ask(
        patient_house, tmp_path, document, "--phases", "fuzzing", "--max-examples", "5", "--max-time", "22"
    )
    check(patient_house, report, printed)
    assert report["operations"]["total"] == len(list(operations(document)))
    assert report["operations"]["tested"] > report["operations"]["total"] / 5, "the time is short for a busy machine"


def test_what_one_makes_nobody_else_gets_and_nobody_at_all_once_it_is_deleted(
    patient_house: House, document: Any, tmp_path: Path
) -> None:
    before = len(patient_house.received())
    options = ("--phases", "stateful", "--max-time", "18")
    report, printed = ask(patient_house, tmp_path, lives(document), *options, checks=CHECKS + LIVES)
    check(patient_house, report, printed)
    received = patient_house.received()[before:]
    reached = {(one["method"], one["path"].split("/")[2]) for one in received if one["status"] == 200}
    for method in ("POST", "GET", "DELETE"):
        assert len({kind for how, kind in reached if how == method}) >= FEWEST_KINDS, printed
