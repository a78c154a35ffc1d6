"""A test that needs what is not installed: it names what is missing, and in CI it is never left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node import PLATFORM, missing_from, node_of, skip_if


def test_what_is_missing_skips_by_name_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    mark = skip_if("Chromium is not installed").mark
    assert (mark.name, mark.args, mark.kwargs) == ("skipif", (True,), {"reason": "Chromium is not installed"})
    assert skip_if("").mark.args == (False,)


def test_what_is_missing_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="nothing is skipped, but Chromium is not installed"):
        skip_if("Chromium is not installed")
    assert skip_if("").mark.args == (False,)


def test_a_folder_tells_what_npm_did_not_bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "npm is not on PATH" in missing_from(tmp_path)
    (tmp_path / "node_modules" / "ms").mkdir(parents=True)
    (tmp_path / "node_modules" / "ms" / "package.json").touch()
    assert missing_from(tmp_path) == f"npm brought no Node.js for {PLATFORM}"
    node_of(tmp_path).parent.mkdir(parents=True)
    node_of(tmp_path).touch()
    assert missing_from(tmp_path, "ms") == ""
    assert missing_from(tmp_path, "ms", "@openai/codex-plan9-x64") == "npm brought no @openai/codex-plan9-x64"
