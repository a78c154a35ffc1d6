from __future__ import annotations

from gateway.ids.keys import DeploymentKeys
from gateway.names import TenantId
from gateway.stores.claims import claimed_by, own_key, seal_tenant

KEYS = DeploymentKeys.derive(b"s" * 40, b"t" * 32, 1)
OTHER = DeploymentKeys.derive(b"o" * 40, b"t" * 32, 1)
ACME = TenantId("abcdefghijklmnop")
NONCE = b"n" * 12
RAW = "resp_0c392a2e7f017469006a6c0507abcdef0123456789abcdef01"


def test_a_claim_names_its_tenant_to_the_deployment_alone() -> None:
    own = own_key(KEYS, "proj", RAW)
    sealed = seal_tenant(KEYS, own, ACME, NONCE)
    assert claimed_by(KEYS, own, sealed) == ACME
    assert claimed_by(OTHER, own, sealed) is None
    assert ACME.encode() not in sealed


def test_a_claim_moved_to_another_raw_id_names_nobody() -> None:
    sealed = seal_tenant(KEYS, own_key(KEYS, "proj", RAW), ACME, NONCE)
    assert claimed_by(KEYS, own_key(KEYS, "proj", RAW[:-1] + "2"), sealed) is None
    assert claimed_by(KEYS, own_key(KEYS, "other", RAW), sealed) is None


def test_a_changed_value_names_nobody() -> None:
    own = own_key(KEYS, "proj", RAW)
    sealed = seal_tenant(KEYS, own, ACME, NONCE)
    for at in range(len(sealed)):
        assert claimed_by(KEYS, own, sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]) is None
        assert claimed_by(KEYS, own, sealed[:at]) is None


def test_the_key_of_a_claim_is_64_hex_digits_that_only_the_deployment_can_compute() -> None:
    assert len(own_key(KEYS, "proj", RAW)) == len(bytes.fromhex(own_key(KEYS, "proj", RAW).decode())) * 2 == 64
    assert own_key(KEYS, "proj", RAW) == own_key(KEYS, "proj", RAW)
    assert own_key(KEYS, "proj", RAW) != own_key(OTHER, "proj", RAW)
