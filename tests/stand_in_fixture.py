"""The stand-in provider for tests: in a thread, with its own event loop, on a free port.

`from tests.stand_in_fixture import stand_in` in a test module or a conftest gives the fixture; for other options,
`with running(Options(canary=True)) as provider_server:`. Both give a `Running`: `.url`, `.api_url`, `.provider`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.demo.stand_in.provider import Options
from gateway.demo.stand_in.server import Running, running

__all__ = ["Options", "Running", "running", "stand_in"]


@pytest.fixture
def stand_in() -> Iterator[Running]:
    """A fresh stand-in with default options."""
    with running() as server:
        yield server
