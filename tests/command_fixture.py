"""`python -m gateway …` as a person runs it: a clean environment, a folder of its own, and where asked a process of its own.

`shell` gives a `Shell` on the run's Redis; `embedded_shell` one that finds a redis-server on its PATH instead.
"""

from __future__ import annotations

import base64
import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gateway.__main__ import main
from tests.patience import PATIENT
from tests.redis_fixture import RedisServer, server_binary

ROOT = Path(__file__).parent.parent
ROOT_KEY = base64.b64encode(bytes(range(100, 132))).decode()
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Shell:
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def using(self, **env: str) -> Shell:
        return replace(self, env=self.env | env)

    def run(self, *arguments: str) -> Done:
        """Runs to the end, in this process: the same `main`, settings from this environment alone."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in ("COATCHECK_ROOT_KEY", "REDIS_URL"):
                patch.delenv(name, raising=False)
            for name, value in self.env.items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            try:
                code = main(arguments)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Done(code, out.getvalue(), err.getvalue())

    def spawn(self, *arguments: str) -> Done:
        """Runs to the end, in a process of its own."""
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
            return Done(process.returncode, out, err)

    def out(self, *arguments: str) -> str:
        """What a command that must succeed wrote to standard output."""
        done = self.run(*arguments)
        assert done.code == 0, done.err
        return done.out.rstrip("\n")

    @contextlib.contextmanager
    def start(self, *arguments: str, program: str = "") -> Iterator[subprocess.Popen[str]]:
        """Runs inside the block; `program` takes the place of the gateway's own."""
        what = ["-c", program] if program else ["-m", "gateway"]
        process = subprocess.Popen(
            [sys.executable, *what, *arguments],
            cwd=self.folder,
            env={"PATH": "", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def shell(redis_server: RedisServer, tmp_path: Path) -> Shell:
    return Shell(tmp_path, {**PATIENT, "COATCHECK_ROOT_KEY": ROOT_KEY, "REDIS_URL": redis_server.url})


@pytest.fixture
def embedded_shell(tmp_path: Path) -> Shell:
    programs, folder = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    folder.mkdir()
    os.symlink(server_binary(), programs / "redis-server")
    return Shell(folder, {**PATIENT, "COATCHECK_ROOT_KEY": ROOT_KEY, "PATH": str(programs)})


__all__ = ["Done", "Shell", "embedded_shell", "shell"]
