"""The gateway beside the frameworks under test: another process, in another environment, reached by real sockets alone."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from tests.clients.house import House

ROOT = Path(__file__).resolve().parents[2]

for _name in list(os.environ):
    if _name.startswith("OPENAI_"):
        del os.environ[_name]


@contextlib.contextmanager
def running_house(*options: str) -> Iterator[House]:
    command = [os.environ["COATCHECK_PYTHON"], "-m", "tests.clients.serve", *options]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            line = process.stdout.readline()
            if not line:
                pytest.fail("the gateway did not start; its error is above")
            yield House(**json.loads(line))
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="session")
def house() -> Iterator[House]:
    with running_house() as running:
        yield running


@pytest.fixture(scope="module")
def patient_house() -> Iterator[House]:
    """Another one, which lets everybody err as often as they like."""
    with running_house("--patient") as running:
        yield running


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio."""
    return "asyncio"


@dataclass(slots=True)
class People:
    """A client of the official SDK for each person."""

    house: House
    _open: AsyncExitStack

    async def client(self, name: str) -> AsyncOpenAI:
        made = AsyncOpenAI(api_key=self.house.keys[name], base_url=self.house.url, max_retries=0)
        return await self._open.enter_async_context(made)


@pytest.fixture
async def people(house: House, anyio_backend: str) -> AsyncIterator[People]:
    async with AsyncExitStack() as stack:
        yield People(house, stack)


@pytest.fixture
async def alice(people: People) -> AsyncOpenAI:
    return await people.client("alice")


@pytest.fixture
async def bob(people: People) -> AsyncOpenAI:
    """Of another tenant than Alice."""
    return await people.client("bob")


@pytest.fixture
async def carol(people: People) -> AsyncOpenAI:
    """Of Alice's tenant, but somebody else."""
    return await people.client("carol")
