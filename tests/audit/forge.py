"""What somebody does to an export who can write its files, and, where asked, sign its manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from gateway.audit.layout import MANIFEST, SIGNATURE, Manifest, Segment, segment_name, write_line
from gateway.audit.tree import Tree, leaf
from tests.audit.written_log import WrittenLog

PER_FILE = 16


class Forger:
    """An export's lines, and the events in them. `rewrite` makes all good again that needs no new checkpoint."""

    def __init__(self, folder: Path, log: WrittenLog) -> None:
        self.folder = folder
        self.log = log
        self.paths = sorted(folder.glob("events-*.jsonl"))
        self.lines = [line for path in self.paths for line in path.read_bytes().splitlines(keepends=True)]
        self.bodies = [line[line.index(b'"event":') + 8 : -2] for line in self.lines]

    def save(self) -> None:
        """The lines as they are now, and no other file: the first file takes what does not fit into the others."""
        rest = list(self.lines)
        for path in reversed(self.paths[1:]):
            rest, own = rest[: -len(path.read_bytes().splitlines())], rest[-len(path.read_bytes().splitlines()) :]
            path.write_bytes(b"".join(own))
        self.paths[0].write_bytes(b"".join(rest))

    def change_bytes(self, seq: int, old: bytes, new: bytes) -> None:
        assert old in self.lines[seq - 1]
        self.lines[seq - 1] = self.lines[seq - 1].replace(old, new, 1)
        self.save()

    def rewrite(self, seed: bytes | None = None) -> None:
        """New files for `bodies`: leaves, numbers, digests and the manifest's signature are right."""
        for path in self.paths:
            path.unlink()
        self._write(
            [
                (seq, write_line(seq, leaf(self.log.tenant, seq, body), body))
                for seq, body in enumerate(self.bodies, start=1)
            ],
            seed,
        )

    def replace_selection(self, other: WrittenLog, result: str) -> None:
        """The selection's events become another log's, each with a proof that is good there."""
        for path in self.paths:
            path.unlink()
        tree = Tree()
        tree.extend(other.leaves())
        found = [
            (seq, body)
            for seq, body in enumerate(other.bodies, start=1)
            if (orjson.loads(body)["outcome"] or {}).get("result") == result
        ]
        proofs = [tree.inclusion(seq - 1, len(other.bodies)) for seq, _ in found]
        lines = [
            (seq, write_line(seq, leaf(other.tenant, seq, body), body, proof))
            for (seq, body), proof in zip(found, proofs, strict=True)
        ]
        self._write(lines, None)

    def _write(self, lines: Sequence[tuple[int, bytes]], seed: bytes | None) -> None:
        segments = []
        for at in range(0, len(lines), PER_FILE):
            some = lines[at : at + PER_FILE]
            data = b"".join(line for _, line in some)
            name = segment_name(some[0][0])
            (self.folder / name).write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
            segments.append(Segment(name, some[0][0], some[-1][0], len(some), digest))
        manifest = Manifest.from_bytes((self.folder / MANIFEST).read_bytes())
        last = manifest.last if manifest.selection else lines[-1][0]
        manifest = replace(manifest, last=last, count=len(lines), segments=tuple(segments))
        (self.folder / MANIFEST).write_bytes(manifest.to_bytes())
        (self.folder / SIGNATURE).write_text(manifest.sign(seed or self.log.seed))


def rechained(bodies: Sequence[bytes]) -> list[bytes]:
    """The same events, each writer's chain made anew."""
    last: dict[str, tuple[int, str]] = {}
    made = []
    for body in bodies:
        event = orjson.loads(body)
        wseq, digest = last.get(event["writer"], (0, "0" * 64))
        event |= {"wseq": wseq + 1, "wprev": digest, "id": f"{event['writer']}.{wseq + 1}"}
        body = orjson.dumps(event, option=orjson.OPT_SORT_KEYS)  # noqa: PLW2901
        last[event["writer"]] = (wseq + 1, hashlib.sha256(body).hexdigest())
        made.append(body)
    return made
