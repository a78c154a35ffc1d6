"""What holds for every test: no network but loopback, no settings from outside, nothing blocking on the event loop.

Random order comes from pytest-randomly (`-p "no:randomly"` for the written order), the list of skips from `-ra`.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import sys
from collections.abc import Iterator

import hypothesis
import pytest
from blockbuster import blockbuster_ctx

for _name in list(os.environ):
    if _name.startswith(("COATCHECK_", "OPENAI_")) or _name == "REDIS_URL":
        del os.environ[_name]

# Programs that a test starts shall end by it, also where the whole run is in the background and a shell had it ignored.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("coatcheck", deadline=None, print_blob=True)
hypothesis.settings.load_profile("coatcheck")


def _refuse_the_outer_network(event: str, args: tuple[object, ...]) -> None:
    """An audit hook (https://docs.python.org/3/library/audit_events.html): connects to loopback and Unix sockets only."""
    if event == "socket.connect" and isinstance(address := args[1], tuple):
        host = str(address[0])
        try:
            local = ipaddress.ip_address(host).is_loopback
        except ValueError:
            local = host == "localhost"
        if not local:
            raise PermissionError(f"a test tried to connect to {host}")


sys.addaudithook(_refuse_the_outer_network)


@pytest.fixture(autouse=True)
def _nothing_blocks_the_event_loop() -> Iterator[None]:
    """A blocking call on the loop, made by the gateway's own code, raises `blockbuster.BlockingError` in that code."""
    with blockbuster_ctx("gateway"):
        yield
