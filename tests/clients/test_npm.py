"""The JavaScript clients, unmodified: the tests in npm/ on their own Node.js, against the same gateway."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.clients.house import House
from tests.node import missing_from, node_of, skip_if

FOLDER: Final = Path(__file__).with_name("npm")

pytestmark = skip_if(missing_from(FOLDER))


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.test.mjs")))
def test_a_javascript_client_works_unmodified_and_sees_no_raw_id(name: str, house: House, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    told = {"url": house.url, "keys": house.keys}
    ran = subprocess.run(
        [node_of(FOLDER), "--test", "--test-reporter=tap", name],
        cwd=FOLDER,
        env=os.environ | {"COATCHECK_HOUSE": json.dumps(told), "COATCHECK_SHOWN": str(shown)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    house.check_clean(shown.read_text())
