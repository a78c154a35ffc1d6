"""A bucket of S3's kind: objects that are written once. Signing, credentials and retries are obstore's.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store


class BucketFailed(Exception):
    """It is not known to be kept, or cannot be read. The text names no object."""


@dataclass(frozen=True, slots=True)
class BucketSettings:
    name: str
    prefix: str = ""
    endpoint: str = ""
    """Empty: Amazon's, of `region`."""
    region: str = "us-east-1"
    key_id: str = ""
    """Empty: as the machine or container says who it is."""
    secret: str = field(default="", repr=False)


class Bucket:
    """`timeout_s`: of one request, with its retries."""

    def __init__(self, settings: BucketSettings, timeout_s: float = 10.0) -> None:
        self._prefix = settings.prefix.strip("/")
        limit = timedelta(seconds=timeout_s)
        options: dict[str, Any] = {"bucket": settings.name, "region": settings.region, "conditional_put": "etag"}
        if settings.endpoint:
            options |= {"endpoint": settings.endpoint, "virtual_hosted_style_request": False}
        if settings.key_id:
            options |= {"access_key_id": settings.key_id, "secret_access_key": settings.secret}
        self._store = S3Store(
            client_options={"allow_http": settings.endpoint.startswith("http://"), "timeout": limit},
            retry_config={
                "max_retries": 2,
                "retry_timeout": limit,
                "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=1), "base": 2},
            },
            **options,
        )

    async def create(self, name: str, data: bytes) -> bytes | None:
        """Writes the object where there is none; None, or the bytes of the one that is there. Raises BucketFailed."""
        try:
            await self._store.put_async(self._path(name), data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return await self.read(name)
        except (BaseError, OSError) as error:
            raise BucketFailed(f"the bucket did not take an object ({type(error).__name__})") from None
        return None

    async def read(self, name: str) -> bytes:
        """Raises BucketFailed."""
        return await self._read(self._path(name))

    async def first(self, folder: str) -> bytes | None:
        """The object below `folder` whose name is the first; None where there is none. Raises BucketFailed."""
        try:
            async for page in self._store.list(self._path(folder) + "/", chunk_size=1):
                for row in page:
                    return await self._read(row["path"])
        except (BaseError, OSError) as error:
            raise BucketFailed(f"the bucket cannot be listed ({type(error).__name__})") from None
        return None

    async def _read(self, path: str) -> bytes:
        try:
            return bytes(await (await self._store.get_async(path)).bytes_async())
        except (BaseError, OSError) as error:
            raise BucketFailed(f"the bucket cannot be read ({type(error).__name__})") from None

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name
