"""What is measured: direct, nginx, LiteLLM and the gateway, each started here on a free port of 127.0.0.1."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from tests.bench import nginx
from tests.bench.answers import MODEL
from tests.bench.load import Aim
from tests.bench.processes import ROOT, Server, Unusable, environment, started
from tests.redis_fixture import RedisServer, free_port

LITELLM: Final = ROOT / ".venv-bench" / "bin" / "litellm"
_ROOT_KEY: Final = base64.b64encode(bytes(range(32))).decode()
START_TIMEOUT_S: Final = 30.0
LITELLM_START_TIMEOUT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    aim: Aim
    server: Server | None = None
    """None: the upstream itself."""
    redis: RedisServer | None = None


def missing() -> list[str]:
    """Programs without which nothing can be measured."""
    return [f"{name} is not on PATH (Debian: {name})" for name in ("nginx", "wrk") if shutil.which(name) is None]


@contextmanager
def json_upstream(folder: Path) -> Iterator[Server]:
    port = free_port()
    with _nginx("upstream", nginx.upstream(port, folder), port, folder) as server:
        yield server


@contextmanager
def stream_upstream(folder: Path) -> Iterator[Server]:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.stream_server", str(port)]
    with started("stream upstream", command, port, folder) as server:
        server.wait(START_TIMEOUT_S)
        yield server


@contextmanager
def nginx_proxy(upstream: Server, folder: Path) -> Iterator[Target]:
    port = free_port()
    with _nginx("nginx", nginx.proxy(port, upstream.port, folder), port, folder) as server:
        yield Target("nginx", Aim(port), server)


@contextmanager
def _nginx(name: str, config: Path, port: int, folder: Path) -> Iterator[Server]:
    command = ["nginx", "-p", str(folder), "-c", str(config)]
    with started(name, command, port, folder) as server:
        server.wait(START_TIMEOUT_S)
        yield server


@contextmanager
def litellm(upstream: Server, folder: Path) -> Iterator[Target]:
    """One worker, a master key, no database. Raises Unusable where it is not installed or does not start."""
    if not LITELLM.exists():
        raise Unusable("LiteLLM is not installed (`make bench-setup` does it)")
    port, config = free_port(), folder / "litellm.yaml"
    parameters = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{upstream.port}/v1", "api_key": "sk-none"}
    settings = {  # JSON is YAML
        "model_list": [{"model_name": MODEL, "litellm_params": parameters}],
        "litellm_settings": {"telemetry": False},
        "general_settings": {"master_key": "sk-bench"},
    }
    config.write_text(json.dumps(settings))
    # It must not fetch its price list: nothing here leaves the machine.
    env = environment(LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_LOG="ERROR", DISABLE_ADMIN_UI="True")
    command = [str(LITELLM), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    with started("litellm", command, port, folder, env) as server:
        server.wait(LITELLM_START_TIMEOUT_S)
        target = Target("litellm", Aim(port, key="sk-bench"), server)
        first_answer(target.aim, LITELLM_START_TIMEOUT_S)
        yield target


@dataclass(frozen=True, slots=True)
class Gateway:
    """A Redis server with a tenant in it, and how to start gateways on both."""

    redis: RedisServer
    upstream: Server
    folder: Path
    aim: Aim
    """Key and IDs of the tenant's user; the port is each gateway's own."""

    @contextmanager
    def start(self) -> Iterator[Target]:
        """A gateway with everything on. It is not waited for."""
        port = free_port()
        command = [sys.executable, "-m", "gateway", "serve", "--port", str(port)]
        with started("coatcheck", command, port, self.folder, _settings(self)) as server:
            yield Target("coatcheck", replace(self.aim, port=port), server, self.redis)

    @contextmanager
    def serving(self) -> Iterator[Target]:
        with self.start() as target:
            first_answer(target.aim, START_TIMEOUT_S)
            yield target


def _settings(gateway: Gateway) -> dict[str, str]:
    return environment(
        COATCHECK_ROOT_KEY=_ROOT_KEY,
        COATCHECK_DATA=str(gateway.folder / "data"),
        COATCHECK_METRICS_PORT="0",
        REDIS_URL=gateway.redis.url,
        OPENAI_API_KEY="sk-none",
        OPENAI_BASE_URL=f"http://127.0.0.1:{gateway.upstream.port}/v1",
    )


@contextmanager
def gateway(upstream: Server, folder: Path) -> Iterator[Gateway]:
    """Redis with one tenant, one user with a key, and a response of theirs that requests can name."""
    own = folder / f"gateway-{upstream.port}-{free_port()}"
    (own / "data").mkdir(parents=True, mode=0o700)
    with RedisServer(tcp=True) as redis:
        fresh = Gateway(redis, upstream, own, Aim(0))
        _command(fresh, "tenant", "create", "bench")
        key = _command(fresh, "key", "create", "bench", "--subject", "alice")
        with fresh.start() as target:
            made = first_answer(Aim(target.aim.port, key), START_TIMEOUT_S, named=False)
        item = next(item["id"] for item in made["output"] if item["type"] == "message")
        yield replace(fresh, aim=Aim(0, key, made["id"], item))


def _command(gateway: Gateway, *arguments: str) -> str:
    """What an operator's command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *arguments],
        cwd=gateway.folder, env=_settings(gateway), capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise Unusable(f"`gateway {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout.strip()


def first_answer(aim: Aim, timeout_s: float, *, named: bool = True) -> Any:
    """The first JSON answer with status 200, asked for again and again from the start on. Raises Unusable."""
    body = aim.body() if named else json.dumps({"model": MODEL, "input": "hello"}).encode()
    headers = {"authorization": f"Bearer {aim.key}", "content-type": "application/json"}
    seen = "nothing listens"
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        connection = HTTPConnection("127.0.0.1", aim.port, timeout=timeout_s)
        try:
            connection.request("POST", "/v1/responses", body, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status == 200:
                return json.loads(content)
            seen = f"status {answer.status}: {content[:200].decode(errors='replace')}"
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.005)
    raise Unusable(f"no answer in {timeout_s:.0f} s ({seen})")
