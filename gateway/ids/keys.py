"""The key hierarchy: one root key wraps random keys, and HKDF-SHA256 (RFC 5869) derives from each what it is used for.

    root ── deployment secret ─→ K_own K_claim K_erasures, the API keys' pepper
       ├─── tag key           ─→ K_tag                         changed in emergencies only
       └─── per tenant: identity ─→ K_prf K_inert K_token      its version is the ID epoch; changed in emergencies only
                        storage  ─→ K_rec K_cap                rotates freely
    audit root ┬─────── audit    ─→ K_aud K_seal signing seed  rotates freely; the only root key that the console gets
               └ deployment's name, K_erasures, the console's key

A wrapped key is bound to what it is for (`context`), so it opens in no other tenant, purpose or version.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gateway.ids.encoding import lp
from gateway.names import TenantId

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
DEPLOYMENT_NAME_BYTES: Final = 8
MAX_EPOCH: Final = 15
"""Of ID epochs and tag-key versions: each has 4 bits in an opaque ID."""
MAX_VERSION: Final = 255
_DATE_BYTES: Final = 8
_FINGERPRINT_BYTES: Final = 4
_WRAP_VERSION: Final = b"\x01"


class KeyRefused(Exception):
    """A wrapped key does not open: another root key, another context, or changed bytes."""


class RootKey(Protocol):
    """What wraps keys: a local key, a KMS or a transit service. `nonce` is 12 random bytes, for those that need one."""

    def wrap(self, context: bytes, key: bytes, nonce: bytes) -> bytes: ...

    def unwrap(self, context: bytes, blob: bytes) -> bytes:
        """The wrapped bytes. Raises KeyRefused."""
        ...

    def renewed(self, context: bytes, blob: bytes, nonce: bytes) -> bytes | None:
        """The same key, wrapped by the newest root key; None: it is. Raises KeyRefused."""
        ...


class LocalRoot:
    """A root key of 32 bytes from a file or the environment.

    `version ‖ the key's fingerprint[4] ‖ nonce[12] ‖ AES-256-GCM-SIV(key, AAD = lp(context, all before the nonce))`.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError("a root key has 32 bytes")
        self._key = derive(key, "root wrap")
        self._audit = derive(key, "audit root")
        self._head = _WRAP_VERSION + derive(key, "root fingerprint")[:_FINGERPRINT_BYTES]

    def audit_root(self) -> LocalRoot:
        """The second root key, where none is given: it opens audit keys and tells nothing about this one."""
        return LocalRoot(self._audit)

    def wrap(self, context: bytes, key: bytes, nonce: bytes) -> bytes:
        return self._head + nonce + AESGCMSIV(self._key).encrypt(nonce, key, lp(context, self._head))

    def unwrap(self, context: bytes, blob: bytes) -> bytes:
        head, rest = blob[: len(self._head)], blob[len(self._head) :]
        if head != self._head:
            raise KeyRefused("wrapped under another root key")
        try:
            return AESGCMSIV(self._key).decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], lp(context, head))
        except (InvalidTag, ValueError) as error:
            raise KeyRefused("the wrapped key was changed or belongs elsewhere") from error

    def renewed(self, context: bytes, blob: bytes, nonce: bytes) -> bytes | None:
        self.unwrap(context, blob)
        return None


class RootRotation:
    """Root keys while one takes the place of others: what a former one wrapped still opens, the newest wraps."""

    def __init__(self, newest: RootKey, *formers: RootKey) -> None:
        self._newest = newest
        self._formers = formers

    def wrap(self, context: bytes, key: bytes, nonce: bytes) -> bytes:
        return self._newest.wrap(context, key, nonce)

    def unwrap(self, context: bytes, blob: bytes) -> bytes:
        for root in (self._newest, *self._formers):
            with contextlib.suppress(KeyRefused):
                return root.unwrap(context, blob)
        raise KeyRefused("wrapped under another root key, changed, or belongs elsewhere")

    def renewed(self, context: bytes, blob: bytes, nonce: bytes) -> bytes | None:
        with contextlib.suppress(KeyRefused):
            return self._newest.renewed(context, blob, nonce)
        return rewrap(self, self._newest, context, blob, nonce)


class Purpose(StrEnum):
    """The three independent keys of a tenant."""

    IDENTITY = "identity"
    STORAGE = "storage"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class IdentityKeys:
    """Behind a tenant's IDs (`form.py`) and tokens (`tokens.py`)."""

    prf: bytes = field(repr=False)
    inert: bytes = field(repr=False)
    token: bytes = field(repr=False)

    @classmethod
    def derive(cls, key: bytes) -> IdentityKeys:
        return cls(derive(key, "prf"), derive(key, "inert"), derive(key, "token"))


