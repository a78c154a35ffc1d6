"""The JSON Web Signature vectors of Project Wycheproof (tests/vectors/wycheproof_jws.json, Apache-2.0), each by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.authn.issuer import ALGORITHMS
from gateway.authn.jwks import read_keys
from gateway.authn.jws import check_header, check_signature, take_apart
from gateway.authn.verdict import Refusal

VECTORS: Final = Path(__file__).parent.parent / "vectors" / "wycheproof_jws.json"

STRICTER: Final[Mapping[int, str]] = {
    **dict.fromkeys((259, 264, 268, 272, 320, 325), "an empty payload is no set of claims"),
    **dict.fromkeys((346, 350), "the key is published for PS256, and the token says PS384"),
    **dict.fromkeys((347, 351), "the key is published for ES521, which is no algorithm of RFC 7518"),
}
"""Vectors that are valid and that we refuse on purpose, with the reason."""


def _vectors() -> Iterator[Any]:
    for group in json.loads(VECTORS.read_bytes())["testGroups"]:
        key = group.get("public") or group["private"]
        for vector in group["tests"]:
            number = vector["tcId"]
            symmetric = key["kty"] == "oct"
            accepted = vector["result"] == "valid" and not symmetric and number not in STRICTER
            why = (
                "symmetric_key" if symmetric else "stricter_than_the_vector" if number in STRICTER else vector["result"]
            )
            yield pytest.param(
                key, vector["jws"], accepted, id=f"{number}-{group['comment']}-{vector['comment']}-{why}"
            )


@pytest.mark.parametrize(("key", "token", "accepted"), list(_vectors()))
def test_vector(key: dict[str, Any], token: object, accepted: bool) -> None:
    text = token if isinstance(token, str) else json.dumps(token)
    try:
        compact = take_apart(text.encode())
        model, kid = check_header(compact.header, ALGORITHMS)
        keys = read_keys(json.dumps({"keys": [key]}).encode())
        check_signature(compact, model, kid, keys.get(kid, ()))
    except Refusal:
        assert not accepted
    else:
        assert accepted


def test_all_vectors_are_run() -> None:
    assert len(list(_vectors())) == json.loads(VECTORS.read_bytes())["numberOfTests"] == 401
