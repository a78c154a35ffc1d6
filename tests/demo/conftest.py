"""The stand-in with its default options, one for a module and fresh for each test, and how it is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from gateway.demo.stand_in.server import Running, running
from tests.stand_in_fixture import stand_in

__all__ = ["stand_in"]

MODEL = "gpt-5"


@pytest.fixture(scope="module")
def _server() -> Iterator[Running]:
    with running() as started:
        yield started


@pytest.fixture
def server(_server: Running) -> Running:
    _server.provider.reset()
    return _server


@pytest.fixture
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.api_url, api_key="sk-test", max_retries=0) as made:
        yield made


@pytest.fixture
def http(server: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, headers={"authorization": "Bearer sk-test"}) as made:
        yield made


def post(http: httpx2.Client, **body: Any) -> httpx2.Response:
    return http.post("/v1/responses", json={"model": MODEL, **body})


def stream_bytes(http: httpx2.Client, prompt: str, **body: Any) -> bytes:
    return post(http, input=prompt, stream=True, **body).content


def events_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[5:]) for line in data.decode().splitlines() if line.startswith("data:")]
