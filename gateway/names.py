"""The nouns that every layer shares. This module imports nothing of ours and does nothing."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType

RequestId = NewType("RequestId", str)
"""`req_` and 32 hex digits; made by the gateway for every request, and the only request ID that a client sees."""

TenantId = NewType("TenantId", str)
"""16 lower-case base32 characters, random, never reused, never derived from the tenant's name."""

_TENANT_ID: Final = re.compile(r"[a-z2-7]{16}")
_REPR_KEY = os.urandom(16)


def is_tenant_id(text: str) -> bool:
    """Whether it looks like one."""
    return _TENANT_ID.fullmatch(text) is not None


class Kind(StrEnum):
    """What an ID names. The value stands in storage keys, so it never changes once released."""

    RESPONSE = "response"
    CONVERSATION = "conversation"
    ITEM = "item"
    FILE = "file"
    UPLOAD = "upload"
    UPLOAD_PART = "upload_part"
    VECTOR_STORE = "vector_store"
    VECTOR_STORE_BATCH = "vector_store_batch"
    BATCH = "batch"
    CONTAINER = "container"
    CONTAINER_FILE = "container_file"
    CHAT_COMPLETION = "chat_completion"
    CHAT_MESSAGE = "chat_message"
    CHAT_AUDIO = "chat_audio"
    SKILL = "skill"
    PROMPT = "prompt"
    TUNNEL = "tunnel"
    VOICE = "voice"
    FINE_TUNING_JOB = "fine_tuning_job"
    VIDEO = "video"
    SKILL_VERSION = "skill_version"
    FINE_TUNING_EVENT = "fine_tuning_event"
    CHECKPOINT = "checkpoint"
    FINE_TUNED_MODEL = "fine_tuned_model"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class OpaqueId:
    """An ID that clients hold: the raw prefix and 34 alphanumeric characters (`gateway/ids/form.py`)."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class RawId:
    """An ID that the upstream service holds. It has no `str()` that shows it: read `.text` where it goes upstream."""

    kind: Kind
    text: str = field(repr=False)

    def __repr__(self) -> str:
        digest = hashlib.blake2b(self.text.encode(), key=_REPR_KEY, digest_size=4).hexdigest()
        return f"RawId({self.kind.value}, #{digest})"

    __str__ = __repr__


class PrincipalKind(StrEnum):
    USER = "user"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Owner:
    """A person or service inside a tenant, written `issuer#subject`. Neither part can be empty."""

    issuer: str
    subject: str

    def __post_init__(self) -> None:
        if not self.issuer or not self.subject:
            raise ValueError("an owner has an issuer and a subject")

    def __str__(self) -> str:
        return f"{self.issuer}#{self.subject}"

    @classmethod
    def parse(cls, text: str) -> Owner:
        """`issuer#subject`; the first `#` divides. Raises ValueError where a part is missing."""
        issuer, _, subject = text.partition("#")
        return cls(issuer, subject)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling, from the verified credential only (never from a header, a body or a path)."""

    tenant: TenantId
    owner: Owner
    kind: PrincipalKind
    auth: str
    """Which authenticator spoke: `jwt` or `api_key`."""
    roles: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    credential: str = ""
    """The API key's tag, whose record `begin` checks in the same call; empty for a JWT."""
    chain: tuple[str, ...] = ()
    """Who acts for the owner (RFC 8693 `act`, or the service that named an actor), outermost first."""


class Visibility(StrEnum):
    PRIVATE = "private"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Tenant:
    id: TenantId
    name: str
    active: bool
    erased: bool = False

    @property
    def state(self) -> str:
        return "active" if self.active else "erased" if self.erased else "suspended"