@dataclass(frozen=True, slots=True)
class StorageKeys:
    """Behind a tenant's records (`stores/records.py`) and replay blobs (`blobs.py`)."""

    rec: bytes = field(repr=False)
    cap: bytes = field(repr=False)
    box: AESGCMSIV = field(init=False, repr=False, compare=False)
    """`rec`, ready for use: making it costs what using it costs."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "box", AESGCMSIV(self.rec))

    @classmethod
    def derive(cls, key: bytes) -> StorageKeys:
        return cls(derive(key, "rec"), derive(key, "cap"))


@dataclass(frozen=True, slots=True)
class AuditKeys:
    """Behind a tenant's log: `aud` for pseudonyms, `seal` for personal fields, `mac` for what was written by a gateway, `seed`
    of the Ed25519 signing key."""

    aud: bytes = field(repr=False)
    seal: bytes = field(repr=False)
    seed: bytes = field(repr=False)
    mac: bytes = field(repr=False)

    @classmethod
    def derive(cls, key: bytes) -> AuditKeys:
        return cls(derive(key, "aud"), derive(key, "seal"), derive(key, "sign"), derive(key, "mac"))


K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Versions(Generic[K]):
    """Keys of one purpose. New things use `current`; things that state another version open, too."""

    keys: Mapping[int, K] = field(repr=False)
    current: int

    def __post_init__(self) -> None:
        if self.current not in self.keys:
            raise ValueError("the current version has a key")

    @property
    def newest(self) -> K:
        return self.keys[self.current]

    @classmethod
    def at(cls, now_s: float, secrets: Mapping[int, bytes], derive_: Callable[[bytes], K]) -> Versions[K]:
        """The keys that wrapped secrets hold: a key, and behind it (`dated`) the moment from which it is used; until then it
        opens what others have used it for. Raises KeyRefused for a secret of another length."""
        if any(len(secret) not in (KEY_BYTES, KEY_BYTES + _DATE_BYTES) for secret in secrets.values()):
            raise KeyRefused("not a tenant's key")
        begun = [version for version, secret in secrets.items() if int.from_bytes(secret[KEY_BYTES:]) <= now_s]
        keys = {version: derive_(secret[:KEY_BYTES]) for version, secret in secrets.items()}
        return cls(keys, max(begun, default=min(secrets)))


@dataclass(frozen=True, slots=True)
class TenantKeys:
    """Everything derived from a tenant's wrapped keys. Versions are 1 to 255, of identity 1 to 15."""

    tenant: TenantId
    identity: Versions[IdentityKeys]
    storage: Versions[StorageKeys]
    audit: Versions[AuditKeys]


@dataclass(frozen=True, slots=True)
class DeploymentKeys:
    """What every tenant shares: who the deployment is, and the keys that are no tenant's."""

    deployment: str
    """16 hex digits, random."""
    tag: Versions[bytes]
    """Holds the current version alone: another version is retired, and so are its IDs."""
    own: bytes = field(repr=False)
    claim: bytes = field(repr=False)
    """Seals the tenant in an `own` claim (`stores/claims.py`)."""
    pepper: bytes = field(repr=False)
    erasures: bytes = field(repr=False)

    @classmethod
    def derive(cls, secret: bytes, tag_key: bytes, tag_version: int) -> DeploymentKeys:
        """From the two keys that are stored wrapped: `secret`, 40 random bytes of which the first 8 are the name, and
        `tag_key`, 32 bytes that are apart because they are retired alone. Raises KeyRefused for another length."""
        name, key = secret[:DEPLOYMENT_NAME_BYTES], secret[DEPLOYMENT_NAME_BYTES:]
        if len(key) != KEY_BYTES or len(tag_key) != KEY_BYTES or not 1 <= tag_version <= MAX_EPOCH:
            raise KeyRefused("not a deployment's keys")
        tag = Versions({tag_version: derive(tag_key, "tag")}, tag_version)
        return cls(name.hex(), tag, *(derive(key, purpose) for purpose in ("own", "claim", "pepper", "erasures")))


@dataclass(frozen=True, slots=True)
class AuditDeploymentKeys:
    """What the audit root key opens of the deployment: its name, the key that the erasure list is checked with, and the key
    behind the console's sessions."""

    deployment: str
    erasures: bytes = field(repr=False)
    console: bytes = field(repr=False)

    @classmethod
    def parse(cls, secret: bytes) -> AuditDeploymentKeys:
        """Raises KeyRefused for another length."""
        name, keys = secret[:DEPLOYMENT_NAME_BYTES], secret[DEPLOYMENT_NAME_BYTES:]
        if len(keys) != 2 * KEY_BYTES:
            raise KeyRefused("not a deployment's audit keys")
        return cls(name.hex(), keys[:KEY_BYTES], keys[KEY_BYTES:])

    def to_bytes(self) -> bytes:
        return bytes.fromhex(self.deployment) + self.erasures + self.console


def dated(key: bytes, from_s: int) -> bytes:
    """A key that is used from a moment on, UTC seconds."""
    return key + from_s.to_bytes(_DATE_BYTES)


def derive(key: bytes, purpose: str) -> bytes:
    """32 bytes by HKDF-SHA256 (RFC 5869), no salt, `purpose` in the info."""
    return HKDF(SHA256(), KEY_BYTES, None, b"coatcheck " + purpose.encode()).derive(key)


def tenant_key_context(deployment: str, tenant: TenantId, purpose: Purpose, version: int) -> bytes:
    """What a tenant's wrapped key is bound to."""
    return lp("coatcheck tenant key", deployment, tenant, purpose.value, bytes([version]))


def deployment_key_context(name: str) -> bytes:
    """What a deployment's wrapped key is bound to. `name`: as stored, `master`, `tag.<version>` or `audit`."""
    return lp("coatcheck deployment key", name)


def rewrap(old: RootKey, new: RootKey, context: bytes, blob: bytes, nonce: bytes) -> bytes:
    """Root rotation: the same key under another root key, so that no ID, record or log changes. Raises KeyRefused."""
    key = old.unwrap(context, blob)
    wrapped = new.wrap(context, key, nonce)
    if not hmac.compare_digest(new.unwrap(context, wrapped), key):
        raise KeyRefused("the new root key does not give back what it wrapped")
    return wrapped
