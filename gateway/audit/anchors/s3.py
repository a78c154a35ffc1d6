"""The anchor in a bucket: an object per note, written only where none is.

Names count downward, so that a listing's first is the newest: `<log's name>/<epoch>/<size>`, each number subtracted from its
highest. A bucket with object lock makes it an anchor that its own operator cannot cut.
"""

from __future__ import annotations

from typing import Final

from gateway.audit.anchors.bucket import Bucket, BucketFailed
from gateway.audit.anchors.contract import AnchorFailed, AnchorForked, Kept
from gateway.audit.checkpoint import Checkpoint, read_unverified
from gateway.audit.tree import Frontier

_HIGHEST_EPOCH: Final = 10**9
_HIGHEST_SIZE: Final = 10**19


class S3Anchor:
    name = "s3"
    required = True
    pause_s = 0.0

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def append(self, checkpoint: Checkpoint, note: str, tree: Frontier) -> None:
        name = f"{checkpoint.name}/{_down(checkpoint.epoch, _HIGHEST_EPOCH)}/{_down(checkpoint.size, _HIGHEST_SIZE)}"
        try:
            met = await self._bucket.create(name, note.encode())
        except BucketFailed as failed:
            raise AnchorFailed(str(failed)) from None
        there = read_unverified(met.decode("utf-8", "replace")) if met is not None else checkpoint
        if there is None or there.text != checkpoint.text:
            raise AnchorForked("the bucket holds another tree of this size")

    async def newest(self, log: str) -> Kept | None:
        try:
            found = await self._bucket.first(log)
        except BucketFailed as failed:
            raise AnchorFailed(str(failed)) from None
        return Kept(found.decode("utf-8", "replace")) if found is not None else None

    async def aclose(self) -> None: ...


def _down(number: int, highest: int) -> str:
    return f"{highest - number:0{len(str(highest))}}"
