"""The key that this gateway shows to an upstream. It is read in one place, where the outgoing headers are built."""

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(r"[\x21-\x7e]{1,1024}")
_ACCOUNT = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True, slots=True)
class UpstreamCredential:
    """An API key, and the organization and project it is used for; `repr` shows nothing. ValueError if not sendable."""

    api_key: str = field(repr=False)
    organization: str | None = field(default=None, repr=False)
    project: str | None = field(default=None, repr=False)
    api_key_header: bool = field(default=False, repr=False)
    """The key is shown as `api-key`, and not as a bearer (Azure OpenAI)."""

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.api_key):
            raise ValueError("an upstream's API key is 1 to 1,024 visible ASCII characters")
        for name in ("organization", "project"):
            value = getattr(self, name)
            if value is not None and not _ACCOUNT.fullmatch(value):
                raise ValueError(f"an upstream's {name} is 1 to 128 letters, digits, _ or -")
