"""Signatures of compact tokens (RFC 7515 section 3.1, RFC 7518). Pure.

The header and payload that are used are the very bytes that were signed, each parsed once by `json_object`. A key never
comes from the token: `jwk`, `jku`, `x5u` and `x5c` are ignored (RFC 8725 section 3.10).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwa import JWS_ALGORITHMS, JWSAlgModel
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.util import urlsafe_b64decode

from gateway.authn.issuer import ALGORITHMS
from gateway.authn.json_object import parse_object
from gateway.authn.verdict import Refusal, Why

MAX_TOKEN_BYTES: Final = 16 * 1024
_COMPACT: Final = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_MIN_RSA_BITS: Final = 2048
_MAX_RSA_BITS: Final = 8192
_MAX_EXPONENT_CHARS: Final = 6
"""Base64url of at most 32 bits: a huge exponent makes each verification slow."""
_MODELS: Final[Mapping[str, JWSAlgModel]] = {model.name: model for model in JWS_ALGORITHMS if model.name in ALGORITHMS}

VerificationKey = RSAKey | ECKey | OKPKey


@dataclass(frozen=True, slots=True)
class Compact:
    """A token taken apart, nothing of it verified."""

    header: Mapping[str, object]
    payload: bytes
    signing_input: bytes
    signature: bytes


def take_apart(token: bytes) -> Compact:
    """Three segments in the one spelling of base64url, the first a JSON object. Raises Refusal."""
    if len(token) > MAX_TOKEN_BYTES:
        raise Refusal(Why.TOO_LARGE)
    match = _COMPACT.fullmatch(token)
    if match is None:
        raise Refusal(Why.MALFORMED)
    try:
        header, payload, signature = (urlsafe_b64decode(segment) for segment in match.groups())
    except ValueError:
        raise Refusal(Why.MALFORMED) from None
    try:
        members = parse_object(header)
    except ValueError:
        raise Refusal(Why.HEADER_MALFORMED) from None
    return Compact(members, payload, token[: match.end(2)], signature)


def check_header(header: Mapping[str, object], algorithms: Collection[str]) -> tuple[JWSAlgModel, str | None]:
    """The algorithm, if it is one of `algorithms`, and the key ID. Raises Refusal.

    No extension is understood, so `crit` is refused (RFC 7515 section 4.1.11), and `b64` with it (RFC 7797).
    """
    if "crit" in header or "b64" in header:
        raise Refusal(Why.CRITICAL_HEADER)
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in algorithms or algorithm not in _MODELS:
        raise Refusal(Why.ALGORITHM_NOT_ALLOWED)
    if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= 256):
        raise Refusal(Why.HEADER_MALFORMED)
    return _MODELS[algorithm], kid


def check_signature(compact: Compact, model: JWSAlgModel, kid: str | None, keys: Sequence[VerificationKey]) -> None:
    """Raises Refusal unless one of `keys` (those under `kid`, or all of the issuer where the token names none) made the
    signature. A token without `kid` needs exactly one key that fits: guessing among several is not verifying."""
    fitting = [key for key in keys if _fits(model, key)]
    if not fitting or (kid is None and len(fitting) > 1):
        raise Refusal(Why.KEY_UNKNOWN)
    for key in fitting:
        try:
            if model.verify(compact.signing_input, compact.signature, key):
                return
        except (JoseError, ValueError):
            continue
    raise Refusal(Why.SIGNATURE_WRONG)


def import_key(jwk: Mapping[str, Any]) -> VerificationKey | None:
    """The public key of one JWK (RFC 7517), or None where it cannot verify a signature for us: a symmetric or private
    key, one for encryption, an RSA key below 2048 bits (NIST SP 800-131A) or of unreasonable size."""
    try:
        if "d" in jwk or "k" in jwk or jwk.get("use", "sig") != "sig" or "verify" not in jwk.get("key_ops", ["verify"]):
            return None
        match jwk.get("kty"):
            case "RSA":
                # Looked at before the import, which warns of a short key instead of refusing it.
                return RSAKey.import_key(dict(jwk)) if _sound_rsa(jwk["n"], jwk["e"]) else None
            case "EC":
                return ECKey.import_key(dict(jwk))
            case "OKP":
                return OKPKey.import_key(dict(jwk))
            case _:
                return None
    except (JoseError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _sound_rsa(modulus: str, exponent: str) -> bool:
    bits = int.from_bytes(urlsafe_b64decode(modulus.encode())).bit_length()
    return _MIN_RSA_BITS <= bits <= _MAX_RSA_BITS and len(exponent) <= _MAX_EXPONENT_CHARS


def _fits(model: JWSAlgModel, key: VerificationKey) -> bool:
    """Key type, curve, `use` and `alg` agree with the algorithm (RFC 8725 section 3.1)."""
    try:
        model.check_key(key)
    except JoseError:
        return False
    return True
