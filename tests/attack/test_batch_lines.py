"""The two-tenant matrix inside a batch's file: whatever a request may not name, a line that stands for it may not either."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from gateway.surfaces.batches import ENDPOINTS
from gateway.surfaces.route import Route
from tests.attack.belongings import MODEL, Belongings, owned
from tests.attack.house import Caller
from tests.attack.matrix import ATTACKS, Town, droppable, missing_of, opens, request, town
from tests.attack.places import places, reach

__all__ = ["town"]

NAMING = {url: route for url, route in ENDPOINTS.items() if any(place.where == "body" for place in places(route))}
BOUNDARY = "a-boundary"


def upload(caller: Caller, *lines: Any) -> tuple[int, dict[str, Any]]:
    """Status and body of the answer to a file of these lines."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    form = (
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n'
        'content-disposition: form-data; name="file"; filename="lines.jsonl"\r\n\r\n'
    ).encode()
    headers = {"authorization": f"Bearer {caller.key}", "content-type": f"multipart/form-data; boundary={BOUNDARY}"}
    connection = http.client.HTTPConnection("127.0.0.1", caller.house.port, timeout=20)
    try:
        connection.request("POST", "/v1/files", form + data + f"\r\n--{BOUNDARY}--\r\n".encode(), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def line(url: str, body: Any) -> dict[str, Any]:
    return {"custom_id": "c", "method": "POST", "url": url, "body": body}


def files(town: Town) -> dict[str, bytes]:
    """What the service holds."""
    return {raw: one.data for raw, one in town.house.stand_in.provider.files.items() if one.body["purpose"] == "batch"}


def _body(place: Any, own: Belongings, *leaves: Any) -> Any:
    body = request(place, own, *leaves)[2]
    return {name: member for name, member in body.items() if name not in ("stream", "background")}


@pytest.mark.parametrize("url", NAMING)
def test_ones_own_id_in_a_line_reaches_the_service_raw(town: Town, url: str) -> None:
    wrong = []
    for place in places(NAMING[url]):
        if place.where != "body" or not opens(place):
            continue
        own = owned(place, town.alice)
        before = files(town)
        status, told = upload(town.alice.caller, line(url, _body(place, town.alice, own)))
        new = [data for raw, data in files(town).items() if raw not in before]
        if status != 200 or len(new) != 1:
            wrong.append(f"{place}: {status} {told}")
        elif town.raw(own) not in reach(json.loads(new[0])["body"], place.steps):
            wrong.append(f"{place}: the service read {new[0]!r}")
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("url", NAMING)
def test_what_is_not_the_callers_own_refuses_the_file_and_names_the_line(town: Town, url: str, attack: str) -> None:
    wrong = []
    route: Route = NAMING[url]
    before = files(town)
    for place in places(route):
        if place.where != "body" or droppable(place):
            continue
        shape = missing_of(place)
        for sender, leaves in ATTACKS[attack](town, place):
            harmless = line(url, {"model": MODEL, "input": "hello", "prompt": "hello"})
            status, told = upload(sender.caller, harmless, line(url, _body(place, sender, *leaves)))
            error = told.get("error", {})
            expected = f"Line 2: {shape.message.partition('{quoted}')[0]}"
            if (status, error.get("param"), error.get("code")) != (shape.status, shape.param, shape.code):
                wrong.append(f"{place}: {leaves} reads {status} {told}")
            elif not error["message"].startswith(expected):
                wrong.append(f"{place}: {leaves} reads {error['message']}")
    assert not wrong, "\n".join(wrong[:20])
    assert files(town) == before


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_inline_items_id_that_does_not_open_never_reaches_the_service_in_a_line(town: Town, attack: str) -> None:
    url = "/v1/responses"
    wrong = []
    for place in filter(droppable, places(NAMING[url])):
        for sender, leaves in ATTACKS[attack](town, place):
            before = files(town)
            status, told = upload(sender.caller, line(url, _body(place, sender, *leaves)))
            new = [data for raw, data in files(town).items() if raw not in before]
            said = reach(json.loads(new[0])["body"], place.steps) if new else []
            if status != 200 or any(leaf in said for leaf in leaves):
                wrong.append(f"{place}: {leaves} reads {status} {told}, and the service {said}")
    assert not wrong, "\n".join(wrong[:20])
