"""The document of the API is there for everybody, and costs nothing but its bytes."""

from __future__ import annotations

import pytest

import gateway
from tests.pipeline.desk import Desk


async def test_the_document_is_served_without_a_credential(at: Desk) -> None:
    reply = await at.http.get(f"http://127.0.0.1:{at.port}/openapi.json")
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.headers["x-request-id"].startswith("req_")
    document = reply.json()
    assert document["info"]["version"] == gateway.__version__
    assert document["paths"]["/responses"]["post"]["operationId"] == "responses.create"
    assert not at.upstream


async def test_it_is_read_and_nothing_else(at: Desk) -> None:
    url = f"http://127.0.0.1:{at.port}/openapi.json"
    head = await at.http.head(url)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len((await at.http.get(f"{url}?x=y")).content)
    posted = await at.http.post(url, json={})
    assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/openapi.yaml", "/openapi", "/docs", "/v1/openapi.json"])
async def test_nothing_else_is_served_without_one(at: Desk, path: str) -> None:
    assert (await at.http.get(f"http://127.0.0.1:{at.port}{path}")).status_code == 401
