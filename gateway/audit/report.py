"""A verdict in words, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.audit.proof import Proven
from gateway.audit.verify import Verdict


def describe(verdict: Verdict) -> Iterator[str]:
    """The verdict in its first line, then what it rests on or what is wrong, a line each."""
    manifest, head = verdict.manifest, verdict.head
    what = f"{_events(manifest.count)} of {manifest.origin}"
    if verdict.findings or head is None:
        yield f"NOT WHOLE: {verdict.findings[0].text}" if verdict.findings else "NOT WHOLE"
        told = set()
        for finding in verdict.findings:
            if finding is not verdict.findings[0]:
                yield f"also: {finding.text}"
            if finding.fault not in told:
                yield f"  {finding.meaning}"
            told.add(finding.fault)
        return
    if manifest.selection:
        yield f"WHOLE: {what} are in the log of {_events(head.size)} that was signed"
        yield "  That nothing else was found is what the operator says: only an export without a filter can show it."
    else:
        yield f"WHOLE: {what}, from {manifest.first:,} to {manifest.last:,}, in the log of {_events(head.size)} that was signed"
    if manifest.query:
        yield f"  Asked for: {_printable('  '.join(f'{name}={value}' for name, value in manifest.query))}"
    if manifest.first > 1 and "since" not in dict(manifest.query):
        yield f"  It begins with event {manifest.first:,}: what was before must be in the archive, or it was taken away."
    yield from _anchored(verdict)
    for one in verdict.reseals:
        yield f"  Events were lost before number {one.seq:,}, and an operator accepted that."


def describe_proven(proven: Proven) -> Iterator[str]:
    checkpoint = proven.checkpoint
    yield f"PROVEN: event {proven.seq:,} of {checkpoint.origin} is in the log of {_events(checkpoint.size)} that was signed"


def _anchored(verdict: Verdict) -> Iterator[str]:
    if verdict.anchored is None:
        yield "  Not held against an anchor: that no other history was ever signed is what the operator says."
        return
    if verdict.not_anchored:
        yield f"  The newest {_events(verdict.not_anchored)} of it are not yet anchored."
    else:
        yield "  All of it is anchored."
    if verdict.uncompared:
        yield f"  {verdict.uncompared:,} anchored checkpoints are of sizes that this export does not hold."


def _printable(text: str) -> str:
    """What others wrote cannot steer the terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _events(count: int) -> str:
    return f"{count:,} event{'s' * (count != 1)}"
