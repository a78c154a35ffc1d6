"""A written log, what was anchored of it and a place for exports: what tests of the verifier work on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gateway.audit.faults import Fault, Finding
from gateway.audit.offline import read_keys, verify_folder
from gateway.audit.verify import Verdict
from tests.audit.written_log import START_US, STEP_US, WrittenLog

COUNT = 100


@dataclass
class Bench:
    """A log of 100 events, what was anchored of it, and a place for exports."""

    log: WrittenLog
    folder: Path
    key: Path
    anchor: Path

    def export(self, *query: tuple[str, str], log: WrittenLog | None = None, **options: int) -> Path:
        (log or self.log).export(self.folder, *query, **options)  # type: ignore[arg-type]
        return self.folder

    def verify(self, *, anchored: bool = True, accept_loss: bool = False) -> Verdict:
        anchor = self.anchor if anchored else None
        return verify_folder(self.folder, read_keys(self.key), anchor, accept_loss=accept_loss)

    def first(self, **options: bool) -> Finding:
        return self.verify(**options).findings[0]

    def faults(self, **options: bool) -> list[Fault]:
        return [finding.fault for finding in self.verify(**options).findings]

    def anchor_notes(self, *notes: str) -> None:
        self.anchor.write_text("\n".join(notes))


def moment(number: int) -> str:
    """The time of an event."""
    seconds = (START_US + number * STEP_US) // 1_000_000
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
