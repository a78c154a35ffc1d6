"""The Node.js that the npm packages of a folder bring, and what a test says and does where something is missing."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Final

import pytest

_MACHINES: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
PLATFORM: Final = f"{platform.system().lower()}-{_MACHINES.get(platform.machine().lower(), platform.machine())}"
"""As npm names it in packages: `linux-x64`."""


def node_of(folder: Path) -> Path:
    """Pinned beside the packages, because the one on PATH may be too old for them."""
    return folder / "node_modules" / f"node-{PLATFORM}" / "bin" / "node"


def missing_from(folder: Path, *packages: str) -> str:
    """Why the packages of `folder` can't be used, or nothing."""
    installed = folder / "node_modules"
    if not any(installed.glob("*/package.json")):
        with_npm = "run `make setup`" if shutil.which("npm") else "npm is not on PATH (Debian: apt-get install npm)"
        return f"the npm packages of {folder.parent.name}/{folder.name} are not installed: {with_npm}"
    if not node_of(folder).exists():
        return f"npm brought no Node.js for {PLATFORM}"
    return "".join(f"npm brought no {name}" for name in packages if not (installed / name).is_dir())


def skip_if(missing: str) -> pytest.MarkDecorator:
    """A mark that skips and says why. CI installs everything, so there it is an error: nothing may pass by being left out."""
    if missing and os.environ.get("CI"):
        pytest.fail(f"in CI nothing is skipped, but {missing}", pytrace=False)
    return pytest.mark.skipif(bool(missing), reason=missing or "nothing is missing")
