"""The demo's last act: a log is exported and verified, one byte of a copy is altered, and the verifier says what it finds."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.admin.evidence import export_log, public_keys
from gateway.audit.anchors.file import FileAnchor
from gateway.audit.offline import read_keys, verify_folder
from gateway.audit.report import describe
from gateway.audit.search.query import Query
from gateway.audit.verify import Verdict
from gateway.demo.screen import Screen
from gateway.demo.stage import Stage

TENANT: Final = "acme"


@dataclass(frozen=True, slots=True)
class Altered:
    """One byte of an exported log, in a copy of it."""

    seq: int
    """Of the event that it belongs to."""
    before: str
    after: str


async def prove(screen: Screen, stage: Stage) -> None:
    screen.act("6  The proof, for whoever does not trust the operator")
    tenant = next(user.tenant for user in stage.users.values() if user.tenant_name == TENANT)
    folder = stage.settings.data / "evidence"
    whole, copy, key = folder / "log", folder / "altered", folder / f"{TENANT}.pub"
    await asyncio.to_thread(_clean, folder)
    anchor = FileAnchor(stage.settings.data / "anchors").path(tenant)
    await export_log(stage.admin, tenant, Query(), whole, lambda done, of: None)
    keys = await public_keys(stage.admin, tenant)
    await asyncio.to_thread(key.write_text, "".join(f"{line}\n" for line in keys))
    verdict = await asyncio.to_thread(_verify, whole, key, anchor)
    screen.line(f"$ python -m gateway audit verify {whole.name} --key {key.name} --anchor {anchor.name}")
    _say(screen, verdict)
    screen.promise(
        f"The log of {TENANT} is whole, by its export, its public key and its anchor alone", _faults(verdict)
    )
    altered = await asyncio.to_thread(_alter, whole, copy)
    screen.note(f"In a copy, one byte of event {altered.seq} becomes another: {altered.before} → {altered.after}")
    found = await asyncio.to_thread(_verify, copy, key, anchor)
    screen.line(f"$ python -m gateway audit verify {copy.name} --key {key.name} --anchor {anchor.name}")
    _say(screen, found)
    named = found.findings[0].seq if found.findings else None
    screen.promise(
        "The altered byte is found, and the event is named",
        [] if named == altered.seq else [f"event {altered.seq} was altered, and the verifier named {named}"],
    )


def _clean(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)


def _verify(folder: Path, key: Path, anchor: Path) -> Verdict:
    return verify_folder(folder, read_keys(key), anchor, processes=1)


def _alter(whole: Path, copy: Path) -> Altered:
    """Makes a refusal in the middle of the log an answer with another status."""
    shutil.copytree(whole, copy)
    for segment in sorted(copy.glob("events-*.jsonl")):
        lines = segment.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines):
            if b'"result":"deny"' in line and b'"status":404' in line:
                lines[number] = line.replace(b'"status":404', b'"status":204', 1)
                segment.write_bytes(b"".join(lines))
                seq = int(line.removeprefix(b'{"seq":').partition(b",")[0])
                return Altered(seq, '"status":404', '"status":204')
    raise AssertionError("the demo has refused something")


def _say(screen: Screen, verdict: Verdict) -> None:
    for line in describe(verdict):
        screen.line(f"  {line}")


def _faults(verdict: Verdict) -> list[str]:
    return [finding.text for finding in verdict.findings]
